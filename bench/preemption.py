"""How fast the GPUs of a sweep are given back: 200 tries on a stand-in benchmark and the fake driver library.

Prints the rows of docs/results.md. It measures our own share: from the process list that first shows a foreign process
to SIGKILL, and to the end of the last of our processes. What a driver adds is in captures of real GPUs.
`python bench/preemption.py [TRIES]`
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fakes"))

from benchmark_stand_in import Ending, Script
from fake_nvml import FakeNvml
from sweep_host import SCENARIO, Host

from gpumond import __version__
from gpumond.clock import SystemClock
from gpumond.log import configure
from gpumond.model.watch import Preemption
from gpumond.simulate.scenario import load_scenario
from gpumond.simulate.snapshot import render_snapshot
from gpumond.store.sqlite import Store
from gpumond.sweep.events import RowMeasured

TRIES = 200
FOREIGNER = "gpu_busy,gpu=1,pid=4194303"


def measure(directory: Path, tries: int) -> list[Preemption]:
    scenario = load_scenario(SCENARIO)
    snapshot = render_snapshot(scenario, taken_at=datetime(2026, 11, 29, 2, tzinfo=UTC))
    nvml = directory / "nvml"
    nvml.mkdir()
    found = []
    with Store.open(directory / "state", clock=SystemClock()) as store:
        host = Host(directory, store, snapshot, FakeNvml(nvml).host(scenario))
        host.install(all_reduce=Script(ending=Ending.HANG, after_row=1))
        host.on_event = lambda event: host.show(FOREIGNER) if isinstance(event, RowMeasured) else None
        with host.bench() as run:
            for _ in range(tries):
                host.show()
                found.append(run().watch.preemption)
    return found


def row(name: str, seconds: list[float]) -> str:
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))]
    cells = (statistics.median(ordered), p99, ordered[-1])
    return f"| {name} | {len(ordered)} | " + " | ".join(f"{cell * 1000:.0f} ms" for cell in cells) + " |"


def main() -> None:
    configure(level="error")
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else TRIES
    with tempfile.TemporaryDirectory() as directory:
        found = measure(Path(directory), tries)
    print(
        f"{platform.node()}: {os.cpu_count()} CPUs, Linux {platform.release()}, Python {platform.python_version()}, "
        f"gpumond {__version__}; load {os.getloadavg()[0]:.1f}\n"
    )
    print("| from the first list that shows the foreigner | tries | median | p99 | max |")
    print("| --- | --- | --- | --- | --- |")
    print(row("to SIGKILL sent", [it.kill_sent_seconds for it in found if it.kill_sent_seconds is not None]))
    print(
        row(
            "to the last of our processes gone",
            [it.gone_seconds for it in found if it.gone_seconds is not None],
        )
    )


if __name__ == "__main__":
    main()
