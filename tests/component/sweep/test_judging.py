"""Nights through the daemon's own service with a clock that the test moves: store, board, metrics and findings.

Only the benchmark is made up: it stores runs as the real runner does, and says the same events.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from fake_clock import FakeClock
from history_values import (
    ended,
    make_gpu,
    make_pair,
    make_point,
    make_run,
    make_snapshot,
    make_sweep,
    measured,
)

from gpumond.board import StatusBoard
from gpumond.errors import NotEvaluatedError
from gpumond.exporter.metrics import Exposition
from gpumond.exporter.negotiate import Format
from gpumond.model.benchmark import Collective
from gpumond.model.finding import FindingKind
from gpumond.model.reading import Value
from gpumond.model.run import TAINTED, GpuSet, Purpose, SweepOutcome, Trigger, Verdict
from gpumond.model.status import HostStatus
from gpumond.model.transport import PairTransport, TransportReport
from gpumond.model.watch import LoadSummary, RunWatch
from gpumond.reruns import Reruns
from gpumond.store.retention import RetentionPolicy
from gpumond.store.sqlite import Store
from gpumond.sweep.baselines import REASON, BaselineAction
from gpumond.sweep.context import SweepReport
from gpumond.sweep.events import RunFinished, SweepFinished, SweepStarted
from gpumond.sweep.plan import Parameters, SweepSpec
from gpumond.sweep.service import Cadence, SweepService

MIB = 1 << 20
HEALTHY = {64 * MIB: 267.3e9, 256 * MIB: 298.7e9, 1024 * MIB: 328.4e9}
"""busbw of two H200s (captures/h200x2)."""
COLLECTIVES = (Collective.ALL_REDUCE, Collective.ALL_GATHER)
SPEC = SweepSpec(
    "nightly",
    ("all",),
    COLLECTIVES,
    Parameters(64 * MIB, 1024 * MIB, 4, "float", "sum", 5, 20, check=True),
)
LEARNED = 15
WAVE = (0.0, 0.0012, -0.0008, 0.0005, -0.0011)
"""Noise that is the same in every test."""


class Host:
    """A daemon's sweep service over a made-up benchmark: `night` measures, `again` re-runs what was low."""

    def __init__(self, store, clock):
        self.clock, self.store = clock, store
        self.board = StatusBoard(HostStatus(version="0", started_at=clock.now()))
        self.factor, self.changes, self.outcome = 1.0, {}, SweepOutcome.SUCCESS
        self.factors = {}
        self.start()
        self.see(make_snapshot())

    def start(self):
        """What a restarted daemon has: the store, and nothing else."""
        self.service = SweepService(
            self.context(),
            specs={"nightly": SPEC},
            cadences={"nightly": Cadence(86400.0, 3600.0)},
            board=self.board,
            runner_for=lambda _context, *, on_event: _Benchmark(self, on_event),
        )
        self.service.restore()

    def context(self):
        return type("Context", (), {"store": self.store, "clock": self.clock})()

    def see(self, snapshot):
        self.board.update(lambda status: replace(status, snapshot=snapshot))

    def night(self, factor=1.0, *, may_rerun=False, **changes):
        self.factor, self.changes = factor, changes
        self.service.run("nightly", trigger=Trigger.WINDOW, may_rerun=may_rerun)
        if not self.service.has_suspects("nightly"):
            self.clock.sleep(86400)

    def nights(self, count, factor=1.0, **changes):
        for _ in range(count):
            self.night(factor, **changes)

    def again(self, factor, *, may_rerun):
        self.clock.sleep(600)
        self.factor = factor
        self.service.confirm("nightly", latest_start=None, may_rerun=may_rerun)

    def findings(self):
        return [(item.kind.value, item.closed_at is None) for item in self.store.findings(open_only=False)]

    def last(self):
        run = self.store.runs(limit=1)[0]
        return run.verdict.value, run.reason

    def metrics(self):
        body = Exposition().render_steady(self.board.status, Format.TEXT).text.decode()
        samples = (line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in samples}


class _Benchmark:
    """Stores what a sweep of this host would measure now."""

    def __init__(self, host, on_event):
        self.host, self.on_event = host, on_event

    def run(self, spec, *, trigger, cancellation, sweep_id=None, latest_start=None):
        del cancellation, sweep_id, latest_start
        host, now = self.host, self.host.clock.now()
        sweep = make_sweep(at=now, trigger=trigger)
        host.store.start_sweep(sweep)
        self.on_event(SweepStarted(sweep))
        runs = (
            [self._run(sweep, each) for each in spec.collectives]
            if host.outcome is SweepOutcome.SUCCESS
            else []
        )
        sweep = ended(sweep, host.outcome)
        host.store.finish_sweep(sweep)
        self.on_event(SweepFinished(sweep))
        return SweepReport(sweep, tuple(runs))

    def _run(self, sweep, collective):
        host = self.host
        noise = (1 + WAVE[sweep.started_at.day % len(WAVE)]) * host.factors.get(collective, 1.0)
        points = [
            make_point(
                size,
                busbw * host.factor * noise,
                collective=collective,
                algbw_bytes_per_second=busbw
                * host.factor
                * noise
                / (1.0 if collective is Collective.ALL_REDUCE else 0.5),
            )
            for size, busbw in HEALTHY.items()
        ]
        run = measured(
            make_run(sweep, collective=collective),
            *points,
            **{
                "verdict": Verdict.NOT_EVALUATED,
                "reason": "learning",
                "library_version": "2.27.3",
                **host.changes,
            },
        )
        host.store.finish_run(run, output=b"")
        self.on_event(RunFinished(run))
        return run


@pytest.fixture
def clock():
    return FakeClock(datetime(2026, 3, 1, 2, tzinfo=UTC))


@pytest.fixture
def host(tmp_path, clock):
    with Store.open(tmp_path / "state", clock=clock) as store:
        yield Host(store, clock)


LABELS = 'collective="all_reduce",engine="nccl-tests",gpu_set="all"'


def test_a_healthy_host_learns_and_its_metrics_say_so(host):
    host.nights(3)
    assert host.last() == ("not_evaluated", "learning")
    assert host.metrics()[f'gpumond_baseline_state{{{LABELS},state="learning",sweep="nightly"}}'] == 1
    host.nights(LEARNED)
    assert host.last() == ("ok", "within_noise")
    metrics = host.metrics()
    assert metrics[f'gpumond_baseline_state{{{LABELS},state="frozen",sweep="nightly"}}'] == 1
    assert metrics[f'gpumond_collective_score_ratio{{{LABELS},sweep="nightly"}}'] == pytest.approx(
        1, abs=0.005
    )
    normal = f'gpumond_collective_busbw_baseline_bytes_per_second{{collective="all_reduce",datatype="float",engine="nccl-tests",gpu_set="all",size_bytes="{1024 * MIB}",sweep="nightly"}}'
    assert metrics[normal] == pytest.approx(328.4e9, rel=0.002)
    assert host.findings() == []


def test_a_step_end_to_end(host):
    host.nights(LEARNED)
    host.night(0.97)
    assert host.findings() == []
    host.night(0.97)
    assert host.findings() == [("step", True)]
    (step,) = host.board.status.findings
    assert set(step.collectives) == {"all_reduce", "all_gather"}
    assert "nothing that we record changed" in step.detail
    metrics = host.metrics()
    assert metrics['gpumond_finding{kind="step",level="warning"}'] == 1
    assert metrics[f'gpumond_collective_verdict{{{LABELS},sweep="nightly",verdict="degraded"}}'] == 1
    assert metrics[f'gpumond_collective_score_ratio{{{LABELS},sweep="nightly"}}'] == pytest.approx(
        0.97, abs=0.005
    )
    host.nights(3)
    assert host.findings() == [("step", False)]
    assert host.metrics()['gpumond_finding{kind="step",level="warning"}'] == 0


def test_a_drift_end_to_end(host):
    host.nights(LEARNED)
    for day in range(1, 12):
        host.night(1 - 0.001 * day)
    assert ("drift", True) in host.findings()


def test_a_driver_upgrade_end_to_end(host):
    host.nights(LEARNED)
    upgraded = make_snapshot()
    host.see(replace(upgraded, host=replace(upgraded.host, driver_version=Value("590.10"))))
    host.nights(2, 0.9)
    step = next(item for item in host.board.status.findings if item.kind is FindingKind.STEP)
    assert step.cause == ("driver",)
    assert "driver 580.159.04 -> 590.10" in step.detail
    host.nights(6, 0.9)
    candidate = next(
        item for item in host.board.status.findings if item.kind is FindingKind.BASELINE_CANDIDATE
    )
    assert candidate.level.value == "warning"
    assert (
        host.metrics()[f'gpumond_baseline_state{{{LABELS},state="candidate_waiting",sweep="nightly"}}'] == 1
    )


def test_a_restart_forgets_nothing(host):
    host.nights(LEARNED)
    host.night(0.97)
    before = host.metrics()
    host.board.update(lambda status: replace(status, scores=(), baselines=(), verdicts=()))
    host.start()
    assert host.metrics() == before
    host.night(0.97)
    assert host.findings() == [("step", True)]


def test_a_rerun_that_is_good_clears_the_night_before_anybody_is_told(host):
    host.nights(LEARNED)
    host.night(0.85, may_rerun=True)
    assert host.findings() == []
    assert host.last() == ("degraded", "severe")
    host.again(1.0, may_rerun=True)
    assert not host.service.has_suspects("nightly")
    assert host.last() == ("ok", "within_noise")
    reasons = [run.reason for run in host.store.runs(limit=4)]
    assert reasons == ["within_noise", "within_noise", "disturbed", "disturbed"]
    assert host.findings() == []


def test_a_night_that_stays_low_is_told_after_its_last_rerun(host):
    host.nights(LEARNED)
    host.night(0.85, may_rerun=True)
    host.again(0.85, may_rerun=True)
    assert host.findings() == []
    host.again(0.85, may_rerun=False)
    assert host.findings() == [("provisional", True)]


def test_a_rerun_that_cannot_run_leaves_the_night_to_be_settled(host):
    host.nights(LEARNED)
    host.night(0.85, may_rerun=True)
    host.outcome = SweepOutcome.SKIPPED
    host.again(1.0, may_rerun=True)
    assert host.service.has_suspects("nightly")
    host.service.settle("nightly")
    assert host.findings() == [("provisional", True)]


def test_a_daemon_that_died_between_a_low_night_and_its_rerun_judges_it_when_it_is_back(host):
    host.nights(LEARNED)
    host.night(0.85, may_rerun=True)
    host.start()
    assert host.findings() == [("provisional", True)]


def test_a_second_sweep_of_the_same_night_is_no_second_night(host):
    host.nights(LEARNED)
    host.night(0.9)
    host.clock.sleep(-86400 + 3600)
    host.night(0.9)
    assert host.findings() == [("provisional", True)]
    host.clock.sleep(-86400 + 3600)
    host.night(1.0)
    assert host.findings() == [("provisional", False)]


def test_tainted_runs_change_nothing(host):
    host.nights(LEARNED)
    record = host.store.judge_record(host.store.judged_scopes()[0]).memory
    host.nights(3, 0.5, reason=TAINTED)
    assert host.last() == ("not_evaluated", TAINTED)
    assert host.store.judge_record(host.store.judged_scopes()[0]).memory == record
    assert host.findings() == []


def test_corrupt_data_is_a_finding_at_once_and_keeps_its_verdict(host):
    host.nights(2)
    host.night(verdict=Verdict.FAILED, reason="wrong_results", detail="corrupt at 8 bytes")
    assert host.findings() == [("wrong_results", True)]
    assert host.last() == ("failed", "wrong_results")


def test_the_inputs_of_every_run_are_kept(host):
    host.night()
    run = host.store.runs(limit=1)[0]
    inputs = host.store.fingerprint(run.id)
    assert inputs["driver"] == "580.159.04"
    assert inputs["nccl"] == "2.27.3"
    assert inputs["gpu_uuids"] == "GPU-a,GPU-b"
    assert inputs["env.NCCL_DEBUG"] == "WARN"
    assert inputs["topology_hash"]


def test_a_replaced_gpu_waits_for_a_person_who_may_accept_and_undo(host):
    host.nights(LEARNED)
    other = make_snapshot()
    host.see(replace(other, gpus=(make_gpu("a", 1, vbios_version=Value("97.00")), other.gpus[1])))
    host.nights(8)
    (candidate,) = host.board.status.findings
    assert (candidate.kind.value, candidate.level.value, candidate.cause) == (
        "baseline_candidate",
        "warning",
        ("vbios",),
    )
    answer = host.service.decide_baseline(BaselineAction.ACCEPT, {REASON: "new board"}, by="ops")
    assert answer == "the new baseline is accepted: nightly/nccl-tests/all"
    assert host.board.status.findings == ()
    host.night()
    assert host.last() == ("ok", "within_noise")
    host.service.decide_baseline(BaselineAction.UNDO, {REASON: "wrong host"}, by="ops")
    (decision,) = host.store.baseline_decisions(limit=5)
    assert (decision.by, decision.reason, decision.undone_reason) == ("ops", "new board", "wrong host")
    host.night()
    assert [item.kind.value for item in host.board.status.findings] == ["baseline_candidate"]


def test_a_rejected_candidate_does_not_come_back(host):
    host.nights(LEARNED)
    upgraded = make_snapshot()
    host.see(replace(upgraded, host=replace(upgraded.host, driver_version=Value("590.10"))))
    host.nights(2)
    assert host.findings() == [("baseline_candidate", True)]
    host.service.decide_baseline(BaselineAction.REJECT, {REASON: "no"}, by="ops")
    host.nights(2)
    assert host.findings() == [("baseline_candidate", False)]


def test_reset_learns_anew(host):
    host.nights(LEARNED)
    host.nights(2, 0.9)
    host.service.decide_baseline(BaselineAction.RESET, {REASON: "recabled"}, by="ops")
    assert not any(is_open for _, is_open in host.findings())
    host.night(0.9)
    assert host.last() == ("not_evaluated", "learning")


def test_runs_of_one_evening_can_be_accepted_as_normal(host):
    for _ in range(5):
        host.night()
        host.clock.sleep(-86400 + 300)
    host.clock.sleep(86400)
    with pytest.raises(NotEvaluatedError, match="needs 5 runs"):
        host.service.decide_baseline(BaselineAction.ACCEPT, {REASON: "new", "runs": "3"}, by="ops")
    host.service.decide_baseline(BaselineAction.ACCEPT, {REASON: "new", "runs": "5"}, by="ops")
    host.night()
    assert host.last() == ("ok", "within_noise")
    host.nights(2, 0.85)
    assert ("step", True) in host.findings()


@pytest.mark.parametrize("action", list(BaselineAction))
def test_a_decision_about_nothing_is_refused(host, action):
    with pytest.raises(NotEvaluatedError):
        host.service.decide_baseline(action, {REASON: "x"}, by="ops")


def test_a_clock_that_went_back_makes_no_second_night_out_of_one(host):
    host.nights(LEARNED)
    host.night(0.9)
    host.clock.step(-40 * 86400)
    host.night(0.9)
    assert ("step", True) not in host.findings()


# A low night is measured again


class Timetable:
    """What the scheduler is to the re-runs: holds the next call, and makes it when its time has come."""

    def __init__(self, clock):
        self.clock, self.calls = clock, {}

    def at(self, name, instant, call):
        self.calls[name] = (instant, call)

    def run_next(self, *, late_seconds=0.0):
        (name,) = self.calls
        instant, call = self.calls.pop(name)
        self.clock.sleep((instant - self.clock.now()).total_seconds() + late_seconds)
        call()


@pytest.fixture
def timetable(clock):
    return Timetable(clock)


def low_night(host, timetable, *, window=timedelta(hours=3), **factors):
    reruns = Reruns(host.service, timetable.at, host.clock)
    host.nights(LEARNED)
    ends_at = host.clock.now() + window
    host.factors = {Collective(name): factor for name, factor in factors.items()}
    host.night(0.85, may_rerun=True)
    reruns.plan("nightly", ends_at)


def starts_of(host):
    """Of the runs of the low night, oldest first."""
    runs = [run for run in host.store.runs(limit=12) if run.collective is COLLECTIVES[0]]
    return [
        run.started_at for run in reversed(runs) if runs[0].started_at - run.started_at < timedelta(hours=3)
    ]


def test_a_low_night_is_measured_again_five_times_ten_minutes_apart(host, timetable):
    low_night(host, timetable)
    for _ in range(5):
        assert host.findings() == []
        timetable.run_next()
    assert timetable.calls == {}
    assert host.findings() == [("provisional", True)]
    starts = starts_of(host)
    gaps = {later - earlier for earlier, later in pairwise(starts)}
    assert len(starts) == 6
    assert min(gaps) >= timedelta(minutes=10)
    sweeps = host.store.sweeps(limit=5)
    assert {sweep.trigger for sweep in sweeps} == {Trigger.CONFIRMATION}


def test_the_first_good_rerun_is_the_last(host, timetable):
    low_night(host, timetable)
    timetable.run_next()
    host.factor = 1.0
    timetable.run_next()
    assert timetable.calls == {}
    assert host.findings() == []
    assert host.last() == ("ok", "within_noise")


def test_only_what_was_low_is_measured_again(host, timetable):
    low_night(host, timetable, all_gather=1 / 0.85)
    timetable.run_next()
    assert {run.collective for run in host.store.runs(limit=1)} == {Collective.ALL_REDUCE}


def test_no_rerun_leaves_its_window(host, timetable):
    low_night(host, timetable, window=timedelta(minutes=25))
    timetable.run_next()
    timetable.run_next()
    assert timetable.calls == {}
    assert host.findings() == [("provisional", True)]
    assert len(starts_of(host)) == 3


def test_a_rerun_that_comes_late_after_a_suspend_is_not_made(host, timetable):
    low_night(host, timetable, window=timedelta(minutes=25))
    runs = len(host.store.runs(limit=100))
    timetable.run_next(late_seconds=3600)
    assert len(host.store.runs(limit=100)) == runs
    assert host.findings() == [("provisional", True)]


def test_a_sweep_outside_a_window_is_judged_as_it_is(host, timetable):
    host.nights(LEARNED)
    host.night(0.85, may_rerun=True)
    Reruns(host.service, timetable.at, host.clock).plan("nightly", None)
    assert timetable.calls == {}
    assert host.findings() == [("provisional", True)]


# What the judge needs of the past


def test_judging_needs_no_run_that_retention_has_deleted(host):
    host.nights(45)
    (scope,) = host.store.judged_scopes()
    before = host.store.judge_record(scope).memory
    year = timedelta(days=365)
    report = host.store.apply_retention(host.clock.now() + 3 * year, RetentionPolicy(year, year, year))
    assert report.runs == 2 * 15
    host.start()
    assert host.store.judge_record(scope).memory == before
    host.night()
    assert host.last() == ("ok", "within_noise")
    host.nights(2, 0.95)
    assert host.findings() == [("step", True)]


def test_a_host_that_was_off_for_a_year_is_compared_with_what_it_was(host):
    host.nights(LEARNED)
    host.night(0.95)
    host.clock.sleep(365 * 86400)
    host.night(0.95)
    assert host.findings() == []
    assert host.last() == ("degraded", "unconfirmed")
    host.night(0.95)
    assert host.findings() == [("step", True)]


def test_a_store_from_another_host_judges_nothing(host):
    """An image was cloned, store included. Other members are another series (DESIGN 5), which is learned anew."""
    host.nights(LEARNED)
    (scope,) = host.store.judged_scopes()
    before = host.store.judge_record(scope).memory.tracks
    others = (make_gpu("x", 1), make_gpu("y", 2))
    host.see(make_snapshot(gpus=others, pairs=(make_pair("x", "y"), make_pair("y", "x"))))
    members = GpuSet("all", tuple(gpu.uuid for gpu in others))
    host.nights(3, 0.5, gpu_set=members, parameters_hash="p2")
    assert host.last() == ("not_evaluated", "learning")
    assert host.findings() == []
    after = host.store.judge_record(scope).memory.tracks
    assert {key: after[key] for key in before} == before


# Transport, throttling, limits


def transport_of(name, channels):
    return TransportReport(pairs=(PairTransport(0, 1, name, channels), PairTransport(1, 0, name, channels)))


def test_another_transport_is_a_finding_without_a_drop(host):
    host.nights(LEARNED, transport=transport_of("P2P/CUMEM", 24))
    baseline = (
        f'gpumond_collective_transport_baseline_channels{{{LABELS},sweep="nightly",transport="P2P/CUMEM"}}'
    )
    assert host.metrics()[baseline] == 48
    host.night(transport=transport_of("SHM/direct", 2))
    assert host.findings() == [("transport_change", True)]
    assert host.last() == ("degraded", "transport_change")
    metrics = host.metrics()
    assert metrics[baseline] == 48
    now = f'gpumond_collective_transport_channels{{{LABELS},sweep="nightly",transport="SHM/direct"}}'
    assert metrics[now] == 4
    assert metrics['gpumond_finding{kind="transport_change",level="warning"}'] == 1
    host.night(transport=transport_of("P2P/CUMEM", 24))
    assert host.findings() == [("transport_change", False)]


def test_a_throttled_low_night_says_so(host):
    hot = LoadSummary("GPU-a", 5, event_reasons=0x80)
    host.nights(LEARNED)
    host.nights(2, 0.95, watch=RunWatch(9, 0.1, 1.0, gpus=(hot,)))
    assert host.last() == ("degraded", "throttled")
    (step,) = host.board.status.findings
    assert "throttled (GPU-a: power brake)" in step.detail


def test_a_lower_power_limit_is_the_cause(host):
    limits = [
        tuple(make_gpu(letter, n, power_limit_watts=Value(watts)) for n, letter in ((1, "a"), (2, "b")))
        for watts in (700.0, 400.0)
    ]
    host.see(make_snapshot(gpus=limits[0]))
    host.nights(LEARNED)
    host.see(make_snapshot(gpus=limits[1]))
    host.nights(2, 0.95)
    step = next(item for item in host.board.status.findings if item.kind is FindingKind.STEP)
    assert step.cause == ("power_limit",)
    assert "power_limit 700.0 -> 400.0" in step.detail


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "preempted", "outcome": ""},
        {"reason": "truncated", "outcome": "truncated"},
        {"reason": "unreadable_rows", "outcome": ""},
        {"purpose": Purpose.IMPORTED},
        {"purpose": Purpose.SANITY},
    ],
    ids=lambda changes: str(next(iter(changes.values()))),
)
def test_no_finding_comes_from_what_is_no_measurement(host, changes):
    host.nights(LEARNED)
    scope = host.store.judged_scopes()[0]
    before = host.store.judge_record(scope).memory
    host.nights(3, 0.5, **changes)
    assert host.findings() == []
    assert host.store.judge_record(scope).memory == before


def test_skipped_sweeps_change_nothing(host):
    host.nights(LEARNED)
    scope = host.store.judged_scopes()[0]
    before = host.store.judge_record(scope).memory
    host.outcome = SweepOutcome.SKIPPED
    host.nights(3)
    assert host.findings() == []
    assert host.store.judge_record(scope).memory == before
