"""What a guard answers. An error is a no: idle is proven, never assumed (DESIGN rule 8)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GuardReport:
    """`evidence` is one sentence with the facts that the answer rests on; it is stored with every refusal."""

    guard: str
    is_clear: bool
    evidence: str
