"""Findings, the pause, preemptions and re-runs, through the store."""

from dataclasses import replace
from datetime import timedelta

import pytest
from history_values import NIGHT, ended, make_point, make_run, make_sweep, measured

from gpumond.model.finding import LEVELS, Finding, FindingKind
from gpumond.model.run import Purpose, SweepOutcome, Verdict
from gpumond.model.watch import ForeignProcess, LoadSummary, Preemption, RunWatch, Spread

HANG = Finding(FindingKind.HANG, LEVELS[FindingKind.HANG], "all", "it hangs", "futex", NIGHT, NIGHT)


def test_a_finding_is_open_until_it_is_closed(store):
    store.record_finding(HANG)
    assert store.findings() == (HANG,)
    assert store.close_finding(FindingKind.HANG, "all")
    assert not store.close_finding(FindingKind.HANG, "all")
    assert store.findings() == ()
    (closed,) = store.findings(open_only=False)
    assert closed.closed_at is not None


def test_seen_again_it_keeps_its_first_time_and_takes_the_newest_words(store):
    store.record_finding(HANG)
    later = NIGHT + timedelta(days=1)
    store.record_finding(replace(HANG, detail="it still hangs", first_at=later, last_at=later))
    assert store.findings() == (replace(HANG, detail="it still hangs", last_at=later),)


def test_one_subject_and_one_kind_have_one_open_finding_each(store):
    for kind in (FindingKind.HANG, FindingKind.P2P_PATH):
        for subject in ("all", "numa0"):
            store.record_finding(replace(HANG, kind=kind, subject=subject))
    assert len(store.findings()) == 4
    store.close_finding(FindingKind.HANG, "numa0")
    assert len(store.findings()) == 3


def test_a_pause_stays_as_it_was_first_said(store):
    assert store.pause() is None
    first = store.set_pause(by="root", reason="maintenance")
    assert store.set_pause(by="somebody", reason="else") == first
    assert store.pause() == first
    assert store.clear_pause()
    assert not store.clear_pause()
    assert store.pause() is None


def test_preemptions_fall_into_buckets(store):
    for seconds in (0.05, 0.25, 0.3, 0.31, 99.0):
        store.record_preemption(seconds)
    counts = store.preemptions()
    assert sum(counts.counts) == 5
    by_bound = dict(zip((*counts.bounds_seconds, None), counts.counts, strict=True))
    assert (by_bound[0.1], by_bound[0.3], by_bound[0.5], by_bound[None]) == (1, 2, 1, 1)
    assert counts.sum_seconds == pytest.approx(99.91)


def test_a_preempted_sweep_is_a_skip_that_is_counted_as_a_preemption(store):
    sweep = make_sweep()
    store.start_sweep(sweep)
    preempted = replace(ended(sweep), outcome=SweepOutcome.SKIPPED, reason="preempted")
    store.finish_sweep(preempted)
    store.finish_sweep(preempted)  # after a commit of which nobody knows
    history = store.sweep_history(sweep.name)
    assert (history.preemptions, history.skips, history.runs) == (1, {"preempted": 1}, 0)


def test_what_the_watch_saw_comes_back_as_it_was(store):
    foreign = ForeignProcess(4711, "compute", "GPU-a", "python")
    watch = RunWatch(
        looks=41,
        longest_gap_seconds=0.12,
        cpu_load_average=3.5,
        doubt="",
        preemption=Preemption((foreign,), 0.01, 0.3, None),
        gpus=(LoadSummary("GPU-a", 8, sm_clock_hertz=Spread(1e9, 1.5e9, 1.98e9), event_reasons=4),),
    )
    sweep = make_sweep()
    store.start_sweep(sweep)
    run = replace(measured(make_run(sweep), make_point(8)), watch=watch, purpose=Purpose.HANG_CHECK)
    store.finish_run(run, output=b"")
    assert store.run(run.id) == run


def test_a_re_run_after_a_hang_is_neither_a_value_nor_a_verdict(store):
    sweep = make_sweep()
    store.start_sweep(sweep)
    run = measured(make_run(sweep, id="20261129T020000Z-000001"), make_point(8))
    store.finish_run(run, output=b"")
    points, verdicts = store.latest_points(), store.latest_verdicts()
    again = replace(
        measured(make_run(sweep, id="20261129T020100Z-000002"), make_point(8), make_point(16)),
        purpose=Purpose.HANG_CHECK,
        parameters_hash="other",
        verdict=Verdict.FAILED,
    )
    store.finish_run(again, output=b"")
    assert (store.latest_points(), store.latest_verdicts()) == (points, verdicts)
    assert [run.purpose for run in store.runs(limit=9)] == [Purpose.HANG_CHECK, Purpose.MEASUREMENT]
