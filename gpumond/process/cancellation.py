"""How one thread tells another that a child must end now: safe from any thread, and it wakes the supervisor at once.

One Cancellation may stand for a whole sweep: every run that watches it is woken, and a run that starts later does not
start at all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Cancellation:
    """Asked once or several times. The first reason stays; of the graces the shortest wins, so that "the GPU is wanted,
    kill at once" overtakes "the daemon stops".
    """

    def __init__(self) -> None:
        # Re-entrant: a signal handler may cancel while the interrupted code of the same thread does too.
        self._lock = threading.RLock()
        self._watchers: set[int] = set()
        self._is_cancelled = False
        self._reason = ""
        self._grace_seconds: float | None = None

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    @property
    def reason(self) -> str:
        return self._reason

    @property
    def grace_seconds(self) -> float | None:
        """From SIGTERM to SIGKILL; 0 is SIGKILL at once, None leaves it to the limits of the run."""
        return self._grace_seconds

    def cancel(self, *, grace_seconds: float | None = None, reason: str = "") -> None:
        with self._lock:
            self._reason = self._reason or reason
            known = [grace for grace in (self._grace_seconds, grace_seconds) if grace is not None]
            self._grace_seconds = min(known, default=None)
            self._is_cancelled = True
            for watcher in self._watchers:
                os.eventfd_write(watcher, 1)

    @contextmanager
    def watch(self) -> Iterator[int]:
        """A file descriptor that becomes readable with every `cancel`, also with one that came before."""
        watcher = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            with self._lock:
                self._watchers.add(watcher)
                if self._is_cancelled:
                    os.eventfd_write(watcher, 1)
            yield watcher
        finally:
            with self._lock:
                self._watchers.discard(watcher)
            os.close(watcher)
