"""What retention deletes from a real file, and what it must leave."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest
from history_values import NIGHT, ended, make_gpu, make_point, make_run, make_snapshot, make_sweep, measured

from gpumond.model.run import SweepOutcome, Verdict
from gpumond.store.records import RequestState
from gpumond.store.retention import NEWEST_RUNS_KEPT, RetentionPolicy, RetentionReport

POLICY = RetentionPolicy(
    success_output=timedelta(days=30), failure_output=timedelta(days=365), results=timedelta(days=730)
)
OUTPUT = bytes(range(256)) * 400


@pytest.fixture
def night(store):
    def _night(number, output=OUTPUT, **changes):
        sweep = make_sweep(at=NIGHT + timedelta(days=number))
        store.start_sweep(sweep)
        run = measured(make_run(sweep), make_point(8), make_point(16), **changes)
        store.finish_run(run, output=output)
        store.finish_sweep(ended(sweep))
        return run

    return _night


def test_outputs_go_by_age_and_failures_later(store, night):
    old = night(0)
    failed = night(0, verdict=Verdict.FAILED, reason="no_rows")
    truncated = night(0, verdict=Verdict.NOT_EVALUATED, reason="truncated", outcome="truncated")
    young = night(20)
    at = NIGHT + timedelta(days=31)
    assert store.apply_retention(at, POLICY) == RetentionReport(0, 1, 0, 0, 0)
    kept = [store.raw_output(run.id) is not None for run in (old, failed, truncated, young)]
    assert kept == [False, True, True, True]
    assert store.run(old.id) == old
    store.apply_retention(NIGHT + timedelta(days=366), POLICY)
    assert store.raw_output(failed.id) is None


def test_old_runs_go_with_their_points_and_sweeps_but_counters_and_current_values_stay(store, night, clock):
    nights = [night(number) for number in range(NEWEST_RUNS_KEPT + 5)]
    history, points = store.sweep_history("nightly"), store.latest_points()
    report = store.apply_retention(NIGHT + timedelta(days=2000), POLICY)
    assert (report.runs, report.sweeps) == (5, 5)
    assert [run.id for run in store.runs(limit=99)] == [run.id for run in nights[:4:-1]]
    assert store.sweep(nights[0].sweep_id) is None
    assert store.sweep_history("nightly") == history
    assert store.latest_points() == points
    with store._database.reading() as session:
        assert session.execute("SELECT count(*) AS n FROM point").fetchone()["n"] == 2 * NEWEST_RUNS_KEPT


def test_series_without_a_point_go_too(store, night):
    night(0, parameters_hash="old")
    for number in range(1, NEWEST_RUNS_KEPT + 1):
        night(number)
    store.apply_retention(NIGHT + timedelta(days=2000), POLICY)
    with store._database.reading() as session:
        hashes = {row["parameters_hash"] for row in session.execute("SELECT parameters_hash FROM series")}
    assert hashes == {"p1"}


def test_skips_and_answered_requests_and_old_structures_go(store, clock):
    store.finish_sweep(ended(make_sweep(), SweepOutcome.SKIPPED, "busy"))
    number = store.add_request("pause", {}, by="alice")
    store.next_request()
    store.finish_request(number, state=RequestState.DONE, answer="")
    store.record_snapshot(make_snapshot(gpus=(make_gpu("a", 1),)))
    store.record_snapshot(make_snapshot())
    assert store.apply_retention(NIGHT + timedelta(days=731), POLICY) == RetentionReport(0, 0, 1, 1, 1)
    assert store.latest_snapshot() == make_snapshot()
    assert store.sweep_history("nightly").skips == {"busy": 1}


def test_what_is_open_or_young_stays(store, night, clock):
    sweep = make_sweep()
    store.start_sweep(sweep)
    store.start_run(make_run(sweep))
    store.add_request("pause", {}, by="alice")
    night(0)
    assert store.apply_retention(NIGHT, POLICY) == RetentionReport(0, 0, 0, 0, 0)
    assert len(store.open_runs()) == 1


def test_a_clock_that_jumps_ahead_leaves_the_newest_nights(store, night):
    for number in range(3):
        night(number)
    store.apply_retention(NIGHT.replace(year=2126), POLICY)
    assert len(store.runs(limit=99)) == 3


def test_the_space_comes_back_to_the_file_system(store, night):
    for number in range(40):
        night(number, output=os.urandom(100_000))
    store._database.script("PRAGMA wal_checkpoint(TRUNCATE)")
    before = store.path.stat().st_size
    store.apply_retention(NIGHT + timedelta(days=100), POLICY)
    assert store.path.stat().st_size < before / 4
    assert store.path.with_name("history.db-wal").stat().st_size == 0


def test_a_policy_of_nothing_still_keeps_the_newest_runs(store, night):
    run = night(0)
    nothing = timedelta(0)
    store.apply_retention(NIGHT + timedelta(days=1), RetentionPolicy(nothing, nothing, nothing, nothing))
    assert store.run(run.id) == run
    assert store.raw_output(run.id) is None
