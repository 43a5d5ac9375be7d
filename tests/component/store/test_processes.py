"""Several processes and threads on one history, and processes that die in the middle."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from history_values import make_point, make_run, make_snapshot, make_sweep, measured, store_one

from gpumond.clock import SystemClock
from gpumond.errors import StoreError, StoreErrorKind
from gpumond.store.files import DirectoryLock
from gpumond.store.sqlite import Store

WORKER = Path(__file__).parents[2] / "fakes" / "store_worker.py"
POINTS = 56


def start_worker(directory, runs):
    return subprocess.Popen(
        [sys.executable, WORKER, directory, str(runs), str(POINTS)], stdout=subprocess.PIPE, text=True
    )


def finished_runs(store):
    return {run.id: run for run in store.runs(limit=10_000) if run.ended_at is not None}


def test_kill_9_ten_times_in_a_write_loop_loses_no_commit_and_leaves_no_half_run(directory):
    committed = set()
    for lines in range(1, 11):
        with start_worker(directory, runs=10_000) as worker:
            seen = [worker.stdout.readline().strip() for _ in range(lines)]
            worker.send_signal(signal.SIGKILL)
            seen += worker.stdout.read().split()
        assert worker.returncode == -signal.SIGKILL
        committed.update(line for line in seen if line != "open")
        with Store.open(directory, clock=SystemClock()) as store:
            assert store.recovered_from is None
            stored = finished_runs(store)
            assert committed <= set(stored)
            assert {len(run.points) for run in stored.values()} <= {POINTS}
            assert all(len(store.raw_output(run_id)) == 10_000 for run_id in stored)
            assert len(store.open_runs()) <= lines  # at most the one of each killed worker
            assert all(len(run.points) in (0, POINTS // 2) for run in store.open_runs())
            assert store.sweep_history("nightly").runs == sum(
                1 for sweep in store.sweeps(limit=10_000) if sweep.ended_at is not None
            )
    assert len(committed) >= 10


def test_processes_that_begin_and_write_one_history_together(directory):
    """The command line and the daemon may both be the first."""
    workers = [start_worker(directory, runs=20) for _ in range(3)]
    printed = [worker.communicate(timeout=60)[0].split()[1:] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    with Store.open(directory, clock=SystemClock()) as store:
        assert set(finished_runs(store)) == {run_id for ids in printed for run_id in ids}
        assert store.sweep_history("nightly").runs == 60


def test_readers_always_see_whole_runs_while_somebody_writes(directory):
    with start_worker(directory, runs=10_000) as worker:
        assert worker.stdout.readline() == "open\n"
        with Store.open(directory, clock=SystemClock(), read_only=True) as reader:
            newest = 0
            while newest < 30:
                stored = finished_runs(reader)
                assert {len(run.points) for run in stored.values()} <= {POINTS}
                assert len(stored) >= newest
                newest = len(stored)
                worker.stdout.readline()
        worker.kill()


def test_threads_share_one_store(store):
    def work(number):
        sweep = make_sweep(f"sweep {number}")
        store.start_sweep(sweep)
        for _ in range(10):
            store.finish_run(measured(make_run(sweep), make_point()), output=b"")
            store.increment("runs")
            assert store.latest_points()
        return len(store.runs_of_sweep(sweep.id))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [10] * 4
    assert [counter.value for counter in store.counters("runs")] == [40.0]


def test_a_writer_that_stays_is_an_error_with_a_hint(store, directory, clock):
    with Store.open(directory, clock=clock) as other:
        other._database.pragma("busy_timeout = 50")
        with store._database.writing():
            began = time.monotonic()
            with pytest.raises(StoreError) as caught:
                other.increment("counter")
            assert time.monotonic() - began < 5
        assert caught.value.kind is StoreErrorKind.BUSY
        assert "fuser" in caught.value.hint
        other.increment("counter")


def test_a_writer_that_ends_is_waited_for(store, directory, clock):
    """Also by what reads first: with a deferred BEGIN it would fail at once (SQLITE_BUSY_SNAPSHOT)."""
    store.record_snapshot(make_snapshot())
    entered = threading.Event()

    def hold():
        with store._database.writing() as session:
            session.execute("INSERT INTO counter (name, labels, value) VALUES ('held', '{}', 1.0)")
            entered.set()
            time.sleep(0.2)

    with Store.open(directory, clock=clock) as other, ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        entered.wait()
        other.record_snapshot(make_snapshot(gpus=()))
        holding.result()
    assert store.latest_snapshot().gpus == ()


def test_readers_are_not_stopped_by_a_writer(store, directory, clock):
    run = store_one(store)
    with (
        Store.open(directory, clock=clock, read_only=True) as reader,
        store._database.writing() as session,
    ):
        session.execute("DELETE FROM point")
        assert reader.run(run.id) == run


def test_a_failing_block_stores_nothing(store):
    def fail():
        with store._database.writing() as session:
            session.execute("INSERT INTO counter (name, labels, value) VALUES ('x', '{}', 1.0)")
            raise KeyError("the caller's own")

    with pytest.raises(KeyError):
        fail()
    assert store.counters() == ()
    store.increment("y")


def test_somebody_who_never_finishes_preparing_is_an_error(directory, clock):
    directory.mkdir()
    lock = DirectoryLock(directory, clock)
    assert lock.acquire()
    with pytest.raises(StoreError, match="has been preparing") as caught:
        Store.open(directory, clock=clock)
    assert caught.value.kind is StoreErrorKind.BUSY
    lock.release()
    Store.open(directory, clock=clock).close()


def test_two_that_wait_for_a_third_do_not_wait_for_each_other(directory):
    """Somebody died before the history was made; now two come at once, and one of them must get to make it."""
    directory.mkdir()
    dying = DirectoryLock(directory, SystemClock())
    dying.acquire()
    dying.share()
    with ThreadPoolExecutor(2) as pool:
        opening = [pool.submit(Store.open, directory, clock=SystemClock()) for _ in range(2)]
        time.sleep(0.2)
        dying.release()
        for opened in opening:
            opened.result().close()


def test_no_descriptor_is_left_behind(directory, clock):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        Store.open(directory, clock=clock).close()
    (directory / "history.db").unlink()
    (directory / "history.db").mkdir()
    for _ in range(3):
        with pytest.raises(StoreError):
            Store.open(directory, clock=clock)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
