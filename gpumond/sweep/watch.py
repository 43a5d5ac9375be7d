"""Watches GPUs while a sweep holds them: a thread around the watch child.

It lives as long as the sweep, so that nobody comes unseen between two runs either. What a look means for a run is
decided in gpumond.sweep.observation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from gpumond import codec
from gpumond.clock import Clock
from gpumond.log import get_logger
from gpumond.model.watch import WatchLook, WatchTarget
from gpumond.process import supervisor
from gpumond.process.procfs import ProcessIdentity
from gpumond.process.supervisor import Cancellation, Command, Limits, ProcessResult
from gpumond.sweep.observation import LOOK_GAP_SECONDS_MAX, RunObserver

log = get_logger("watch")

FIRST_LOOK_SECONDS_MAX = 20.0
"""As long as a snapshot may take: the first calls to a driver are slow ones."""

LIFE_SECONDS_MAX = 2 * 86_400.0
"""Twice what a sweep may take."""

LOST_SECONDS = 10.0
OUTPUT_BYTES_MAX = 1 << 40
KEPT_BYTES = 4096
"""Nobody reads old looks again."""


@dataclass(frozen=True, slots=True)
class WatchCommand:
    """How to start the watch child; what it is to watch comes behind `argv`."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


class GpuWatch:
    """A context manager: it watches `targets` inside the block. `on_look` gets every look, on the watch's thread;
    `on_lost` what survived the end of the watch.
    """

    def __init__(
        self,
        command: WatchCommand,
        targets: Sequence[WatchTarget],
        *,
        clock: Clock,
        on_look: Callable[[WatchLook], None] = lambda _look: None,
        on_lost: Callable[[Iterable[ProcessIdentity]], None] = lambda _processes: None,
    ) -> None:
        self._command = command
        self._targets = tuple(targets)
        self._clock = clock
        self._on_look = on_look
        self._on_lost = on_lost
        self._cancellation = Cancellation()
        self._changed = threading.Condition()
        self._latest: WatchLook | None = None
        self._ended = ""
        self._observer: RunObserver | None = None
        # The supervisor's rule: the thread that spawns lives as long as the child.
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cancellation.cancel(grace_seconds=0, reason="the sweep is over")
        self._thread.join()

    @property
    def ended(self) -> str:
        """Why nobody watches any more; empty while somebody does."""
        return self._ended

    def look_after(self, at: float, *, timeout_seconds: float = FIRST_LOOK_SECONDS_MAX) -> WatchLook | None:
        """A look that began at `at` (monotonic) or later; None where none came, because of `ended` or the time."""

        def is_over() -> bool:
            return bool(self._ended) or (self._latest is not None and self._latest.at_seconds >= at)

        with self._changed:
            self._changed.wait_for(is_over, timeout=timeout_seconds)
            latest = self._latest
        return latest if latest is not None and latest.at_seconds >= at else None

    @contextmanager
    def observed_by(self, observer: RunObserver) -> Iterator[None]:
        """Tell `observer` of every look inside the block."""
        with self._changed:
            self._observer = observer
            if self._ended:
                observer.lose(self._ended)
        try:
            yield
        finally:
            with self._changed:
                self._observer = None

    def _run(self) -> None:
        result = supervisor.run(
            Command(
                (*self._command.argv, *(str(target) for target in self._targets)),
                self._command.environment,
                Path("/"),
            ),
            Limits(
                total_seconds=LIFE_SECONDS_MAX,
                first_row_seconds=FIRST_LOOK_SECONDS_MAX,
                row_seconds=LOOK_GAP_SECONDS_MAX,
                grace_seconds=0,
                lost_seconds=LOST_SECONDS,
                head_bytes=0,
                tail_bytes=KEPT_BYTES,
                max_bytes=OUTPUT_BYTES_MAX,
            ),
            clock=self._clock,
            merge_stderr=False,
            on_line=self._on_line,
            cancellation=self._cancellation,
        )
        self._on_lost(result.leftovers)
        self._end(_why_ended(result))

    def _on_line(self, line: str) -> bool:
        try:
            look = codec.decode(WatchLook, line)
        except ValueError as error:
            self._end(f"the watch printed what is no look: {error}")
            self._cancellation.cancel(grace_seconds=0, reason="unreadable")
            return False
        with self._changed:
            self._latest = look
            if self._observer is not None:
                self._observer.see(look)
            self._changed.notify_all()
        self._on_look(look)
        return True

    def _end(self, reason: str) -> None:
        with self._changed:
            self._ended = self._ended or reason
            if self._observer is not None:
                log.warning("watch_ended", reason=self._ended)
                self._observer.lose(self._ended)
            self._changed.notify_all()


def _why_ended(result: ProcessResult) -> str:
    last_line = result.last_error_line
    how = f"the watch {result.detail or result.cause.value}"
    return f"{how}: {last_line}" if last_line else how
