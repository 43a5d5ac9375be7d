"""How the host differs from the state that was accepted: snapshot -> diff -> debounce -> status board -> store.

The only writer of the change part of the status. What is believed is on the board before it is on disk, also when the
disk is full (DESIGN rule 9); the store catches up with the next snapshot. Thread-safe: snapshots and decisions come
from different threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace

from gpumond.board import StatusBoard
from gpumond.clock import Clock
from gpumond.errors import StoreError
from gpumond.log import get_logger
from gpumond.model.change import Change, ChangeCount, ChangeKey, ChangeKind, Level, OpenChange
from gpumond.model.status import InventoryEntry
from gpumond.model.topology import Snapshot
from gpumond.store.records import (
    TOPOLOGY_CHANGES,
    AcceptedSnapshot,
    ChangeEnding,
    Counter,
    Decision,
    DecisionVerdict,
)
from gpumond.store.sqlite import Store
from gpumond.topology.debounce import Beliefs, believing, observe
from gpumond.topology.diff import diff
from gpumond.topology.expectation import p2p_expectations

log = get_logger("monitor")

_OPEN = "open"


class ChangeWatch:
    """Compares every snapshot with the accepted one, and obeys decisions about what is accepted."""

    def __init__(self, *, store: Store, board: StatusBoard, clock: Clock) -> None:
        self._store = store
        self._board = board
        self._clock = clock
        self._lock = threading.Lock()
        self._accepted: Snapshot | None = None
        self._beliefs = Beliefs()
        self._open: dict[ChangeKey, OpenChange] = {}
        self._is_stored = True

    def restore(self) -> None:
        """Take up what an earlier daemon believed. Raises StoreError."""
        with self._lock:
            self._use(self._store.accepted_snapshot())
            self._open = {item.change.key: item for item in self._store.open_changes()}
            self._beliefs = believing(item.change for item in self._open.values())
            self._publish()
            self._publish_counts()

    @property
    def has_accepted(self) -> bool:
        return self._accepted is not None

    def observe(self, snapshot: Snapshot) -> None:
        """One more reading. Never raises: what could not be stored is stored with the next one."""
        with self._lock:
            if self._accepted is not None:
                expectations = p2p_expectations(self._accepted, snapshot)
                if expectations != self._board.status.p2p_expectations:
                    self._board.update(lambda status: replace(status, p2p_expectations=expectations))
                self._beliefs = observe(self._beliefs, diff(self._accepted, snapshot))
                self._follow(ChangeEnding.GONE)

    def accept(
        self, snapshot: Snapshot, inventory: Iterable[InventoryEntry], *, by: str, reason: str
    ) -> Decision:
        """From now on `snapshot` is what everything is compared with. Raises StoreError, and changes nothing then."""
        with self._lock:
            entries = tuple(inventory)
            decision = self._store.accept_snapshot(snapshot, entries, by=by, reason=reason)
            self._begin_anew(AcceptedSnapshot(decision, snapshot), entries, ChangeEnding.ACCEPTED)
        log.info("snapshot_accepted", by=by, reason=reason, gpus=len(snapshot.gpus))
        return decision

    def reject(self, snapshot: Snapshot, *, by: str, reason: str) -> Decision:
        """Put on record that somebody saw this state and wants the accepted one back. Raises StoreError."""
        decision = self._store.reject_snapshot(snapshot, by=by, reason=reason)
        log.info("snapshot_rejected", by=by, reason=reason)
        return decision

    def undo(self, *, by: str, reason: str) -> Decision | None:
        """Take back the newest decision; None where there is nothing to take back. Raises StoreError."""
        with self._lock:
            undone = self._store.undo_decision(by=by, reason=reason)
            if undone is not None and undone.verdict is DecisionVerdict.ACCEPTED:
                accepted, entries = self._store.accepted_snapshot(), self._store.accepted_inventory()
                self._begin_anew(accepted, entries, ChangeEnding.UNDONE)
        if undone is not None:
            log.info("decision_undone", verdict=undone.verdict.value, of=undone.by, by=by, reason=reason)
        return undone

    # Everything below is called with the lock held.

    def _begin_anew(
        self, accepted: AcceptedSnapshot | None, inventory: tuple[InventoryEntry, ...], ending: ChangeEnding
    ) -> None:
        self._use(accepted)
        self._beliefs = Beliefs()
        self._board.update(lambda status: replace(status, inventory=inventory, p2p_expectations=()))
        self._follow(ending)

    def _use(self, accepted: AcceptedSnapshot | None) -> None:
        self._accepted = accepted.snapshot if accepted else None
        at = accepted.decision.at if accepted else None
        self._board.update(lambda status: replace(status, accepted_at=at))

    def _follow(self, ending: ChangeEnding) -> None:
        """Bring the open changes, the board and the store in line with what is believed."""
        before = self._open
        now = self._clock.now()
        known = {item.change: item for item in before.values()}
        self._open = {
            key: known.get(change) or OpenChange(change, now)
            for key, change in self._beliefs.believed.items()
        }
        if self._open == before and self._is_stored:
            return
        self._log(before, ending)
        if self._open != before:
            self._board.update(lambda status: replace(status, last_change_at=now))
        self._publish()
        self._write(ending)

    def _publish(self) -> None:
        changes = tuple(self._open.values())
        self._board.update(lambda status: replace(status, changes=changes))

    def _write(self, ending: ChangeEnding) -> None:
        try:
            self._store.record_changes(self._open.values(), ending=ending)
            self._publish_counts()
        except StoreError as error:
            self._is_stored = False
            log.warning("changes_not_stored", error=error.message, hint=error.hint)
        else:
            self._is_stored = True

    def _publish_counts(self) -> None:
        counts = change_counts(self._store.counters(TOPOLOGY_CHANGES))
        last = self._store.last_change_at()
        self._board.update(lambda status: replace(status, change_counts=counts, last_change_at=last))

    def _log(self, before: dict[ChangeKey, OpenChange], ending: ChangeEnding) -> None:
        for item in self._open.values():
            if item not in before.values():
                _say(item.change, state=_OPEN)
        for item in before.values():
            if item.change.key not in self._open:
                _say(item.change, state=ending.value)


def change_counts(counters: Iterable[Counter]) -> tuple[ChangeCount, ...]:
    return tuple(
        ChangeCount(ChangeKind(counter.labels["kind"]), Level(counter.labels["level"]), round(counter.value))
        for counter in counters
    )


def _say(change: Change, *, state: str) -> None:
    facts = {
        "state": state,
        "kind": change.kind.value,
        "change_level": change.level.value,  # `level` is the log's own
        "subject": str(change.subject),
        "sentence": change.sentence,
        "before": change.before,
        "after": change.after,
    }
    match change.level if state == _OPEN else Level.INFO:
        case Level.CRITICAL:
            log.error("topology_changed", **facts)
        case Level.WARNING:
            log.warning("topology_changed", **facts)
        case _:
            log.info("topology_changed", **facts)
