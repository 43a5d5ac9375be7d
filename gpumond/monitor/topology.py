"""Snapshots at an interval: probe -> status board -> differences -> store. The only writer of the hardware part of the
status.

A snapshot that could not be had changes nothing but the collector's own state: the last facts stay (could-not-read is
never a change), and the collector says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from gpumond.board import StatusBoard
from gpumond.clock import Clock
from gpumond.errors import NotEvaluatedError, StoreError
from gpumond.log import get_logger
from gpumond.model.run import GpuSet
from gpumond.model.status import CollectorStatus
from gpumond.model.topology import Snapshot
from gpumond.monitor.changes import ChangeWatch
from gpumond.monitor.collectors import with_collector
from gpumond.monitor.decisions import DecisionKind, decide
from gpumond.monitor.inventory import inventory_of
from gpumond.probe.launcher import ProbeLauncher, ProbeResult
from gpumond.store.sqlite import Store
from gpumond.topology.carry import carry_over

log = get_logger("monitor")

COLLECTOR = "topology"


class TopologyMonitor:
    """Takes snapshots, one at a time, for whoever asks: the schedule, or a sweep that needs a fresh look."""

    def __init__(
        self,
        *,
        launcher: ProbeLauncher,
        store: Store,
        board: StatusBoard,
        clock: Clock,
        interval_seconds: float,
        errors_every: int,
        resolve_sets: Callable[[Snapshot], tuple[GpuSet, ...]],
    ) -> None:
        self._launcher = launcher
        self._store = store
        self._board = board
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._resolve_sets = resolve_sets
        self._errors_every = errors_every
        self._taken = 0
        self._lock = threading.Lock()
        self._was_successful = True
        self._changes = ChangeWatch(store=store, board=board, clock=clock)

    def restore(self) -> None:
        """Take up what an earlier daemon knew. Raises StoreError."""
        inventory = self._store.accepted_inventory()
        self._board.update(lambda status: replace(status, inventory=inventory))
        self._changes.restore()

    def configure(self, *, launcher: ProbeLauncher, interval_seconds: float, errors_every: int) -> None:
        """Take over a reloaded configuration, from the next snapshot on."""
        with self._lock:
            if not self._launcher.unkillable_pids:  # the new one would not know whom to wait for
                self._launcher = launcher
            self._interval_seconds = interval_seconds
            self._errors_every = errors_every

    @property
    def unkillable_pids(self) -> tuple[int, ...]:
        """Probes that survived SIGKILL and are still there."""
        return self._launcher.unkillable_pids

    def take(self) -> ProbeResult:
        """Take one snapshot and publish what came of it. Never raises for the hardware's sake."""
        with self._lock:
            return self._take()

    def _take(self) -> ProbeResult:
        with_errors = self._taken % self._errors_every == 0
        result = self._launcher.take(with_errors=with_errors)
        self._taken += 1
        self._report(result)
        collector, now = self._collector_of(result), self._clock.now()
        if result.snapshot is None or not _is_successful(result):
            # The driver could not be asked: the last facts stay, or each of them would look like a missing GPU.
            self._board.update(lambda status: with_collector(status, collector, now))
            return result
        # Facts about the hardware are exported at once, also when the disk is full (DESIGN rule 9).
        snapshot = carry_over(self._board.status.snapshot, result.snapshot)
        sets = self._resolve_sets(snapshot)
        self._board.update(
            lambda status: replace(with_collector(status, collector, now), snapshot=snapshot, gpu_sets=sets)
        )
        self._changes.observe(snapshot)
        self._record(snapshot)
        return result

    def snapshot_for_sweep(self) -> Snapshot:
        """A fresh snapshot. Raises NotEvaluatedError where none can be had."""
        result = self.take()
        if result.snapshot is None:
            raise NotEvaluatedError(f"no topology snapshot: {result.detail}")
        return result.snapshot

    def decide(self, kind: DecisionKind, *, by: str, reason: str) -> str:
        """Obey an operator's word about the last snapshot. Raises NotEvaluatedError, StoreError."""
        failed = [it for it in self._board.status.collectors if it.name == COLLECTOR and not it.is_successful]
        if failed and kind is not DecisionKind.UNDO:
            raise NotEvaluatedError(f"the last snapshot failed: {failed[0].detail}")
        return decide(self._changes, kind, self._board.status.snapshot, by=by, reason=reason)

    def _record(self, snapshot: Snapshot) -> None:
        try:
            self._store.record_snapshot(snapshot)
            if not self._changes.has_accepted and snapshot.gpus:
                self._accept_first(snapshot)
        except StoreError as error:
            log.warning("snapshot_not_stored", error=error.message, hint=error.hint)
            self._board.update(lambda status: replace(status, is_store_writable=False))
        else:
            self._board.update(lambda status: replace(status, is_store_writable=True))

    def _accept_first(self, snapshot: Snapshot) -> None:
        # A history from before snapshots were accepted has an inventory: its numbers stay.
        inventory = self._store.accepted_inventory() or inventory_of(snapshot)
        self._changes.accept(
            snapshot, inventory, by="gpumond", reason="the first GPUs ever seen on this host"
        )

    def _collector_of(self, result: ProbeResult) -> CollectorStatus:
        return CollectorStatus(
            name=COLLECTOR,
            is_successful=_is_successful(result),
            interval_seconds=self._interval_seconds,
            duration_seconds=result.duration_seconds,
            detail=_detail(result),
        )

    def _report(self, result: ProbeResult) -> None:
        is_successful = _is_successful(result)
        if is_successful != self._was_successful:
            if is_successful:
                log.info("snapshot_recovered")
            else:
                log.warning(
                    "snapshot_failed", detail=_detail(result), seconds=round(result.duration_seconds, 3)
                )
        self._was_successful = is_successful


def _is_successful(result: ProbeResult) -> bool:
    """A host whose driver cannot be asked is not a host without GPUs: its collector has failed."""
    return result.snapshot is not None and result.snapshot.driver.state != "unreadable"


def _detail(result: ProbeResult) -> str:
    if result.snapshot is not None and result.snapshot.driver.state == "unreadable":
        return result.snapshot.driver.detail or result.snapshot.driver.reason.value
    return result.detail
