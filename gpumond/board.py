"""The one place where the current HostStatus is kept: written by the daemon's threads, read by the exporter's.

A status is immutable and swapped by one assignment, so a reader never sees half a change. `version` grows with every
change: whoever caches something made from a status compares it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from gpumond.model.status import HostStatus


class StatusBoard:
    def __init__(self, status: HostStatus) -> None:
        self._lock = threading.Lock()
        self._current = (0, status)
        self._listeners: tuple[Callable[[], None], ...] = ()

    @property
    def status(self) -> HostStatus:
        return self._current[1]

    @property
    def versioned(self) -> tuple[int, HostStatus]:
        """The status with its version, read together."""
        return self._current

    def update(self, change: Callable[[HostStatus], HostStatus]) -> HostStatus:
        """Replace the status by `change` of it; `change` must be quick and may run only once at a time."""
        with self._lock:
            version, status = self._current
            changed = change(status)
            self._current = (version + 1, changed)
        for listener in self._listeners:
            listener()
        return changed

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change, in the writer's thread: it must be quick and must not raise."""
        with self._lock:
            self._listeners = (*self._listeners, listener)
