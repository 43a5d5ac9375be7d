"""What a dead gpumond leaves open is closed; what a living one does is left alone."""

import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpumond.clock import SystemClock
from gpumond.guards.lock import hold_lock
from gpumond.model.benchmark import Collective
from gpumond.model.run import Cause, Engine, GpuSet, Run, Sweep, SweepOutcome, Trigger
from gpumond.process.lost import LostProcesses
from gpumond.process.procfs import read_stat
from gpumond.store.sqlite import Store
from gpumond.sweep.recovery import end_abandoned, remove_abandoned_files

NOW = datetime(2026, 11, 29, 2, tzinfo=UTC)
SWEEP = Sweep("20261129T020000Z-aaaaaa", "nightly", Trigger.WINDOW, NOW, planned_runs=1)
RUN = Run(
    id="20261129T020001Z-bbbbbb",
    sweep_id=SWEEP.id,
    sweep=SWEEP.name,
    engine=Engine.NCCL_TESTS,
    gpu_set=GpuSet("all", ("GPU-a",)),
    collective=Collective.ALL_REDUCE,
    parameters_hash="0" * 16,
    command=("all_reduce_perf",),
    environment={},
    started_at=NOW,
)


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "state", clock=SystemClock()) as store:
        store.start_sweep(SWEEP)
        store.start_run(RUN)
        yield store


@pytest.fixture
def orphan():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    yield child
    child.kill()
    child.wait()


def test_the_orphan_is_killed_and_the_run_and_its_sweep_are_closed(store, orphan, tmp_path):
    store.set_run_process(RUN.id, pid=orphan.pid, start_ticks=read_stat(orphan.pid).start_ticks)
    assert end_abandoned(store, tmp_path / "gpu.lock", SystemClock(), LostProcesses()) == 1
    assert orphan.wait(5) == -signal.SIGKILL
    assert store.open_runs() == ()
    assert store.open_sweeps() == ()
    run = store.run(RUN.id)
    assert (run.cause, run.reason) == (Cause.ABORTED, "aborted")
    assert store.sweep(SWEEP.id).outcome is SweepOutcome.FAILURE


def test_a_process_that_only_has_the_same_number_is_not_touched(store, orphan, tmp_path):
    store.set_run_process(RUN.id, pid=orphan.pid, start_ticks=read_stat(orphan.pid).start_ticks - 1)
    end_abandoned(store, tmp_path / "gpu.lock", SystemClock(), LostProcesses())
    assert orphan.poll() is None
    assert store.open_runs() == ()


def test_a_sweep_that_another_process_runs_now_is_left_alone(store, tmp_path):
    with hold_lock(tmp_path / "gpu.lock", purpose="sweep", clock=SystemClock()):
        assert end_abandoned(store, tmp_path / "gpu.lock", SystemClock(), LostProcesses()) == 0
    assert [run.id for run in store.open_runs()] == [RUN.id]


def test_a_lock_that_only_an_orphan_still_holds_does_not_protect_it(store, tmp_path):
    path = tmp_path / "gpu.lock"
    with hold_lock(path, purpose="sweep", clock=SystemClock()) as lock:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=(lock.fd,))
        # The holder named inside is a process that is gone.
        path.write_text('{"pid": 4194304, "start_ticks": 1, "purpose": "sweep", "since": "x"}')
    store.set_run_process(RUN.id, pid=child.pid, start_ticks=read_stat(child.pid).start_ticks)
    assert end_abandoned(store, path, SystemClock(), LostProcesses()) == 1
    assert child.wait(5) == -signal.SIGKILL


def test_points_measured_before_the_end_are_kept(store, tmp_path):
    open_run = store.open_runs()[0]
    end_abandoned(store, tmp_path / "gpu.lock", SystemClock(), LostProcesses())
    assert store.run(RUN.id) == replace(
        open_run,
        cause=Cause.ABORTED,
        reason="aborted",
        detail="gpumond ended while this ran",
        ended_at=store.run(RUN.id).ended_at,
    )


def test_the_directories_of_runs_that_are_not_open_are_removed(store, tmp_path):
    for name in (RUN.id, "of-a-dead-daemon"):
        (tmp_path / "runs" / name / "home").mkdir(parents=True)
    (tmp_path / "runs" / "job.slurm").write_text("")
    remove_abandoned_files(store, tmp_path / "runs")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == sorted([RUN.id, "job.slurm"])
    remove_abandoned_files(store, tmp_path / "nowhere")
