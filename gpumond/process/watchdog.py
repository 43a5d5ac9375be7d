"""When a child has had its time, and by which limit. Pure: instants come from outside."""

from __future__ import annotations

from gpumond.model.run import Cause
from gpumond.process.command import Limits


class RowWatchdog:
    """Knows the next deadline of a running child."""

    def __init__(self, limits: Limits, *, started_at: float) -> None:
        self._limits = limits
        self._started_at = started_at
        self._last_row_at = started_at
        self.rows = 0

    def row(self, now: float) -> None:
        self.rows += 1
        self._last_row_at = now

    @property
    def next_deadline(self) -> tuple[float, Cause]:
        """The earliest instant at which a limit is over, and the cause that this would be."""
        total = (self._started_at + self._limits.total_seconds, Cause.TOTAL_TIMEOUT)
        seconds = self._limits.row_seconds if self.rows else self._limits.first_row_seconds
        if seconds is None:
            return total
        cause = Cause.ROW_STALLED if self.rows else Cause.NO_FIRST_ROW
        return min(total, (self._last_row_at + seconds, cause), key=lambda deadline: deadline[0])

    def expired(self, now: float) -> Cause | None:
        deadline, cause = self.next_deadline
        return cause if now >= deadline else None
