"""SQL of what people said about a state of the host: accepted, rejected, undone. Inside its caller's transaction.

Nothing here is ever deleted or overwritten but by `undone_*`: who decided what, when and why stays on record.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import datetime

from gpumond.codec import decode, encode
from gpumond.model.status import InventoryEntry
from gpumond.model.topology import Snapshot
from gpumond.store.records import AcceptedSnapshot, Decision, DecisionVerdict
from gpumond.store.rows import text
from gpumond.store.session import Row, Session, from_microseconds, optional_instant, to_microseconds
from gpumond.store.snapshots import read_inventory_of, write_acceptance

_IN_FORCE = "SELECT * FROM snapshot_decision WHERE verdict = 'accepted' AND undone_at_us IS NULL"


def accept(
    session: Session,
    snapshot: Snapshot,
    inventory: Iterable[InventoryEntry],
    *,
    by: str,
    reason: str,
    at: datetime,
) -> Decision:
    acceptance = write_acceptance(session, inventory, by=by, reason=reason, at=at)
    return _write(session, DecisionVerdict.ACCEPTED, snapshot, acceptance, by=by, reason=reason, at=at)


def reject(session: Session, snapshot: Snapshot, *, by: str, reason: str, at: datetime) -> Decision:
    return _write(session, DecisionVerdict.REJECTED, snapshot, None, by=by, reason=reason, at=at)


def undo(session: Session, *, by: str, reason: str, at: datetime) -> Decision | None:
    """Take back the newest decision that stands. The first acceptance stays: without one nothing can be compared."""
    newest = session.execute(
        "SELECT * FROM snapshot_decision WHERE undone_at_us IS NULL ORDER BY id DESC LIMIT 1"
    ).fetchone()
    if newest is None:
        return None
    if newest["verdict"] == DecisionVerdict.ACCEPTED:
        earlier = session.execute(
            f"{_IN_FORCE} AND id < ? ORDER BY id DESC LIMIT 1", (newest["id"],)
        ).fetchone()
        if earlier is None:
            return None
        inventory = read_inventory_of(session, earlier["acceptance"])
        write_acceptance(session, inventory, by=by, reason=reason, at=at)
    session.execute(
        "UPDATE snapshot_decision SET undone_at_us = ?, undone_by = ?, undone_reason = ? WHERE id = ?",
        (to_microseconds(at), text(by), text(reason), newest["id"]),
    )
    return _read(session, newest["id"])


def read_accepted(session: Session) -> AcceptedSnapshot | None:
    row = session.execute(f"{_IN_FORCE} ORDER BY id DESC LIMIT 1").fetchone()
    if row is None:
        return None
    return AcceptedSnapshot(_decision(row), decode(Snapshot, zlib.decompress(row["document"])))


def read_decisions(session: Session, limit: int) -> tuple[Decision, ...]:
    """Newest first."""
    rows = session.execute("SELECT * FROM snapshot_decision ORDER BY id DESC LIMIT ?", (limit,))
    return tuple(_decision(row) for row in rows)


def _write(
    session: Session,
    verdict: DecisionVerdict,
    snapshot: Snapshot,
    acceptance: int | None,
    *,
    by: str,
    reason: str,
    at: datetime,
) -> Decision:
    number = session.execute(
        "INSERT INTO snapshot_decision"
        " (verdict, at_us, decided_by, reason, document, acceptance, undone_by, undone_reason)"
        " VALUES (?, ?, ?, ?, ?, ?, '', '')",
        (
            verdict.value,
            to_microseconds(at),
            text(by),
            text(reason),
            zlib.compress(encode(snapshot)),
            acceptance,
        ),
    ).lastrowid
    if number is None:
        raise AssertionError("a decision was just written")
    return _read(session, number)


def _read(session: Session, number: int) -> Decision:
    return _decision(session.execute("SELECT * FROM snapshot_decision WHERE id = ?", (number,)).fetchone())


def _decision(row: Row) -> Decision:
    return Decision(
        id=row["id"],
        verdict=DecisionVerdict(row["verdict"]),
        by=row["decided_by"],
        reason=row["reason"],
        at=from_microseconds(row["at_us"]),
        undone_at=optional_instant(row["undone_at_us"]),
        undone_by=row["undone_by"],
        undone_reason=row["undone_reason"],
    )
