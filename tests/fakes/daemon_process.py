"""The daemon as a process of its own: started, scraped, killed, as an operator's tools would."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

READY_SECONDS_MAX = 60.0
END_SECONDS_MAX = 30.0

BASE_CONFIG = """
[store]
directory = "{directory}/state"
min_free = "0"

[log]
format = "json"
level = "debug"

[web]
listen_address = "127.0.0.1:0"

[snapshot]
interval = "1s"

[benchmark]
lock_file = "{directory}/run/gpu.lock"

[guards]
quiet_by_hand = "0s"
inhibit_file = "{directory}/inhibit"
"""


def write_daemon_config(directory: Path, extra: str = "") -> Path:
    """The configuration of a daemon that keeps everything in `directory`."""
    path = directory / "config.toml"
    path.write_text(BASE_CONFIG.format(directory=directory) + extra)
    return path


def wait_until(condition, *, seconds=30.0, what="the condition"):
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come within {seconds} s")


def pids_with(marker: str) -> list[int]:
    """Every living process that has `marker` in its command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if marker.encode() in text and state not in "ZX":
            found.append(int(entry.name))
    return found


@dataclass
class DaemonProcess:
    """`start` returns once /-/ready says so; the port is the kernel's choice, read from the log."""

    config: Path
    environment: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = (sys.executable, "-m", "gpumond", "run", "--config")
    """What the path of the configuration is appended to."""
    client: ssl.SSLContext | None = None
    """How to connect; None is plain text."""
    headers: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    port: int = 0
    log: Path | None = None

    def start(self) -> DaemonProcess:
        self.launch()
        self.port = wait_until(self._find_port, seconds=READY_SECONDS_MAX, what="http_listening in the log")
        wait_until(lambda: self.get("/-/ready")[0] == 200, seconds=READY_SECONDS_MAX, what="readiness")
        return self

    def launch(self) -> None:
        self.log = self.config.with_suffix(".log")
        with self.log.open("ab") as stream:
            self._offset = stream.tell()
            self.process = subprocess.Popen(
                [*self.command, str(self.config)],
                stdout=stream,
                stderr=stream,
                env=os.environ | self.environment,
            )

    def events(self) -> list[dict]:
        """What this start has logged."""
        text = self.log.read_bytes()[self._offset :].decode(errors="replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]

    def event(self, name: str) -> dict | None:
        return next((event for event in self.events() if event["event"] == name), None)

    def _find_port(self) -> int:
        assert self.process.poll() is None, f"the daemon ended: {self.log.read_text()[-2000:]}"
        event = self.event("http_listening")
        return event["port"] if event else 0

    def get(self, path: str) -> tuple[int, str]:
        connection = self._connect()
        try:
            connection.request("GET", path, headers=self.headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        if self.client is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=self.client)

    def samples(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Every sample of /metrics; a series that is there twice fails."""
        status, text = self.get("/metrics")
        assert status == 200
        found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in found, f"{key} twice"
                found[key] = sample.value
        return found

    def value(self, name: str, **labels: str) -> float | None:
        """The one sample with this name and at least these labels."""
        matching = [
            value
            for (found, pairs), value in self.samples().items()
            if found == name and set(labels.items()) <= set(pairs)
        ]
        assert len(matching) <= 1, f"{name} {labels}: {len(matching)} samples"
        return matching[0] if matching else None

    def kill(self) -> None:
        """As a crash: SIGKILL, nothing is cleaned up by the daemon itself."""
        self.process.kill()
        self.process.wait(END_SECONDS_MAX)

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(END_SECONDS_MAX)

    def hang_up(self) -> None:
        self.process.send_signal(signal.SIGHUP)
