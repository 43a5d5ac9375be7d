"""Tells a step of the wall clock from the passing of time. Pure.

The wall clock steps when NTP corrects it, when a host wakes from suspend or a paused VM goes on (monotonic time does
not count those), and when an operator sets it. Slewing, at most 500 ppm, stays far below the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

CLOCK_STEP_SECONDS: Final = 5.0
"""A step of less moves no window noticeably (engineering.md 1.3)."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Both clocks, read together."""

    wall: datetime
    monotonic: float


def clock_step(before: ClockReading, after: ClockReading) -> float | None:
    """Seconds by which the wall clock jumped between two readings, negative for backwards; None for no step."""
    passed = after.monotonic - before.monotonic
    step = (after.wall - before.wall).total_seconds() - passed
    return step if abs(step) > CLOCK_STEP_SECONDS else None
