"""Step or decline, and since when: which of the two explains the last nights better. Pure.

Two low nights look the same on the day of the alarm, whether the loss came at once or a little each night; the nights
before them do not. Both courses are fitted to all of them, and the cheaper one names the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_OUTLIER_COST: Final = 9.0
"""In squared sigmas: one disturbed night must not decide."""
_DECLINE_NIGHTS_MIN: Final = 4
"""Through three nights a line goes nearly always."""


@dataclass(frozen=True, slots=True)
class Course:
    """A fitted course: what it leaves unexplained, and the first night of the loss."""

    cost: float
    onset: int


def best_step(scores: Sequence[float], *, within: int | None = None) -> Course:
    """Healthy up to a night, one of the last `within`, and at one level from it on."""
    firsts = range(max(0, len(scores) - (within or len(scores))), len(scores))
    return min((_step_from(scores, first) for first in firsts), key=lambda course: course.cost)


def best_decline(scores: Sequence[float]) -> Course | None:
    """Healthy up to a night, and from it on lower by the same amount each night; None for too few nights."""
    firsts = range(len(scores) - _DECLINE_NIGHTS_MIN + 1)
    return min(
        (_decline_from(scores, first) for first in firsts), key=lambda course: course.cost, default=None
    )


def _step_from(scores: Sequence[float], first: int) -> Course:
    after = scores[first:]
    level = min(0.0, sum(after) / len(after))
    return Course(_cost(scores[:first]) + _cost([score - level for score in after]), first)


def _decline_from(scores: Sequence[float], first: int) -> Course:
    after = scores[first:]
    steps = range(1, len(after) + 1)
    slope = sum(step * score for step, score in zip(steps, after, strict=True)) / sum(
        step * step for step in steps
    )
    slope = min(0.0, slope)
    rest = [score - slope * step for step, score in zip(steps, after, strict=True)]
    return Course(_cost(scores[:first]) + _cost(rest), first)


def _cost(residuals: Sequence[float]) -> float:
    return sum(min(residual * residual, _OUTLIER_COST) for residual in residuals)
