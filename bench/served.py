"""A server of gpumond in a process of its own, so that its memory is its own, for the benches beside this file."""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import platform
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fakes"))

import status as fakes
import web_access

from gpumond.board import StatusBoard
from gpumond.clock import SystemClock
from gpumond.exporter.http import HttpServer
from gpumond.exporter.web.access import OPEN_ACCESS
from gpumond.model.status import HostStatus
from gpumond.store.sqlite import Store

Process: TypeAlias = "subprocess.Popen[str]"
USER = "prometheus"
SECURE = "secure"


def status() -> HostStatus:
    """2,604 series: 8 GPUs behind NVSwitch, 12 NICs, three GPU sets, two sweeps of five collectives at four sizes."""
    return fakes.status(8, 12, ("nightly", "quick"), (1 << 20, 128 << 20, 1 << 30, 2 << 30))


@dataclass
class Served:
    """A running server, as a client sees it."""

    process: Process
    port: int
    client: ssl.SSLContext | None
    headers: dict[str, str] = field(default_factory=dict)

    def connect(self) -> http.client.HTTPConnection:
        if self.client is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self.client)

    def change(self) -> None:
        """Change the status, and return when it is on the board."""
        self.process.stdin.write("change\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def rss_mib(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        [line] = [line for line in text.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) / 1024

    def cpu_seconds(self) -> float:
        """What the server has used so far: unlike times, it does not depend on who else uses the machine."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def sockets(self) -> int:
        """How many the server has open."""
        links = list(Path(f"/proc/{self.process.pid}/fd").iterdir())
        return sum(is_socket(link) for link in links)


def is_socket(link: Path) -> bool:
    try:
        return str(link.readlink()).startswith("socket:")
    except OSError:  # closed meanwhile
        return False


@contextlib.contextmanager
def serve(*, is_secure: bool) -> Iterator[Served]:
    command = [sys.executable, __file__, *([SECURE] if is_secure else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        port = next(int(line) for line in process.stdout if line.strip().isdigit())
        headers = {}
        if is_secure:
            credentials = base64.b64encode(f"{USER}:{web_access.PASSWORD}".encode()).decode()
            headers = {"Authorization": f"Basic {credentials}"}
        yield Served(process, port, web_access.client() if is_secure else None, headers)
        process.stdin.close()


def machine() -> str:
    """Where and with what it was measured."""
    [model] = {
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    } or {"unknown"}
    load = Path("/proc/loadavg").read_text(encoding="ascii").split()[0]
    cores = len(
        [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("processor")]
    )
    packages = ", ".join(f"{name} {version(name)}" for name in ("uvicorn", "starlette", "prometheus-client"))
    return (
        f"{model}, {cores} cores, load {load}, Linux {platform.release()}, Python {platform.python_version()},"
        f" {ssl.OPENSSL_VERSION.rpartition(' ')[0].rsplit(' ', 2)[0]}, {packages}"
    )


def main(*, is_secure: bool) -> None:
    """Serves until standard input ends; a line there changes the status."""
    with tempfile.TemporaryDirectory() as directory:
        access = web_access.load(Path(directory), users=USER) if is_secure else OPEN_ACCESS
    board = StatusBoard(status())
    clock = SystemClock()
    server = HttpServer(
        host="127.0.0.1",
        port=0,
        board=board,
        clock=clock,
        access=access,
        open_history=lambda: Store.open(Path("/nonexistent"), clock=clock, read_only=True),
    )
    server.start()
    print(server.address[1], flush=True)
    for _ in sys.stdin:
        board.update(lambda old: replace(old, is_config_current=not old.is_config_current))
        print("changed", flush=True)
    server.stop()


if __name__ == "__main__":
    main(is_secure=sys.argv[1:] == [SECURE])
