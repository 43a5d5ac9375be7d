"""Values that only the store gives out: requests, counters, tallies, one series over time. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from gpumond.model.baseline import Scope, ScopeMemory
from gpumond.model.change import Change
from gpumond.model.identity import RunId
from gpumond.model.run import Run, Verdict
from gpumond.model.topology import Snapshot

SWEEP_FAILURES = "sweep_failures"
SWEEP_SKIPS = "sweep_skips"
SWEEP_PREEMPTIONS = "sweep_preemptions"
"""Counter names that `SweepHistory` is read from; labels `sweep` and, but for preemptions, `reason`."""

PREEMPTION_COUNTS = "preemption_counts"
PREEMPTION_SECONDS = "preemption_seconds"
"""How many preemptions fell into each bucket (label `le`), and how long all of them took together."""

TOPOLOGY_CHANGES = "topology_changes"
"""The counter of changes that have opened; labels `kind` and `level`."""


class RequestState(StrEnum):
    """The life of a request; it ends in one of the last two."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line wants of a running daemon (DESIGN rule 2)."""

    id: int
    kind: str
    arguments: dict[str, str]
    by: str
    at: datetime
    state: RequestState = RequestState.WAITING
    answer: str = ""
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Counter:
    """A number that only grows, since the store was made."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class SweepHistory:
    """What the store knows of a configured sweep; no retention ever lowers it.

    `runs` counts the sweeps that ran (success or failure); skips are counted apart.
    """

    name: str
    runs: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    skips: dict[str, int] = field(default_factory=dict)
    preemptions: int = 0
    consecutive_failures: int = 0
    consecutive_skips: int = 0
    last_run_at: datetime | None = None
    """When the last sweep that ran has ended."""
    last_run_duration_seconds: float = 0.0
    last_run_success: bool | None = None
    last_success_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """One value of one series. `is_usable`: the run's text is complete and nobody shared the GPUs."""

    run_id: RunId
    measured_at: datetime
    time_seconds: float
    algbw_bytes_per_second: float
    busbw_bytes_per_second: float
    wrong_elements: int | None
    verdict: Verdict
    reason: str
    is_usable: bool


@dataclass(frozen=True, slots=True)
class SnapshotPeriod:
    """How long one structure of the host was seen."""

    first_seen: datetime
    last_seen: datetime
    structure_hash: str


class DecisionVerdict(StrEnum):
    """What was said about a state of the host."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Decision:
    """Who said what about a state, when and why. The newest acceptance that is not undone is in force."""

    id: int
    verdict: DecisionVerdict
    by: str
    reason: str
    at: datetime
    undone_at: datetime | None = None
    undone_by: str = ""
    undone_reason: str = ""


@dataclass(frozen=True, slots=True)
class AcceptedSnapshot:
    """The state that changes are told against, and the decision that made it so."""

    decision: Decision
    snapshot: Snapshot


class ChangeEnding(StrEnum):
    """Why a change is no longer open."""

    GONE = "gone"  # the host is as accepted again
    REVISED = "revised"  # the same change has other evidence now, and was opened anew
    ACCEPTED = "accepted"  # another state was accepted: everything is told against that one now
    UNDONE = "undone"  # an acceptance was undone: the same


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """A change in the history, open or ended."""

    change: Change
    opened_at: datetime
    closed_at: datetime | None = None
    ending: ChangeEnding | None = None


@dataclass(frozen=True, slots=True)
class NumberedRun:
    """A run with its place in the history, which no step of the clock moves, and its inputs where they are known."""

    number: int
    run: Run
    fingerprint: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class JudgeRecord:
    """What the judge remembers of a scope: before its newest night, whose first run is `first_run`, and with it."""

    first_run: int
    before: ScopeMemory
    memory: ScopeMemory


class BaselineDecisionKind(StrEnum):
    """What a person said of the baselines of a scope."""

    ACCEPT = "accept"
    REJECT = "reject"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class BaselineDecision:
    """Who said it, when and why."""

    id: int
    kind: BaselineDecisionKind
    scope: Scope
    at: datetime
    by: str
    reason: str
    undone_at: datetime | None = None
    undone_by: str = ""
    undone_reason: str = ""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A damaged history that was moved aside when the store was opened, and why it was called damaged."""

    path: Path
    reason: str
