"""A fault that somebody should look at: open until what would show it has been seen healthy again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class FindingKind(StrEnum):
    """What is wrong. The word is a label of `gpumond_finding` and the name of a runbook."""

    HANG = "hang"  # a benchmark hangs, with and without P2P
    P2P_PATH = "p2p_path"  # a benchmark hangs with P2P and runs without


class Level(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


LEVELS = {FindingKind.HANG: Level.CRITICAL, FindingKind.P2P_PATH: Level.CRITICAL}
"""Both stop every multi-GPU job on the host."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject` is what it is about (a GPU set, a link); one subject has at most one open finding of a kind.

    `detail` is a sentence for people, `evidence` are the facts behind it.
    """

    kind: FindingKind
    level: Level
    subject: str
    detail: str
    evidence: str
    first_at: datetime
    last_at: datetime
    closed_at: datetime | None = None
