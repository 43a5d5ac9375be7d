"""What the judge remembers of a host's healthy past: baselines, candidates for new ones, and where its detectors stand.

A *scope* is a sweep of one engine over one GPU set; a *track* is one of its collectives with fixed parameters, which
has one bandwidth score and one latency score a night. All of it is a value: the judge makes a new one each night, and
whoever keeps it (the store, a test) can put it back. Knows no rule; the rules are in gpumond.judge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gpumond.model.finding import Finding


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """What is judged together: its collectives are measured in the same minutes, and a fault shows in several."""

    sweep: str
    engine: str
    gpu_set: str

    def __str__(self) -> str:
        return f"{self.sweep}/{self.engine}/{self.gpu_set}"


@dataclass(frozen=True, slots=True, order=True)
class TrackKey:
    """What makes two scores of one scope comparable. `ranks` 0: not known."""

    collective: str
    datatype: str
    redop: str
    ranks: int
    parameters_hash: str = ""

    def __str__(self) -> str:
        return f"{self.collective}/{self.datatype}/{self.redop}/{self.ranks}/{self.parameters_hash}"


class BaselineState(StrEnum):
    """What `gpumond_baseline_state` says."""

    LEARNING = "learning"
    FROZEN = "frozen"
    CANDIDATE_WAITING = "candidate_waiting"


@dataclass(frozen=True, slots=True)
class NightValues:
    """One valid night: busbw in bytes per second and times in seconds, by size."""

    at: datetime
    busbw: dict[int, float]
    seconds: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is normal. `sigma` and `latency_sigma` are the learned noise of the two scores, relative, without a floor.

    `nights` holds the values until the baseline is frozen, `night_count` stays. `golden` is the best level that was
    ever accepted: a chain of small accepted losses is seen against it.
    """

    busbw: dict[int, float]
    seconds: dict[int, float]
    sigma: float
    latency_sigma: float
    night_count: int
    since: datetime
    fingerprint: dict[str, str]
    transport: str = ""
    golden: dict[int, float] = field(default_factory=dict)
    nights: tuple[NightValues, ...] = ()
    scores: tuple[float, ...] = ()
    """Of a frozen one, against its level when it was frozen: what it is refined with, for some weeks more."""
    level: float = 1.0
    """By what `busbw` was refined since it was frozen."""
    origin: str = "learned"
    """`learned`; `auto_accepted` or `accepted`, after a change of its inputs; `commissioned`, out of repeats in one evening."""


@dataclass(frozen=True, slots=True)
class InputChange:
    """An input of the measurement that changed, first seen `at`. Empty text: it was not there."""

    at: datetime
    key: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.key} {self.before or 'none'} -> {self.after or 'none'}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A new normal that waits: the inputs changed, the old baseline still judges."""

    opened_at: datetime
    changes: tuple[InputChange, ...]
    fingerprint: dict[str, str]
    nights: tuple[NightValues, ...] = ()
    ratios: tuple[float, ...] = ()
    """Of each night against the old baseline."""
    needs_person: bool = False


class AlarmKind(StrEnum):
    STEP = "step"
    DRIFT = "drift"
    LATENCY = "latency"  # shown as a finding of the kind step


@dataclass(frozen=True, slots=True)
class JudgedNight:
    """One valid night in units of noise; negative is worse. `is_repeated`: it rests on several runs that agree."""

    at: datetime
    ratio: float
    z: float
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class DetectorState:
    """Where the detectors of one score stand. `recent` are the last valid nights, a dozen at most."""

    recent: tuple[JudgedNight, ...] = ()
    cusum: float = 0.0
    cusum_since: datetime | None = None
    alarm: AlarmKind | None = None
    alarm_z: float = 0.0
    """How low the nights were that raised it, on average."""
    alarm_since: datetime | None = None
    """When the loss seems to have begun."""
    alarm_at: datetime | None = None
    """When it was raised; what changed later did not cause it."""
    alarm_last_good_at: datetime | None = None
    """The last good night before it, where that can be told."""
    good_nights: int = 0
    """In a row, since the alarm."""
    is_provisional: bool = False
    """The last valid night was so low that it was reported at once."""


@dataclass(frozen=True, slots=True)
class Track:
    """Everything the judge remembers of one collective."""

    baseline: Baseline | None = None
    candidate: Candidate | None = None
    rejected: dict[str, str] = field(default_factory=dict)
    """The fingerprint that an operator did not accept as a new normal."""
    bandwidth: DetectorState = field(default_factory=DetectorState)
    latency: DetectorState = field(default_factory=DetectorState)
    fingerprint: dict[str, str] = field(default_factory=dict)
    """With the last known value of what could not be read since."""
    changes: tuple[InputChange, ...] = ()
    """The latest ones; what an alarm is explained with."""
    transport: str = ""
    results: tuple[bool, ...] = ()
    """Of the last runs, oldest first: whether the data arrived intact."""
    failures: int = 0
    """Failed nights in a row."""
    last_at: datetime | None = None
    """The last valid night."""


@dataclass(frozen=True, slots=True)
class ScopeMemory:
    """Everything the judge remembers of a scope, and the findings that are open in it."""

    tracks: dict[TrackKey, Track] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
