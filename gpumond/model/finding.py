"""A fault that somebody should look at: open until what would show it has been seen healthy again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gpumond.model.change import Level


class FindingKind(StrEnum):
    """What is wrong. The word is a label of `gpumond_finding` and the name of a runbook."""

    HANG = "hang"  # a benchmark hangs, with and without P2P
    P2P_PATH = "p2p_path"  # a benchmark hangs with P2P and runs without
    STEP = "step"  # a score is lower than the host's own past, confirmed by a second night
    DRIFT = "drift"  # a score declines night by night
    PROVISIONAL = "provisional"  # one night far below; the next one says whether it is a step
    WRONG_RESULTS = "wrong_results"  # data arrived corrupt
    FAILED = "failed"  # a benchmark reports an error
    TRANSPORT_CHANGE = "transport_change"  # NCCL takes another path than when the baseline was learned
    BASELINE_CANDIDATE = (
        "baseline_candidate"  # an input changed: a new normal is learned, or waits for a person
    )


LEVELS = {
    FindingKind.HANG: Level.CRITICAL,  # this and the next stop every multi-GPU job on the host
    FindingKind.P2P_PATH: Level.CRITICAL,
    FindingKind.STEP: Level.WARNING,
    FindingKind.DRIFT: Level.WARNING,
    FindingKind.PROVISIONAL: Level.INFO,
    FindingKind.WRONG_RESULTS: Level.CRITICAL,
    FindingKind.FAILED: Level.WARNING,
    FindingKind.TRANSPORT_CHANGE: Level.WARNING,
    FindingKind.BASELINE_CANDIDATE: Level.INFO,  # a warning once it waits for a person
}
"""How bad each is when it opens."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject` is what it is about (a GPU set, a link); one subject has at most one open finding of a kind.

    `detail` is a sentence for people, `evidence` are the facts behind it. `collectives` are those in which it shows;
    `cause` are the inputs that changed since the last good result, most likely first. `confirmed_at` is None while
    only one night has shown it.
    """

    kind: FindingKind
    level: Level
    subject: str
    detail: str
    evidence: str
    first_at: datetime
    last_at: datetime
    closed_at: datetime | None = None
    confirmed_at: datetime | None = None
    collectives: tuple[str, ...] = ()
    cause: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FindingsDocument:
    """Several, newest first: what `gpumond findings --json` prints and `/api/v1/findings` answers."""

    findings: tuple[Finding, ...]
