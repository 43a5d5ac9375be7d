"""A low night is measured again inside its window, before anybody is told. Decides when, and when it has been enough.

Knows no benchmark and no judgement: the sweep service says whether a night is low, and measures.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Protocol

from gpumond.clock import Clock
from gpumond.timetable import RERUNS_MAX, confirmation_at

At = Callable[[str, datetime, Callable[[], None]], None]
"""Calls something once at an instant, under a name."""


class Sweeps(Protocol):
    def has_suspects(self, name: str) -> bool: ...

    def confirm(self, name: str, *, latest_start: datetime | None, may_rerun: bool) -> object: ...

    def settle(self, name: str) -> None: ...


class Reruns:
    """All calls are made on the thread of the sweeps."""

    def __init__(self, sweeps: Sweeps, at: At, clock: Clock) -> None:
        self._sweeps = sweeps
        self._at = at
        self._clock = clock

    def plan(self, name: str, window_ends_at: datetime | None, reruns_left: int = RERUNS_MAX) -> None:
        """After a run of the sweep `name`: the next re-run, or the end of the matter."""
        if not self._sweeps.has_suspects(name):
            return
        at = confirmation_at(self._clock.now(), window_ends_at, reruns_left=reruns_left)
        if at is None or window_ends_at is None:
            self._sweeps.settle(name)
            return
        self._at(call_name(name), at, partial(self._measure_again, name, window_ends_at, reruns_left))

    def _measure_again(self, name: str, window_ends_at: datetime, reruns_left: int) -> None:
        if self._clock.now() >= window_ends_at:  # late, after a suspend or a clock step
            self._sweeps.settle(name)
            return
        try:
            self._sweeps.confirm(name, latest_start=window_ends_at, may_rerun=reruns_left > 1)
        finally:
            self.plan(name, window_ends_at, reruns_left - 1)


def call_name(sweep: str) -> str:
    """Under which the next re-run is scheduled; there is one at most."""
    return f"confirm:{sweep}"
