"""Whether a host is fit for work, from what its history says. Pure; `gpumond check` is the command around it.

Invariants: only what was confirmed is trouble (a second night, a second reading, a re-run); what nobody has looked at
for a while is `not_evaluated`, never `ok`; open trouble stays trouble when the daemon has died, because nothing has
shown that it is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from gpumond.model.change import Level, OpenChange, is_of_hardware
from gpumond.model.finding import Finding, FindingKind
from gpumond.model.run import Verdict
from gpumond.model.status import CollectiveScore, CollectiveVerdict, InventoryEntry

DAEMON_SILENT_SECONDS_MAX = 300.0
"""A daemon writes every 30 s. An upgrade with a migration takes less than this."""

SNAPSHOTS_MISSED_MAX = 3

_LEVELS = tuple(Level)
_CONFIRMED_BY_RERUN = frozenset({FindingKind.HANG, FindingKind.P2P_PATH})
"""Nothing is reported of these before a second run has shown it (gpumond.sweep.hang)."""


class Doubt(StrEnum):
    """Why a host without confirmed trouble is not called ok. The words are a contract: scripts read them."""

    NO_DATA = "no_data"  # no daemon has ever looked at this host
    STALE = "stale"  # the daemon is gone, or stuck
    UNREADABLE = "unreadable"  # the daemon lives, and cannot see the GPUs, or not all of them
    UNCONFIRMED = "unconfirmed"  # one night, or one run, was bad
    NOT_MEASURED = "not_measured"  # the hardware is as accepted; no benchmark has ever run
    LEARNING = "learning"  # the hardware is as accepted; there is no baseline yet


BLIND = frozenset({Doubt.NO_DATA, Doubt.STALE, Doubt.UNREADABLE})
"""Those that mean: nobody can say how this host is now."""


@dataclass(frozen=True, slots=True)
class HostRecord:
    """What the history says of its host, read at `at`."""

    at: datetime
    findings: tuple[Finding, ...] = ()
    changes: tuple[OpenChange, ...] = ()
    verdicts: tuple[CollectiveVerdict, ...] = ()
    scores: tuple[CollectiveScore, ...] = ()
    inventory: tuple[InventoryEntry, ...] = ()
    daemon_seen_at: datetime | None = None
    gpus_seen_at: datetime | None = None
    is_measuring: bool = False
    """While a sweep runs no snapshot is taken."""
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is not as it should be."""

    kind: str
    level: Level
    subject: str
    detail: str
    since: datetime
    is_confirmed: bool


@dataclass(frozen=True, slots=True)
class HealthReport:
    """`reason` is a word: the kind of the worst trouble, or a Doubt; empty where all is well. `detail` is a sentence."""

    verdict: Verdict
    reason: str
    detail: str
    is_failing: bool
    """Confirmed trouble has reached the level that was asked for."""
    troubles: tuple[Trouble, ...]
    scores: tuple[CollectiveScore, ...]
    gpus: int
    daemon_age_seconds: float | None
    gpus_age_seconds: float | None
    is_paused: bool

    def count(self, level: Level) -> int:
        """Confirmed troubles of exactly this level."""
        return sum(trouble.is_confirmed and trouble.level is level for trouble in self.troubles)


def assess(record: HostRecord, *, fail_on: Level, snapshot_seconds_max: float) -> HealthReport:
    """`snapshot_seconds_max`: how old the newest look at the GPUs may be."""
    troubles = tuple(sorted(_troubles(record), key=_badness, reverse=True))
    verdict, reason, detail = _judge(record, troubles, snapshot_seconds_max)
    return HealthReport(
        verdict=verdict,
        reason=reason,
        detail=detail,
        is_failing=any(trouble.is_confirmed and reaches(trouble.level, fail_on) for trouble in troubles),
        troubles=troubles,
        scores=record.scores,
        gpus=len(record.inventory),
        daemon_age_seconds=_age(record, record.daemon_seen_at),
        gpus_age_seconds=_age(record, record.gpus_seen_at),
        is_paused=record.is_paused,
    )


def reaches(level: Level, threshold: Level) -> bool:
    return _LEVELS.index(level) >= _LEVELS.index(threshold)


def _badness(trouble: Trouble) -> tuple[bool, int, datetime]:
    return trouble.is_confirmed, _LEVELS.index(trouble.level), trouble.since


def _troubles(record: HostRecord) -> Iterator[Trouble]:
    for item in record.changes:
        change = item.change
        yield Trouble(
            kind=change.kind.value,
            level=change.level,
            subject=str(change.subject),
            detail=change.sentence,
            since=item.opened_at,
            # Several readings have confirmed it; but what cannot be read is no fault of the hardware.
            is_confirmed=is_of_hardware(change),
        )
    for finding in record.findings:
        yield Trouble(
            kind=finding.kind.value,
            level=finding.level,
            subject=finding.subject,
            detail=finding.detail,
            since=finding.first_at,
            is_confirmed=finding.confirmed_at is not None or finding.kind in _CONFIRMED_BY_RERUN,
        )


def _judge(
    record: HostRecord, troubles: tuple[Trouble, ...], snapshot_seconds_max: float
) -> tuple[Verdict, str, str]:
    """The first that applies."""
    worst = next((item for item in troubles if item.is_confirmed and item.level is not Level.INFO), None)
    if worst is not None:
        verdict = Verdict.FAILED if worst.level is Level.CRITICAL else Verdict.DEGRADED
        return verdict, worst.kind, _with_age(worst.detail, record)
    blindness = _blindness(record, snapshot_seconds_max) or _hidden(record)
    if blindness is not None:
        return Verdict.NOT_EVALUATED, *blindness
    doubtful = next((item for item in troubles if not item.is_confirmed), None)
    if doubtful is not None:
        return Verdict.NOT_EVALUATED, Doubt.UNCONFIRMED, f"{doubtful.detail}; to be measured again"
    return _judge_measurements(record)


def _blindness(record: HostRecord, snapshot_seconds_max: float) -> tuple[Doubt, str] | None:
    daemon_age, gpus_age = _age(record, record.daemon_seen_at), _age(record, record.gpus_seen_at)
    if daemon_age is None:
        return Doubt.NO_DATA, "no daemon has ever looked at this host"
    if daemon_age > DAEMON_SILENT_SECONDS_MAX:
        return (
            Doubt.STALE,
            f"the daemon has been silent for {age_text(daemon_age)}; nobody knows how this host is now",
        )
    if gpus_age is None:
        return Doubt.NO_DATA, "the daemon runs, and has never seen a GPU"
    if gpus_age > snapshot_seconds_max and not record.is_measuring:
        return Doubt.UNREADABLE, f"the GPUs could not be read for {age_text(gpus_age)}"
    return None


def _hidden(record: HostRecord) -> tuple[Doubt, str] | None:
    hidden = next((item for item in record.changes if not is_of_hardware(item.change)), None)
    return None if hidden is None else (Doubt.UNREADABLE, hidden.change.sentence)


def _judge_measurements(record: HostRecord) -> tuple[Verdict, str, str]:
    gpus = f"{len(record.inventory)} GPUs as accepted"
    if not record.verdicts:
        return Verdict.NOT_EVALUATED, Doubt.NOT_MEASURED, f"{gpus}; no benchmark has run yet"
    good = sum(item.verdict is Verdict.OK for item in record.verdicts)
    if good:
        return (
            Verdict.OK,
            "",
            f"{gpus}; {good} of {len(record.verdicts)} collectives as fast as their baseline",
        )
    reasons = Counter(item.reason for item in record.verdicts)
    reason = reasons.most_common(1)[0][0]
    if reason == Doubt.LEARNING:
        return Verdict.NOT_EVALUATED, Doubt.LEARNING, f"{gpus}; no baseline yet, the host is being learned"
    return Verdict.NOT_EVALUATED, reason, f"{gpus}; the last measurement says nothing: {reason}"


def _with_age(detail: str, record: HostRecord) -> str:
    """Old news must be told as such."""
    age = _age(record, record.daemon_seen_at)
    if age is None or age <= DAEMON_SILENT_SECONDS_MAX:
        return detail
    return f"{detail} (the daemon has been silent for {age_text(age)})"


def _age(record: HostRecord, instant: datetime | None) -> float | None:
    """A clock that was set back makes nothing younger than now."""
    return None if instant is None else max(0.0, (record.at - instant).total_seconds())


def age_text(seconds: float) -> str:
    """`42 s`, `17 min`, `5 h`, `3 days`."""
    span = timedelta(seconds=seconds)
    if span < timedelta(minutes=2):
        return f"{seconds:.0f} s"
    if span < timedelta(hours=2):
        return f"{span // timedelta(minutes=1)} min"
    if span < timedelta(days=2):
        return f"{span // timedelta(hours=1)} h"
    return f"{span.days} days"
