"""After a daemon that died: end what it left running, and give every open run and sweep its outcome.

Not for a sweep that somebody else is running right now: the machine-wide lock names its holder, and as long as that
process lives, its runs are its own.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from gpumond.clock import Clock
from gpumond.errors import HostError
from gpumond.guards.lock import holder_of
from gpumond.log import get_logger
from gpumond.model.run import Cause, Run, SweepOutcome, Verdict
from gpumond.process import cgroup
from gpumond.process.lost import LostProcesses
from gpumond.process.supervisor import kill_all_in, kill_leftover
from gpumond.store.sqlite import Store

log = get_logger("sweep")

ABORTED_DETAIL = "gpumond ended while this ran"


def take_over_cgroup(clock: Clock, lost: LostProcesses) -> Path | None:
    """Where benchmarks get cgroups of their own, empty of what a dead daemon left there; None where none is ours."""
    try:
        runs = cgroup.claim()
    except HostError as error:
        log.warning("cgroup_not_used", error=error.message, hint=error.hint)
        return None
    if runs is not None:
        report = kill_all_in(runs, clock=clock)
        lost.remember(report.remaining)
        killed, remaining = list(report.killed), [process.pid for process in report.remaining]
        log.info("cgroup_used", directory=str(runs), killed=killed, remaining=remaining)
    return runs


def end_abandoned(store: Store, lock_file: Path, clock: Clock, lost: LostProcesses) -> int:
    """Close what is open in the store and kill its processes, but for those that `lost` gets; returns how many runs
    were open.
    """
    holder = holder_of(lock_file)
    if holder is not None and holder.is_alive:
        log.info("sweep_of_another_process", holder=str(holder))
        return 0
    runs = store.open_runs()
    for run in runs:
        _end_run(run, store, clock, lost)
    for sweep in store.open_sweeps():
        store.finish_sweep(
            replace(
                sweep,
                ended_at=clock.now(),
                outcome=SweepOutcome.FAILURE,
                reason=Cause.ABORTED.value,
                detail=ABORTED_DETAIL,
            )
        )
    return len(runs)


def _end_run(run: Run, store: Store, clock: Clock, lost: LostProcesses) -> None:
    remaining: list[int] = []
    if run.pid is not None and run.start_ticks is not None:
        report = kill_leftover(run.pid, run.start_ticks, clock=clock)
        lost.remember(report.remaining)
        remaining = [process.pid for process in report.remaining]
        log.warning("run_aborted", run=run.id, killed=list(report.killed), remaining=remaining)
    detail = (
        f"{ABORTED_DETAIL}; still there: {', '.join(map(str, remaining))}" if remaining else ABORTED_DETAIL
    )
    store.finish_run(
        replace(
            run,
            ended_at=clock.now(),
            cause=Cause.LOST if remaining else Cause.ABORTED,
            verdict=Verdict.NOT_EVALUATED,
            reason=Cause.ABORTED.value,
            detail=detail,
        ),
        output=b"",
    )


def remove_abandoned_files(store: Store, work_directory: Path) -> None:
    """Remove the directory of every run that is not open: its process was killed before it could do so itself.

    A run is open before its directory is made, so nobody's is taken away while it measures. What a root's command has
    left may stay: it is not ours to delete.
    """
    if not work_directory.is_dir():
        return
    live = {run.id for run in store.open_runs()}
    for directory in work_directory.iterdir():
        if directory.is_dir() and directory.name not in live:
            shutil.rmtree(directory, ignore_errors=True)
