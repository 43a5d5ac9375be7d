"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

NOT_EVALUATED = "not_evaluated (no_privilege)"
"""What a check says that this user may not make (docs/privileges.md)."""


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"  # worth knowing, nothing to do
    WARNING = "warning"  # works, but not as well as it could
    MISSING = "missing"  # something cannot work


@dataclass(frozen=True, slots=True)
class Check:
    """`hint` is a sentence that says what to do; empty where nothing is to be done."""

    name: str
    level: Level
    detail: str
    hint: str = ""
