"""Time, as the only module that reads it; everything else is handed a `Clock`.

Wall time is always an aware UTC `datetime`. Durations come from `monotonic`, which no clock step moves.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a component may ask of time."""

    def now(self) -> datetime:
        """Aware UTC wall time."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, unrelated to wall time; they do not count suspend."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        ...


class SystemClock:
    """The host's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - this is the one place

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
