"""What the judge keeps, through the store: it comes back as it was, all of a night or nothing."""

from dataclasses import replace
from datetime import timedelta

import pytest
from history_values import NIGHT, ended, make_point, make_run, make_sweep, measured, store_one

from gpumond.judge.assessment import Assessment, Basis, Statistic
from gpumond.model.baseline import (
    AlarmKind,
    Baseline,
    Candidate,
    DetectorState,
    InputChange,
    JudgedNight,
    NightValues,
    Scope,
    ScopeMemory,
    Track,
    TrackKey,
)
from gpumond.model.change import Level
from gpumond.model.finding import Finding, FindingKind
from gpumond.model.run import Purpose, Verdict
from gpumond.store.records import BaselineDecisionKind, JudgeRecord
from gpumond.store.retention import RetentionPolicy

SCOPE = Scope("nightly", "nccl-tests", "all")
KEY = TrackKey("all_reduce", "float", "sum", 2, "p1")
VALUES = NightValues(NIGHT, {64 << 20: 267.3e9}, {8: 1e-5})
CHANGE = InputChange(NIGHT, "driver", "580", "590")
TRACK = Track(
    baseline=Baseline(
        {64 << 20: 267.3e9}, {8: 1e-5}, 0.002, 0.1, 9, NIGHT, {"driver": "580"}, nights=(VALUES,)
    ),
    candidate=Candidate(NIGHT, (CHANGE,), {"driver": "590"}, (VALUES,), (0.97,), needs_person=True),
    bandwidth=DetectorState(
        recent=(JudgedNight(NIGHT, 0.97, -12.0, is_repeated=True),),
        cusum=2.5,
        cusum_since=NIGHT,
        alarm=AlarmKind.STEP,
    ),
    fingerprint={"driver": "590"},
    changes=(CHANGE,),
    transport="P2P/CUMEM:24",
    results=(True, False),
    last_at=NIGHT,
)
STEP = Finding(
    FindingKind.STEP,
    Level.WARNING,
    f"{SCOPE} since 2026-11-29T02:00:00Z",
    "all_reduce is at 97.0%",
    "",
    NIGHT,
    NIGHT,
    confirmed_at=NIGHT + timedelta(days=1),
    collectives=("all_reduce",),
    cause=("driver",),
)
ASSESSMENT = Assessment(
    Verdict.DEGRADED, "step", "97.0%", 0.97, Basis.BASELINE, Statistic(-12.0, 0.0025, 21, 2.5), ("a dip",)
)


def keep(store, *, memory=None, findings=(), verdicts=None, remarks=None):
    store.record_judgement(
        SCOPE,
        JudgeRecord(7, ScopeMemory(), memory or ScopeMemory({KEY: TRACK}, tuple(findings))),
        verdicts=verdicts or {},
        remarks=remarks or {},
        findings=findings,
    )


def test_a_memory_comes_back_as_it_was(store):
    keep(store, findings=(STEP,))
    record = store.judge_record(SCOPE)
    assert record.first_run == 7
    assert record.before == ScopeMemory()
    assert record.memory == ScopeMemory({KEY: TRACK}, (STEP,))
    assert store.judged_scopes() == (SCOPE,)


def test_what_was_never_judged_is_empty(store):
    assert store.judge_record(SCOPE) == JudgeRecord(0, ScopeMemory(), ScopeMemory())


def test_a_finding_that_a_later_look_does_not_confirm_is_closed(store):
    keep(store, findings=(STEP,))
    keep(store, memory=ScopeMemory({KEY: TRACK}))
    assert store.findings() == ()
    (closed,) = store.findings(open_only=False)
    assert closed.closed_at is not None


def test_a_finding_of_something_else_is_left_alone(store):
    other = replace(STEP, kind=FindingKind.HANG, subject="all")
    store.record_finding(other)
    keep(store)
    assert store.findings() == (other,)


def test_an_event_has_one_row_from_its_beginning_to_its_end(store):
    keep(store, findings=(STEP,))
    over = replace(STEP, closed_at=NIGHT + timedelta(days=3), detail="it is over")
    keep(store, memory=ScopeMemory({KEY: TRACK}), findings=(over,))
    assert store.findings(open_only=False) == (over,)


def test_a_verdict_replaces_that_of_the_run_and_a_remark_does_not(store):
    run = store_one(store)
    keep(store, verdicts={run.id: ASSESSMENT})
    judged = store.run(run.id)
    assert (judged.verdict, judged.reason, judged.detail) == (Verdict.DEGRADED, "step", "97.0%")
    assert store.assessment(run.id) == ASSESSMENT
    keep(store, remarks={run.id: replace(ASSESSMENT, reason="tainted", score=None)})
    assert store.run(run.id).reason == "step"
    assert store.assessment(run.id).reason == "tainted"
    assert store.latest_verdicts()[0].verdict is Verdict.DEGRADED


def test_a_score_is_that_of_the_newest_run(store):
    run = store_one(store)
    keep(store, verdicts={run.id: ASSESSMENT})
    (score,) = store.latest_scores()
    assert (score.collective, score.score) == ("all_reduce", 0.97)
    store_one(store)
    assert store.latest_scores() == ()  # not judged yet: an old score would claim to be of the newest run


def test_a_score_that_is_no_number_is_refused_and_nothing_is_kept(store):
    run = store_one(store)
    with pytest.raises(ValueError, match="score"):
        keep(store, verdicts={run.id: replace(ASSESSMENT, score=float("nan"))})
    assert store.judged_scopes() == ()


def test_equal_fingerprints_are_stored_once(store, directory):
    runs = [store_one(store) for _ in range(3)]
    for run in runs:
        store.set_fingerprint(run.id, {"driver": "580", "nccl": "2.28.9"})
    assert [store.fingerprint(run.id) for run in runs] == [{"driver": "580", "nccl": "2.28.9"}] * 3
    with store._transactions.reading() as session:
        assert session.execute("SELECT count(*) AS n FROM fingerprint").fetchone()["n"] == 1


def test_only_finished_measurements_are_judged(store):
    sweep = make_sweep()
    store.start_sweep(sweep)
    done = measured(make_run(sweep), make_point())
    check = measured(make_run(sweep, purpose=Purpose.HANG_CHECK), make_point())
    for run in (done, check):
        store.finish_run(run, output=b"")
    store.start_run(make_run(sweep))
    store.finish_sweep(ended(sweep))
    assert [item.run.id for item in store.runs_to_judge(SCOPE, 0)] == [done.id]
    assert store.runs_to_judge(SCOPE, 99) == ()
    assert store.measured_scopes("nightly") == (SCOPE,)
    assert store.measured_scopes("weekly") == ()


def test_a_decision_stays_on_record_and_can_be_undone_once(store):
    keep(store)
    accepted = Track(baseline=replace(TRACK.baseline, origin="accepted"))
    store.decide_baseline(
        SCOPE, BaselineDecisionKind.ACCEPT, ScopeMemory({KEY: accepted}), (), by="ops", reason="new driver"
    )
    assert store.judge_record(SCOPE).memory.tracks == {KEY: accepted}
    assert store.undo_baseline_decision(SCOPE, by="ops", reason="no").kind is BaselineDecisionKind.ACCEPT
    restored = store.judge_record(SCOPE).memory.tracks[KEY]
    assert restored.baseline == TRACK.baseline
    assert (restored.candidate, restored.bandwidth) == (None, DetectorState())
    assert store.undo_baseline_decision(SCOPE, by="ops", reason="no") is None
    (decision,) = store.baseline_decisions(limit=9)
    assert (decision.by, decision.reason, decision.undone_by) == ("ops", "new driver", "ops")


def test_a_baseline_outlives_the_runs_that_it_was_learned_from(store):
    run = store_one(store)
    store.set_fingerprint(run.id, {"driver": "580"})
    keep(store, verdicts={run.id: ASSESSMENT})
    store_one(store)
    policy = RetentionPolicy(timedelta(days=1), timedelta(days=1), timedelta(days=2))
    store.apply_retention(NIGHT + timedelta(days=900), policy)
    assert store.judge_record(SCOPE).memory.tracks == {KEY: TRACK}
