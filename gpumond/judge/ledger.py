"""The findings of one scope: opened and renewed by signals of its tracks, closed by what the tracks look like. Pure.

One event shows in several collectives, on the same night or on the next: it is one finding. A finding is open for as
long as one of its collectives shows what it says; nothing else closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from gpumond.judge import policy
from gpumond.judge.transport import TransportChange, transport_change
from gpumond.model.baseline import Scope, Track, TrackKey
from gpumond.model.change import Level
from gpumond.model.finding import LEVELS, Finding, FindingKind


@dataclass(frozen=True, slots=True)
class Signal:
    """What one track has shown tonight. `confirmed_at` None: one night alone."""

    kind: FindingKind
    collective: str
    first_at: datetime
    confirmed_at: datetime | None
    detail: str
    evidence: str = ""
    cause: tuple[str, ...] = ()
    level: Level | None = None


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """The findings that stay open, and all that changed tonight, closed ones included."""

    open: tuple[Finding, ...]
    changed: tuple[Finding, ...]


_EMPTY = LedgerPage((), ())


def settle(
    scope: Scope,
    findings: Iterable[Finding],
    signals: Collection[Signal],
    tracks: Mapping[TrackKey, Track],
    at: datetime,
) -> LedgerPage:
    """Tonight's page: `findings` were open before, `tracks` are as the night has left them."""
    before = tuple(findings)
    if not before and not signals:
        return _EMPTY
    after = list(before)
    for signal in signals:
        _enter(after, scope, signal, at)
    closed = [
        finding
        if finding.closed_at is not None or is_shown(finding, tracks)
        else replace(finding, closed_at=at, last_at=max(at, finding.last_at))
        for finding in after
    ]
    return LedgerPage(
        open=tuple(finding for finding in closed if finding.closed_at is None),
        changed=tuple(finding for finding in closed if finding not in before),
    )


def _enter(findings: list[Finding], scope: Scope, signal: Signal, at: datetime) -> None:
    if signal.kind is FindingKind.STEP:
        _confirm_provisional(findings, signal)
    for place, finding in enumerate(findings):
        if finding.closed_at is None and _is_same_event(finding, signal):
            if _is_renamed(finding, signal):
                findings[place] = replace(finding, closed_at=at, last_at=at)
                finding = replace(finding, kind=signal.kind)  # noqa: PLW2901 - one event under its better name
                findings.append(_renewed(finding, signal, at))
            else:
                findings[place] = _renewed(finding, signal, at)
            return
    findings.append(
        Finding(
            kind=signal.kind,
            level=signal.level or LEVELS[signal.kind],
            subject=f"{scope} since {signal.first_at:%Y-%m-%dT%H:%M:%SZ}",
            detail=signal.detail,
            evidence=signal.evidence,
            first_at=signal.first_at,
            last_at=at,
            confirmed_at=signal.confirmed_at,
            collectives=(signal.collective,),
            cause=signal.cause,
        )
    )


_LOSSES: Final = frozenset({FindingKind.STEP, FindingKind.DRIFT})


def _is_same_event(finding: Finding, signal: Signal) -> bool:
    """Whether a signal belongs to an open finding. Step and drift are two views of one loss."""
    if finding.kind is not signal.kind and not {finding.kind, signal.kind} <= _LOSSES:
        return False
    is_near = abs(signal.first_at - finding.first_at) <= policy.MERGE_WITHIN
    return is_near or signal.collective in finding.collectives


def _is_renamed(finding: Finding, signal: Signal) -> bool:
    """Whether a step has turned out to be a decline. The collective that showed it first has the word."""
    is_decline = finding.kind is FindingKind.STEP and signal.kind is FindingKind.DRIFT
    return is_decline and signal.collective == finding.collectives[0]


def _renewed(finding: Finding, signal: Signal, at: datetime) -> Finding:
    """The newest words; the earliest start; every collective and every cause that was ever named."""
    level = signal.level or LEVELS[signal.kind]
    return replace(
        finding,
        level=max(finding.level, level, key=list(Level).index),
        detail=signal.detail if signal.collective == finding.collectives[0] else finding.detail,
        evidence=signal.evidence or finding.evidence,
        first_at=min(finding.first_at, signal.first_at),
        last_at=at,
        confirmed_at=finding.confirmed_at or signal.confirmed_at,
        collectives=tuple(dict.fromkeys((*finding.collectives, signal.collective))),
        cause=tuple(dict.fromkeys((*finding.cause, *signal.cause))),
    )


def _confirm_provisional(findings: list[Finding], step: Signal) -> None:
    for place, finding in enumerate(findings):
        if finding.kind is FindingKind.PROVISIONAL and step.collective in finding.collectives:
            findings[place] = replace(finding, confirmed_at=finding.confirmed_at or step.confirmed_at)


def confirm_candidates(findings: Iterable[Finding], at: datetime) -> tuple[Finding, ...]:
    """`findings` with the candidates marked as accepted."""
    return tuple(
        replace(finding, confirmed_at=at) if finding.kind is FindingKind.BASELINE_CANDIDATE else finding
        for finding in findings
    )


def is_shown(finding: Finding, tracks: Mapping[TrackKey, Track]) -> bool:
    """Whether a collective of the finding still shows it."""
    return any(
        _SHOWS[finding.kind](track) for key, track in tracks.items() if key.collective in finding.collectives
    )


def _has_alarm(track: Track) -> bool:
    return track.bandwidth.alarm is not None or track.latency.alarm is not None


_SHOWS: Final[Mapping[FindingKind, Callable[[Track], bool]]] = {
    FindingKind.STEP: _has_alarm,
    FindingKind.DRIFT: _has_alarm,
    FindingKind.PROVISIONAL: lambda track: track.bandwidth.is_provisional,
    FindingKind.WRONG_RESULTS: lambda track: not all(track.results[-policy.WRONG_CLEAN_RUNS :]),
    FindingKind.FAILED: lambda track: track.failures > 0,
    FindingKind.TRANSPORT_CHANGE: lambda track: (
        track.baseline is not None
        and transport_change(track.baseline.transport, track.transport) is not TransportChange.NONE
    ),
    FindingKind.BASELINE_CANDIDATE: lambda track: track.candidate is not None,
}
"""What a track looks like while a finding of its collective lasts; the other kinds are not of the judge."""
