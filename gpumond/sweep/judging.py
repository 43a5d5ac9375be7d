"""Judges what sweeps have measured, once, and keeps the judgement in the store. Decides nothing itself.

A scope is judged from the memory before its newest night on, so that a night can be judged again when another run of it
comes: a re-run, or a second sweep. While re-runs are still to come, verdicts are stored and findings are not.

Invariant: verdicts, memory and findings of a night reach the disk in one transaction; after a crash the same runs are
judged to the same end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from gpumond.judge.assessment import Assessment
from gpumond.judge.baseline import state_of
from gpumond.judge.inputs import HostInputs, fingerprint_of
from gpumond.judge.night import JudgedRun, NightResult, judge_night, worth_rerun
from gpumond.judge.nights import group_nights
from gpumond.judge.observation import Observation
from gpumond.judge.reference import is_modelled
from gpumond.judge.stored_run import is_measured, observation_of
from gpumond.log import get_logger
from gpumond.model.baseline import Scope, ScopeMemory, Track, TrackKey
from gpumond.model.benchmark import Collective
from gpumond.model.finding import Finding
from gpumond.model.identity import RunId
from gpumond.model.run import Engine, Purpose, Run
from gpumond.model.status import CollectiveBaseline
from gpumond.model.topology import Snapshot
from gpumond.store.records import JudgeRecord, NumberedRun
from gpumond.store.sqlite import Store
from gpumond.sweep.events import RunFinished, SweepEvent
from gpumond.sweep.host_inputs import read_host_inputs
from gpumond.topology.expected import expected_ring_busbw

log = get_logger("judge")


@dataclass(frozen=True, slots=True)
class Suspect:
    """A measurement that should be repeated before anybody is told."""

    gpu_set: str
    collective: Collective

    def __str__(self) -> str:
        return f"{self.collective.value} on {self.gpu_set}"


@dataclass(frozen=True, slots=True)
class _Item:
    number: int
    run: Run
    observation: Observation


@dataclass(slots=True)
class _Fold:
    """The nights of a scope, one after the other; `before` and `first_run` are of the newest one."""

    before: ScopeMemory
    memory: ScopeMemory
    first_run: int
    judged: list[tuple[_Item, JudgedRun]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


class Judging:
    def __init__(
        self,
        store: Store,
        *,
        snapshot: Callable[[], Snapshot | None],
        host_inputs: Callable[[Run], HostInputs] = read_host_inputs,
    ) -> None:
        """`snapshot` is the newest look at the host."""
        self._store = store
        self._snapshot = snapshot
        self._host_inputs = host_inputs

    def follow(self, event: SweepEvent) -> None:
        """Keep the inputs of each run as it ends; judging is a matter of whoever knows whether re-runs may follow."""
        if isinstance(event, RunFinished):
            self.note_inputs(event.run)

    def note_inputs(self, run: Run) -> None:
        """Keep the inputs of a run that has just ended; later nobody knows them any more."""
        if run.purpose is Purpose.MEASUREMENT:
            inputs = fingerprint_of(run, self._snapshot(), self._host_inputs(run))
            self._store.set_fingerprint(run.id, inputs)

    def has_new_inputs(self, sweep: str) -> bool:
        """Whether a run of this sweep would begin with other inputs than its last one; False where nobody knows."""
        last = next(iter(self._store.runs(limit=1, sweep=sweep)), None)
        known = self._store.fingerprint(last.id) if last is not None else None
        if last is None or not known:
            return False
        now = fingerprint_of(last, self._snapshot(), self._host_inputs(last))
        return any(value and now.get(key) not in ("", None, value) for key, value in known.items())

    def judge_new(self, sweep: str, *, may_rerun: bool = False) -> tuple[Suspect, ...]:
        """Judge all that is new of a configured sweep; with `may_rerun` what is low waits for re-runs and is returned."""
        suspects: list[Suspect] = []
        for scope in self._store.measured_scopes(sweep):
            suspects += self.judge_scope(scope, may_rerun=may_rerun)
        return tuple(suspects)

    def baselines(self) -> tuple[CollectiveBaseline, ...]:
        """What is normal, for each collective the baseline of its newest parameters."""
        found: dict[tuple[Scope, str], tuple[datetime, CollectiveBaseline]] = {}
        for scope in self._store.judged_scopes():
            for key, track in self._store.judge_record(scope).memory.tracks.items():
                place = (scope, key.collective)
                if track.last_at is None or (place in found and found[place][0] >= track.last_at):
                    continue
                found[place] = track.last_at, _baseline_of(scope, key, track)
        return tuple(baseline for _, baseline in found.values())

    def judge_scope(self, scope: Scope, *, may_rerun: bool = False) -> tuple[Suspect, ...]:
        """Judge all that is new in a scope."""
        record = self._store.judge_record(scope)
        items = [self._item(numbered) for numbered in self._store.runs_to_judge(scope, record.first_run)]
        nights = list(group_nights(items, lambda item: item.observation))
        fold = _Fold(record.before, record.before, record.first_run)
        for night in nights[:-1]:
            self._judge_night(fold, scope, night)
        if not nights:
            return ()
        suspects = self._suspects(fold.memory, nights[-1]) if may_rerun else ()
        if suspects:
            self._publish_verdicts(fold, scope, nights[-1])
            return suspects
        self._judge_night(fold, scope, nights[-1])
        self._publish(fold, scope, record.memory.findings)
        return ()

    def _item(self, numbered: NumberedRun) -> _Item:
        run, snapshot = numbered.run, self._snapshot()
        observation = observation_of(
            run,
            numbered.fingerprint or {},
            model_busbw=_model_busbw(run, snapshot),
            cpu_count=snapshot.host.cpu_count if snapshot else 0,
        )
        return _Item(numbered.number, run, observation)

    def _judge_night(self, fold: _Fold, scope: Scope, night: list[_Item]) -> None:
        result = _result(fold.memory, scope, night)
        fold.judged += zip(night, result.runs, strict=True)
        fold.findings += result.findings
        if not all(item.observation.excluded for item in night):
            fold.before, fold.memory, fold.first_run = fold.memory, result.memory, night[0].number

    def _suspects(self, memory: ScopeMemory, night: list[_Item]) -> tuple[Suspect, ...]:
        low = set(worth_rerun(memory, [item.observation for item in night]))
        found = (
            Suspect(item.run.gpu_set.name, item.run.collective)
            for item in night
            if item.observation.track in low
        )
        return tuple(dict.fromkeys(found))

    def _publish_verdicts(self, fold: _Fold, scope: Scope, night: list[_Item]) -> None:
        """What can be said before the re-runs: the verdicts, but nothing that outlives the night."""
        result = _result(fold.memory, scope, night)
        judged = [*fold.judged, *zip(night, result.runs, strict=True)]
        verdicts, remarks = _by_kind(judged)
        self._store.record_verdicts(verdicts, remarks)

    def _publish(self, fold: _Fold, scope: Scope, known: Iterable[Finding]) -> None:
        verdicts, remarks = _by_kind(fold.judged)
        self._store.record_judgement(
            scope,
            JudgeRecord(fold.first_run, fold.before, fold.memory),
            verdicts=verdicts,
            remarks=remarks,
            findings=fold.findings,
        )
        _log_findings(known, fold.findings)


def _log_findings(known: Iterable[Finding], findings: Iterable[Finding]) -> None:
    """A night is judged again with each new one, so most of `findings` are no news."""
    was_open = {(finding.kind, finding.subject) for finding in known}
    newest = {(finding.kind, finding.subject): finding for finding in findings}
    for key, finding in newest.items():
        is_open = finding.closed_at is None
        if is_open == (key in was_open):
            continue
        facts = {
            "kind": finding.kind.value,
            "finding_level": finding.level.value,
            "subject": finding.subject,
            "detail": finding.detail,
        }
        if is_open:
            log.info("finding_opened", **facts)
        else:
            log.info("finding_closed", **facts)


def _baseline_of(scope: Scope, key: TrackKey, track: Track) -> CollectiveBaseline:
    baseline = track.baseline
    return CollectiveBaseline(
        sweep=scope.sweep,
        engine=Engine(scope.engine),
        gpu_set=scope.gpu_set,
        collective=Collective(key.collective),
        state=state_of(track),
        datatype=key.datatype,
        busbw=baseline.busbw if baseline else {},
        transport=baseline.transport if baseline else "",
    )


def _result(memory: ScopeMemory, scope: Scope, night: list[_Item]) -> NightResult:
    return judge_night(memory, scope, [item.observation for item in night])


def _by_kind(
    judged: Iterable[tuple[_Item, JudgedRun]],
) -> tuple[dict[RunId, Assessment], dict[RunId, Assessment]]:
    """Verdicts on what was measured; what failed or was not alone has its verdict from its end, with more words."""
    verdicts = {item.run.id: run.assessment for item, run in judged if is_measured(item.run)}
    remarks = {item.run.id: run.assessment for item, run in judged if not is_measured(item.run)}
    return verdicts, remarks


def _model_busbw(run: Run, snapshot: Snapshot | None) -> float | None:
    if snapshot is None or not is_modelled(run.collective, len(run.gpu_set.uuids)):
        return None
    return expected_ring_busbw(snapshot, run.gpu_set.uuids)
