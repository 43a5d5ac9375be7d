"""What two years of nightly sweeps cost in the store: bytes on disk, and the time of everything that is asked of it.

Prints the table of docs/results.md. `python bench/store.py [RUNS_PER_NIGHT POINTS_PER_RUN]`; 1 x 372 points a night is
what reference measurements used, 15 x 56 is an 8-GPU host with 5 collectives on 3 GPU sets.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fakes"))

from history_values import NIGHT, ended, make_point, make_run, make_snapshot, make_sweep, measured

from gpumond.clock import SystemClock
from gpumond.model.benchmark import Placement
from gpumond.model.run import GpuSet, Run, Sweep, series_of
from gpumond.store.retention import RetentionPolicy
from gpumond.store.sqlite import Store

NIGHTS = 730
REPEATS = 20
OUTPUT_ROWS = 60
"""As many as nccl-tests prints from 8 B to 2 GiB, with its head."""

POLICY = RetentionPolicy(
    success_output=timedelta(days=30), failure_output=timedelta(days=365), results=timedelta(days=365)
)


def main(runs_per_night: int, points_per_run: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        directory = Path(name)
        with Store.open(directory, clock=SystemClock()) as store:
            began = time.perf_counter()
            fill(store, runs_per_night, points_per_run)
            report("fill", f"{time.perf_counter() - began:.1f} s")
        report("points", f"{NIGHTS * runs_per_night * points_per_run}")
        report("file", f"{(directory / 'history.db').stat().st_size / 1e6:.1f} MB")
        report(
            "open, with quick_check", clocked(lambda: Store.open(directory, clock=SystemClock()).close(), 5)
        )
        with Store.open(directory, clock=SystemClock()) as store:
            ask(store, points_per_run)
            began = time.perf_counter()
            gone = store.apply_retention(NIGHT + timedelta(days=NIGHTS), POLICY)
            report("retention of a year", f"{time.perf_counter() - began:.2f} s for {gone.runs} runs")
        report("file after that", f"{(directory / 'history.db').stat().st_size / 1e6:.1f} MB")


def fill(store: Store, runs_per_night: int, points_per_run: int) -> None:
    for night in range(NIGHTS):
        sweep = make_sweep(at=NIGHT + timedelta(days=night))
        store.start_sweep(sweep)
        for number in range(runs_per_night):
            store.finish_run(finished_run(sweep, number, points_per_run), output=made_up_output())
        store.finish_sweep(ended(sweep))


def made_up_output() -> bytes:
    """Rows like those of nccl-tests; the digits differ, so that it packs no better than a real one."""
    lines = []
    for row in range(OUTPUT_ROWS):
        digits = [f"{random.uniform(0, 400):9.2f}" for _ in range(6)]
        lines.append(
            f"{8 << row % 28:12d} {2 << row % 28:12d}     float     sum      -1 {' '.join(digits)}      0\n"
        )
    return "".join(lines).encode()


def finished_run(sweep: Sweep, number: int, points_per_run: int) -> Run:
    points = [
        make_point(
            8 << (place // 2 % 28), datatype=f"type{place // 56}", placement=list(Placement)[place % 2]
        )
        for place in range(points_per_run)
    ]
    return measured(make_run(sweep, gpu_set=GpuSet(f"set{number}", ("GPU-a", "GPU-b"))), *points)


def ask(store: Store, points_per_run: int) -> None:
    report("latest_points", clocked(store.latest_points))
    report("  values", str(len(store.latest_points())))
    report("latest_verdicts", clocked(store.latest_verdicts))
    report("sweep_history", clocked(lambda: store.sweep_history("nightly")))
    report("runs, newest 20", clocked(lambda: store.runs(limit=20)))
    run = store.runs(limit=1)[0]
    key = series_of(run, run.points[0])
    report("series, 60 nights", clocked(lambda: store.series(key, limit=60)))
    report("series, two years", clocked(lambda: store.series(key)))
    sweep = make_sweep(at=NIGHT + timedelta(days=NIGHTS))
    store.start_sweep(sweep)
    report(
        "finish_run",
        clocked(lambda: store.finish_run(finished_run(sweep, 0, points_per_run), output=made_up_output())),
    )
    store.record_snapshot(make_snapshot())
    report("record_snapshot, nothing new", clocked(lambda: store.record_snapshot(make_snapshot())))
    report("check_writable", clocked(store.check_writable))
    report("next_request, none", clocked(store.next_request))


def clocked(action: Callable[[], object], repeats: int = REPEATS) -> str:
    """Median wall time, and the least CPU time: on a busy machine only the second one says something of the code."""
    wall, cpu = [], []
    for _ in range(repeats):
        began, began_cpu = time.perf_counter(), time.thread_time()
        action()
        wall.append(time.perf_counter() - began)
        cpu.append(time.thread_time() - began_cpu)
    return f"{statistics.median(wall) * 1e3:.2f} ms (CPU {min(cpu) * 1e3:.2f} ms)"


def report(what: str, value: str) -> None:
    print(f"{what:<32} {value}", flush=True)


if __name__ == "__main__":
    main(*(int(word) for word in (sys.argv[1:] or ("1", "372"))))
