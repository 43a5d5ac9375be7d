"""What a scrape costs: times over loopback, bytes and memory, for the largest host of the series budget.

Prints the table of docs/results.md. Server and client share the machine's cores, as on a busy host.
`python bench/scrape.py [SCRAPES]`
"""

from __future__ import annotations

import http.client
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fakes"))

import status as fakes

from gpumond.board import StatusBoard
from gpumond.clock import SystemClock
from gpumond.exporter.http import HttpServer

SCRAPES = 1000
Server: TypeAlias = "subprocess.Popen[str]"
PROMETHEUS = {
    "Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "Accept-Encoding": "gzip",
}


def serve() -> None:
    """The server alone in its process, so that its memory is its own; changes its status at each line of input."""
    board = StatusBoard(fakes.eight_gpu_status())
    server = HttpServer(host="127.0.0.1", port=0, board=board, clock=SystemClock())
    server.start()
    print(server.address[1], flush=True)
    for _ in sys.stdin:
        board.update(lambda status: replace(status, is_config_current=not status.is_config_current))
        print("changed", flush=True)
    server.stop()


def scrape(connection: http.client.HTTPConnection) -> tuple[float, int]:
    began = time.perf_counter()
    connection.request("GET", "/metrics", headers=PROMETHEUS)
    body = connection.getresponse().read()
    return (time.perf_counter() - began) * 1e3, len(body)


def with_one_connection(port: int, count: int) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times = [scrape(connection)[0] for _ in range(count)]
    connection.close()
    return times


def with_new_connections(port: int, count: int) -> list[float]:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port)
        scrape(connection)
        connection.close()
        times.append((time.perf_counter() - began) * 1e3)
    return times


def right_after_changes(port: int, count: int, process: Server) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times = []
    for _ in range(count):
        process.stdin.write("change\n")
        process.stdin.flush()
        process.stdout.readline()
        times.append(scrape(connection)[0])
    connection.close()
    return times


def rss_mib(pid: int) -> float:
    [line] = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")
    ]
    return int(line.split()[1]) / 1024


def main(count: int) -> None:
    command = [sys.executable, __file__, "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        port = next(int(line) for line in process.stdout if line.strip().isdigit())
        connection = http.client.HTTPConnection("127.0.0.1", port)
        scrape(connection)  # the first one of a format renders it
        _, size = scrape(connection)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read()
        series = sum(not line.startswith(b"#") for line in text.splitlines())
        connection.close()
        print(f"{series} series, {len(text)} bytes of text, {size} bytes of gzip")
        print("\n| scrapes | p50 ms | p99 ms | max ms |\n| --- | --- | --- | --- |")
        for name, times in (
            ("one connection", with_one_connection(port, count)),
            ("a connection each", with_new_connections(port, count)),
            ("right after a change", right_after_changes(port, count // 10, process)),
        ):
            cuts = statistics.quantiles(times, n=100)
            print(f"| {name} | {cuts[49]:.1f} | {cuts[98]:.1f} | {max(times):.1f} |")
        print(f"\nresident memory of the server process: {rss_mib(process.pid):.0f} MiB")
        process.stdin.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else SCRAPES)
