"""`gpumond demo`: the real daemon on a made-up host, on loopback, with a sweep at once. Leaves nothing behind."""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import threading
from pathlib import Path

from gpumond import log
from gpumond.cli.progress import format_bytes
from gpumond.clock import SystemClock
from gpumond.config.load import parse
from gpumond.daemon import Daemon
from gpumond.errors import ExitCode
from gpumond.model.status import HostStatus
from gpumond.simulate.scenario import scenario_names

HELP = "try it: the real daemon on a simulated host, on loopback"

DEFAULT_SCENARIO = "hgx-h200-8"
DEFAULT_PORT = 10061
ONCE_SECONDS_MAX = 180.0
SCRAPE_SECONDS_MAX = 10.0

_CONFIG = """
[store]
directory = "{directory}/state"
min_free = "0"

[web]
listen_address = "127.0.0.1:{port}"

[snapshot]
interval = "10s"

[benchmark]
lock_file = "{directory}/gpu.lock"

[guards]
quiet_by_hand = "1s"
inhibit_file = "{directory}/inhibit"

[simulate]
scenario = {scenario}
pace = {pace}
faults = {faults}

[[sweep]]
name = "demo"
run_at_start = true
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--once", action="store_true", help="end after the first sweep, with a summary")
    parser.add_argument(
        "--port",
        type=int,
        default=DEFAULT_PORT,
        help="on 127.0.0.1; 0 is any free one (default: %(default)s)",
    )
    parser.add_argument(
        "--scenario",
        default=DEFAULT_SCENARIO,
        help=f"one of {', '.join(scenario_names())} (default: %(default)s)",
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND,KEY=VALUE,...",
        help="what goes wrong, such as link_down,gpu=3,link=7,after_seconds=60; may be repeated",
    )
    parser.add_argument(
        "--pace", type=float, default=1.0, help="times faster than the real benchmark (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    log.configure(level="info", form="text")
    with tempfile.TemporaryDirectory(prefix="gpumond-demo-") as directory:
        text = _CONFIG.format(
            directory=directory,
            port=arguments.port,
            scenario=json.dumps(arguments.scenario),
            pace=arguments.pace,
            faults=json.dumps(arguments.fault),
        )
        demo = Demo(Path(directory), is_once=arguments.once)
        daemon = Daemon(parse(text, name="demo"), clock=SystemClock(), on_ready=demo.on_ready)
        daemon.run()
    return int(demo.result)


class Demo:
    """What happens around the daemon: an address on the screen and, where asked for, an end by itself."""

    def __init__(self, directory: Path, *, is_once: bool) -> None:
        self._directory = directory
        self._is_once = is_once
        self.result = ExitCode.HEALTHY

    def on_ready(self, daemon: Daemon) -> None:
        host, port = daemon.address
        url = f"http://{host}:{port}"
        print(
            f"\ngpumond demo on a SIMULATED host: nothing here was measured.\n  page     {url}/\n  metrics  {url}/metrics"
        )
        if self._is_once:
            self.result = ExitCode.NOT_EVALUATED
            threading.Thread(target=self._finish, args=(daemon,), name="demo", daemon=True).start()
        else:
            print("Ctrl-C ends it; nothing is left behind.")
        sys.stdout.flush()

    def _finish(self, daemon: Daemon) -> None:
        clock = SystemClock()
        give_up = clock.monotonic() + ONCE_SECONDS_MAX
        try:
            while clock.monotonic() < give_up:
                status = daemon.board.status
                if status.sweeps and (status.sweeps[0].last_run_at or status.sweeps[0].consecutive_skips):
                    self._summarise(daemon, status)
                    return
                clock.sleep(0.2)
            print(f"the sweep has not ended within {ONCE_SECONDS_MAX:.0f} s", file=sys.stderr)
        finally:
            daemon.stop()

    def _summarise(self, daemon: Daemon, status: HostStatus) -> None:
        samples = _scrape(*daemon.address)
        gpus = len(status.snapshot.gpus) if status.snapshot else 0
        largest = {point.collective: point for point in status.points}  # smallest first: the last one wins
        print(f"\n{gpus} GPUs, {len(samples)} samples on /metrics. Simulated busbw of the largest size:")
        for point in largest.values():
            size = format_bytes(point.size_bytes)
            print(f"  {point.collective.value:15} {size:>8}  {point.busbw_bytes_per_second / 1e9:7.2f} GB/s")
        sweep = status.sweeps[0]
        for reason, count in {**sweep.failures, **sweep.skips}.items():
            if count:
                print(f"  not measured: {reason}; the log above says more")
        is_success = bool(sweep.last_run_success) and gpus > 0 and bool(status.points) and bool(samples)
        print(
            f"sweep {sweep.name}: {'success' if is_success else 'failure'} in {sweep.last_run_duration_seconds:.1f} s"
        )
        self.result = ExitCode.HEALTHY if is_success else ExitCode.UNHEALTHY


def _scrape(host: str, port: int) -> list[str]:
    """The samples of /metrics, over a real connection: what Prometheus would see."""
    connection = http.client.HTTPConnection(host, port, timeout=SCRAPE_SECONDS_MAX)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return [line for line in text.splitlines() if line and not line.startswith("#")]
