"""What the store keeps for the judge, as operations: each is one transaction. A part of `History`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from gpumond.clock import Clock
from gpumond.judge.assessment import Assessment
from gpumond.judge.baseline import restored
from gpumond.model.baseline import Scope, ScopeMemory
from gpumond.model.finding import Finding
from gpumond.model.identity import RunId
from gpumond.model.status import CollectiveScore
from gpumond.store import judgements
from gpumond.store.records import BaselineDecision, BaselineDecisionKind, JudgeRecord, NumberedRun
from gpumond.store.session import Session


class Transactions(Protocol):
    """Who opens and ends transactions. Either block raises StoreError."""

    def reading(self) -> AbstractContextManager[Session]:
        """All reads of the block see one state."""
        ...

    def writing(self) -> AbstractContextManager[Session]:
        """All of the block is stored, or nothing."""
        ...


class JudgeHistory:
    """Verdicts, memory and decisions."""

    def __init__(self, transactions: Transactions, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock

    def set_fingerprint(self, run_id: RunId, inputs: Mapping[str, str]) -> None:
        """Keep the inputs of a run with it."""
        with self._transactions.writing() as session:
            judgements.write_fingerprint(session, run_id, inputs)

    def fingerprint(self, run_id: RunId) -> dict[str, str] | None:
        """None where they were never recorded."""
        with self._transactions.reading() as session:
            return judgements.read_fingerprint(session, run_id)

    def assessment(self, run_id: RunId) -> Assessment | None:
        """What the judge said of a run; None where it was not judged."""
        with self._transactions.reading() as session:
            return judgements.read_assessment(session, run_id)

    def latest_scores(self) -> tuple[CollectiveScore, ...]:
        """The score of the newest run of each collective."""
        with self._transactions.reading() as session:
            return judgements.read_latest_scores(session)

    def measured_scopes(self, sweep: str) -> tuple[Scope, ...]:
        """Every scope of a configured sweep that has a finished measurement."""
        with self._transactions.reading() as session:
            return judgements.read_measured_scopes(session, sweep)

    def judged_scopes(self) -> tuple[Scope, ...]:
        with self._transactions.reading() as session:
            return judgements.read_scopes(session)

    def judge_record(self, scope: Scope) -> JudgeRecord:
        """What is remembered of a scope; empty before its first night."""
        with self._transactions.reading() as session:
            return judgements.read_record(session, scope)

    def runs_to_judge(self, scope: Scope, first_run: int) -> tuple[NumberedRun, ...]:
        """Finished measurements from a number on, oldest first."""
        with self._transactions.reading() as session:
            return judgements.read_runs_to_judge(session, scope, first_run)

    def record_verdicts(
        self, verdicts: Mapping[RunId, Assessment], remarks: Mapping[RunId, Assessment]
    ) -> None:
        """Store what was said of runs; `remarks` leave the verdict that a run has."""
        with self._transactions.writing() as session:
            _write_assessments(session, verdicts, remarks)

    def record_judgement(
        self,
        scope: Scope,
        record: JudgeRecord,
        *,
        verdicts: Mapping[RunId, Assessment],
        remarks: Mapping[RunId, Assessment],
        findings: Iterable[Finding],
    ) -> None:
        """Store a judged night: verdicts, memory and findings together, so that a crash tears nothing apart."""
        with self._transactions.writing() as session:
            _write_assessments(session, verdicts, remarks)
            judgements.write_findings(session, scope, findings, record.memory.findings, self._clock.now())
            judgements.write_record(session, scope, record)

    def decide_baseline(
        self,
        scope: Scope,
        kind: BaselineDecisionKind,
        memory: ScopeMemory,
        changed: Iterable[Finding],
        *,
        by: str,
        reason: str,
    ) -> int:
        """Let `memory` be what is remembered from now on, because a person says so. The number of the decision."""
        now = self._clock.now()
        with self._transactions.writing() as session:
            record = judgements.read_record(session, scope)
            number = judgements.write_decision(
                session, scope, kind, record.memory.tracks, by=by, reason=reason, at=now
            )
            judgements.write_findings(session, scope, changed, memory.findings, now)
            _remember(session, scope, record, memory)
            return number

    def undo_baseline_decision(self, scope: Scope, *, by: str, reason: str) -> BaselineDecision | None:
        """Take back the newest decision on a scope that stands; None where there is none.

        The baselines are as they were before it; detectors and candidates begin anew.
        """
        now = self._clock.now()
        with self._transactions.writing() as session:
            undone = judgements.take_back(session, scope, by=by, reason=reason, at=now)
            if undone is None:
                return None
            decision, tracks = undone
            record = judgements.read_record(session, scope)
            again = {key: restored(track) for key, track in tracks.items()}
            memory = ScopeMemory({**record.memory.tracks, **again}, record.memory.findings)
            _remember(session, scope, record, memory)
            return decision

    def baseline_decisions(self, *, limit: int) -> tuple[BaselineDecision, ...]:
        """Newest first."""
        with self._transactions.reading() as session:
            return judgements.read_decisions(session, limit)


def _write_assessments(
    session: Session, verdicts: Mapping[RunId, Assessment], remarks: Mapping[RunId, Assessment]
) -> None:
    for run_id, assessment in verdicts.items():
        judgements.write_assessment(session, run_id, assessment, is_verdict=True)
    for run_id, assessment in remarks.items():
        judgements.write_assessment(session, run_id, assessment, is_verdict=False)


def _remember(session: Session, scope: Scope, record: JudgeRecord, memory: ScopeMemory) -> None:
    """A decision holds from the next night on: the newest one is not judged again by it."""
    decided = replace(record, first_run=judgements.next_run_number(session), before=memory, memory=memory)
    judgements.write_record(session, scope, decided)
