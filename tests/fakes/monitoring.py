"""A real Prometheus and a real Alertmanager on loopback, and a receiver for what they send: nothing here is a fake but the receiver."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from daemon_process import wait_until

START_SECONDS_MAX = 60.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@dataclass(frozen=True)
class Binaries:
    """Where the programs of one release are."""

    directory: Path

    def command(self, name: str, *arguments: str) -> list[str]:
        return [str(self.directory / name), *arguments]

    def run(self, name: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(name, *arguments), capture_output=True, text=True, check=False, cwd=cwd
        )


@dataclass
class Server:
    """One of the two, and its API."""

    port: int

    def get(self, path: str, **query: str | list[str]):
        text = urllib.parse.urlencode(query, doseq=True)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}?{text}", timeout=20) as answer:
            return json.load(answer)

    def post(self, path: str, document) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            json.dumps(document).encode(),
            {"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=20).close()

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            url = f"http://127.0.0.1:{self.port}/-/ready"
            return urllib.request.urlopen(url, timeout=5).status == 200
        return False


@contextlib.contextmanager
def _serving(command: list[str], port: int, log: Path) -> Iterator[Server]:
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
    server = Server(port)
    try:
        wait_until(server.is_ready, seconds=START_SECONDS_MAX, what=f"readiness of {command[0]}")
        yield server
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def prometheus(binaries: Binaries, directory: Path, config: dict) -> Iterator[Server]:
    """`config` as its file has it; JSON is YAML."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "prometheus.json"
    file.write_text(json.dumps(config))
    port = free_port()
    command = binaries.command(
        "prometheus",
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        # What fires before Alertmanager has been discovered is lost, and is sent again only after this (a minute).
        "--rules.alert.resend-delay=5s",
    )
    with _serving(command, port, directory / "prometheus.log") as server:
        yield server


@contextlib.contextmanager
def alertmanager(binaries: Binaries, directory: Path, config: dict) -> Iterator[Server]:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "alertmanager.json"
    file.write_text(json.dumps(config))
    port = free_port()
    command = binaries.command(
        "prometheus-alertmanager",
        f"--config.file={file}",
        f"--storage.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",  # no gossip
    )
    with _serving(command, port, directory / "alertmanager.log") as server:
        yield server


@dataclass(frozen=True)
class Notice:
    """One alert in one notification."""

    receiver: str
    status: str
    name: str
    labels: dict[str, str]
    annotations: dict[str, str]
    after_seconds: float


@dataclass
class Webhook:
    """Keeps every alert that it is sent, by the last part of the path."""

    port: int = 0
    notices: list[Notice] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def of(self, name: str, status: str = "firing", **labels: str) -> list[Notice]:
        return [
            notice
            for notice in self.notices
            if (notice.name, notice.status) == (name, status) and labels.items() <= notice.labels.items()
        ]

    def wait_for(self, name: str, status: str = "firing", *, seconds: float = 30.0, **labels: str) -> Notice:
        return wait_until(lambda: self.of(name, status, **labels), seconds=seconds, what=f"{name}, {status}")[
            0
        ]

    def take(self, path: str, document: dict) -> None:
        for alert in document["alerts"]:
            self.notices.append(
                Notice(
                    receiver=path.rpartition("/")[2],
                    status=alert["status"],
                    name=alert["labels"]["alertname"],
                    labels=alert["labels"],
                    annotations=alert["annotations"],
                    after_seconds=time.monotonic() - self.started,
                )
            )


@contextlib.contextmanager
def webhook() -> Iterator[Webhook]:
    kept = Webhook()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            kept.take(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.port = server.server_port
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
