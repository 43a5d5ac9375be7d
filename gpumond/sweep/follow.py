"""Watch a sweep that somebody else runs, through the store: the same events as if it ran here."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from gpumond.clock import Clock
from gpumond.errors import NotEvaluatedError
from gpumond.model.identity import RunId
from gpumond.model.run import Run
from gpumond.store.sqlite import Store
from gpumond.sweep.context import SweepReport
from gpumond.sweep.events import (
    RowMeasured,
    RunFinished,
    RunStarted,
    SweepEvent,
    SweepFinished,
    SweepStarted,
)

POLL_SECONDS = 0.5
START_SECONDS_MAX = 900.0
"""A promised sweep may wait behind another one on the daemon's thread."""


def follow(
    store: Store, sweep_id: RunId, *, clock: Clock, on_event: Callable[[SweepEvent], None]
) -> SweepReport:
    """Events until the sweep has ended. Raises NotEvaluatedError where it never begins."""
    watcher = SweepWatcher(store, sweep_id, on_event)
    give_up = clock.monotonic() + START_SECONDS_MAX
    while True:
        report = watcher.look()
        if report is not None:
            return report
        if not watcher.has_begun and clock.monotonic() > give_up:
            raise NotEvaluatedError(f"sweep {sweep_id} has not begun", hint="See the daemon's log.")
        clock.sleep(POLL_SECONDS)


class SweepWatcher:
    """Remembers what was told already."""

    def __init__(self, store: Store, sweep_id: RunId, on_event: Callable[[SweepEvent], None]) -> None:
        self._store = store
        self._sweep_id = sweep_id
        self._on_event = on_event
        self._points_told: dict[RunId, int] = {}
        self._finished: set[RunId] = set()
        self.has_begun = False

    def look(self) -> SweepReport | None:
        """Tell what is new; the report once all is told."""
        sweep = self._store.sweep(self._sweep_id)
        if sweep is None:
            return None
        if not self.has_begun:
            self.has_begun = True
            self._on_event(SweepStarted(sweep))
        runs = self._store.runs_of_sweep(self._sweep_id)
        for number, run in enumerate(runs, start=1):
            self._tell_run(run, number, sweep.planned_runs)
        if sweep.outcome is None:
            return None
        self._on_event(SweepFinished(sweep))
        return SweepReport(sweep, runs)

    def _tell_run(self, run: Run, number: int, planned_runs: int) -> None:
        if run.id in self._finished:
            return
        if run.id not in self._points_told:
            self._points_told[run.id] = 0
            self._on_event(RunStarted(run, number, planned_runs, expected_rows=0))
        new = run.points[self._points_told[run.id] :]
        self._points_told[run.id] = len(run.points)
        for _, row in groupby(new, key=lambda point: point.size_bytes):
            self._on_event(RowMeasured(run, tuple(row)))
        if run.cause is not None:
            self._finished.add(run.id)
            self._on_event(RunFinished(run))
