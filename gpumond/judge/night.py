"""One night of one scope: from what is remembered and the runs of the night to verdicts, findings and a new memory.

Pure, and a fold: `judge_night(memory, runs)` for each night in turn is all that judging is, for the daemon, for a
history from outside and for the simulation of bench/detection.py. A night whose re-runs come in one by one is judged
again from the memory before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpumond.judge import policy
from gpumond.judge.admission import excluded
from gpumond.judge.assessment import Assessment, Reason, not_evaluated
from gpumond.judge.attribution import cause_of, sentence_of
from gpumond.judge.baseline import (
    Decision,
    accept,
    candidate_level,
    decide,
    effective_sigma,
    has_full_rules,
    typical_sigma,
)
from gpumond.judge.ledger import Signal, confirm_candidates, settle
from gpumond.judge.observation import Observation
from gpumond.judge.scored import best_z
from gpumond.judge.track import judge_track
from gpumond.model.baseline import Candidate, Scope, ScopeMemory, Track, TrackKey
from gpumond.model.change import Level
from gpumond.model.finding import Finding, FindingKind


@dataclass(frozen=True, slots=True)
class JudgedRun:
    observation: Observation
    assessment: Assessment


@dataclass(frozen=True, slots=True)
class NightResult:
    """`findings` are those that were opened, renewed or closed tonight."""

    memory: ScopeMemory
    runs: tuple[JudgedRun, ...]
    findings: tuple[Finding, ...]


def judge_night(memory: ScopeMemory, scope: Scope, runs: Sequence[Observation]) -> NightResult:
    """The runs of one scope and night, in order of time."""
    counted = [number for number, run in enumerate(runs) if not run.excluded]
    judged = {number: excluded(run) for number, run in enumerate(runs) if run.excluded}
    if not counted:
        return NightResult(memory, _judged_runs(runs, judged, memory.tracks), ())
    tracks = dict(memory.tracks)
    siblings = typical_sigma(tracks.values())
    signals: list[Signal] = []
    for key, numbers in _by_track(runs, counted).items():
        result = judge_track(tracks.get(key, Track()), [runs[number] for number in numbers], siblings)
        tracks[key] = result.track
        signals.extend(result.signals)
        judged.update(zip(numbers, result.assessments, strict=True))
    at = runs[counted[0]].at
    tracks, decided, decision = _decide_candidates(tracks, at)
    findings = confirm_candidates(memory.findings, at) if decision is Decision.ACCEPT else memory.findings
    page = settle(scope, findings, [*signals, *decided], tracks, at)
    return NightResult(
        memory=ScopeMemory(tracks, page.open),
        runs=_judged_runs(runs, judged, tracks),
        findings=page.changed,
    )


def worth_rerun(memory: ScopeMemory, runs: Sequence[Observation]) -> tuple[TrackKey, ...]:
    """The tracks whose night is low so far, and that no run of the night has cleared."""
    lows = []
    siblings = typical_sigma(memory.tracks.values())
    for key, numbers in _by_track(runs, [n for n, run in enumerate(runs) if not run.excluded]).items():
        baseline = memory.tracks.get(key, Track()).baseline
        if baseline is None or baseline.night_count < policy.PROVISIONAL_NIGHTS:
            continue
        sigma = effective_sigma(baseline, siblings)
        best = best_z([runs[number] for number in numbers], baseline, sigma)
        if best is not None and best <= (policy.SUSPECT_Z if len(numbers) == 1 else policy.CLEARED_Z):
            lows.append(key)
    return tuple(lows)


def _by_track(runs: Sequence[Observation], counted: Sequence[int]) -> dict[TrackKey, list[int]]:
    numbers: dict[TrackKey, list[int]] = {}
    for number in counted:
        numbers.setdefault(runs[number].track, []).append(number)
    return numbers


def _judged_runs(
    runs: Sequence[Observation], judged: Mapping[int, Assessment], tracks: Mapping[TrackKey, Track]
) -> tuple[JudgedRun, ...]:
    return tuple(
        JudgedRun(
            run,
            _compared_with_more_ranks(judged[number], run.track, tracks)
            if judged[number].reason == Reason.LEARNING
            else judged[number],
        )
        for number, run in enumerate(runs)
    )


def _decide_candidates(
    tracks: Mapping[TrackKey, Track], at: datetime
) -> tuple[dict[TrackKey, Track], list[Signal], Decision]:
    """Candidates of a scope are accepted together or not at all; a collective that is no longer measured has no say."""
    waiting = {
        key: track
        for key, track in tracks.items()
        if track.candidate is not None
        and track.last_at is not None
        and abs(at - track.last_at) <= policy.CONSECUTIVE_WITHIN
    }
    decision = decide(waiting.values()) if waiting else Decision.WAIT
    changed = dict(tracks)
    signals: list[Signal] = []
    for key, track in waiting.items():
        if decision is Decision.ACCEPT:
            changed[key] = accept(track, origin="auto_accepted")
            signals += [_accepting(key, track.candidate, at)] if track.candidate else []
        elif decision is Decision.ASK and track.candidate is not None and not track.candidate.needs_person:
            candidate = replace(track.candidate, needs_person=True)
            changed[key] = replace(track, candidate=candidate)
            signals.append(_asking(key, candidate))
    return changed, signals, decision


def _measured(candidate: Candidate) -> str:
    level = candidate_level(candidate)
    return "unknown" if level is None else f"{level - 1:+.1%} over {len(candidate.ratios)} nights"


def _accepting(key: TrackKey, candidate: Candidate, at: datetime) -> Signal:
    """Nobody need act, but who wonders about the new level, higher ones included, finds here why it is normal."""
    return Signal(
        kind=FindingKind.BASELINE_CANDIDATE,
        collective=key.collective,
        first_at=candidate.opened_at,
        confirmed_at=at,
        detail=f"the new normal is accepted: {key.collective} is {_measured(candidate)};"
        f" {sentence_of(candidate.changes)}",
        cause=cause_of(candidate.changes),
    )


def _asking(key: TrackKey, candidate: Candidate) -> Signal:
    return Signal(
        kind=FindingKind.BASELINE_CANDIDATE,
        collective=key.collective,
        first_at=candidate.opened_at,
        confirmed_at=None,
        detail=f"a new normal waits for a person: {key.collective} is {_measured(candidate)};"
        f" {sentence_of(candidate.changes)}",
        cause=cause_of(candidate.changes),
        level=Level.WARNING,
    )


def _compared_with_more_ranks(
    assessment: Assessment, key: TrackKey, tracks: Mapping[TrackKey, Track]
) -> Assessment:
    """A host that lost a GPU learns anew, and says so: 7 of 8 cost 2.8 %, which nobody may take for the old series."""
    what = (key.collective, key.datatype, key.redop)
    more = [
        other.ranks
        for other, track in tracks.items()
        if (other.collective, other.datatype, other.redop) == what
        and other.ranks > key.ranks > 0
        and track.baseline is not None
        and has_full_rules(track.baseline)
    ]
    if not more:
        return assessment
    return not_evaluated(
        Reason.FEWER_RANKS, f"{key.ranks} ranks; the baseline is of {max(more)}", assessment.score
    )
