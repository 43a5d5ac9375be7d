"""A benchmark that survives SIGKILL: this sweep fails, none starts beside it, and the next one after it is gone does."""

from __future__ import annotations

import threading
import time

import pytest
from benchmark_stand_in import Ending, Script
from unkillable import Tracers

from gpumond.model.benchmark import Collective
from gpumond.model.run import Cause, SweepOutcome
from gpumond.process.lost import LostProcesses
from gpumond.sweep import execution
from gpumond.sweep.events import RowMeasured
from gpumond.sweep.plan import Deadlines

HANGING = Script(ending=Ending.HANG, after_row=3)
DEADLINES = Deadlines(first_row_seconds=20.0, row_seconds=1.0)


@pytest.fixture
def tracers():
    tracers = Tracers()
    yield tracers
    tracers.let_go()


def test_a_sweep_that_loses_its_benchmark_fails_and_the_next_ones_are_skipped_until_it_is_gone(
    host, tracers, tmp_path, monkeypatch
):
    monkeypatch.setattr(execution, "LOST_SECONDS", 1.0)
    host.lost = LostProcesses(tmp_path / "benchmark.lost")
    host.install(all_reduce=HANGING, all_gather=Script())
    held = []

    def on_event(event):
        if isinstance(event, RowMeasured) and not held:
            held.append(host.store.run(event.run.id).pid)
            tracers.hold(held[0])

    host.on_event = on_event
    failed = host.sweep(Collective.ALL_REDUCE, Collective.ALL_GATHER, deadlines=DEADLINES)
    assert [run.cause for run in failed.runs] == [Cause.LOST]
    assert (failed.sweep.outcome, failed.sweep.reason) == (SweepOutcome.FAILURE, "lost")
    assert host.lost.living_pids == tuple(held)

    for lost in (
        host.lost,
        LostProcesses(tmp_path / "benchmark.lost"),
    ):  # the second is a daemon after a restart
        host.lost = lost
        skipped = host.sweep()
        assert skipped.runs == ()
        assert (skipped.sweep.outcome, skipped.sweep.reason) == (SweepOutcome.SKIPPED, "unkillable")
        assert f"process {held[0]} of an earlier sweep survived SIGKILL" in skipped.sweep.detail

    tracers.let_go()
    host.install(all_reduce=Script())
    deadline = time.monotonic() + 10
    while host.lost.living_pids:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert host.sweep().sweep.outcome is SweepOutcome.SUCCESS
    assert not (tmp_path / "benchmark.lost").exists()
    assert threading.active_count() == 1
