"""SQL of topology changes: what is open, what has ended, how often each kind opened. Inside its caller's transaction."""

from __future__ import annotations

import json
from datetime import datetime

from gpumond.model.change import Change, ChangeKind, Level, OpenChange, Subject, SubjectKind
from gpumond.store.records import TOPOLOGY_CHANGES, ChangeEnding, ChangeRecord
from gpumond.store.rows import text
from gpumond.store.session import (
    Row,
    Session,
    from_microseconds,
    optional_instant,
    to_microseconds,
)
from gpumond.store.tallies import increment

_OPEN = "SELECT * FROM topology_change WHERE closed_at_us IS NULL ORDER BY id"


def write_open(
    session: Session, open_changes: tuple[OpenChange, ...], *, ending: ChangeEnding, at: datetime
) -> None:
    """Make the stored open changes these. Because it compares, it also catches up after writes that failed."""
    wanted = {item.change: item for item in open_changes}
    keys = {change.key for change in wanted}
    stored = {_change(row): row["id"] for row in session.execute(_OPEN).fetchall()}
    for change, number in stored.items():
        if change not in wanted:
            reason = ChangeEnding.REVISED if change.key in keys else ending
            session.execute(
                "UPDATE topology_change SET closed_at_us = ?, ending = ? WHERE id = ?",
                (to_microseconds(at), reason.value, number),
            )
    for change, item in wanted.items():
        if change not in stored:
            _insert(session, item)
            increment(session, TOPOLOGY_CHANGES, {"kind": change.kind.value, "level": change.level.value}, 1)


def read_open(session: Session) -> tuple[OpenChange, ...]:
    """In the order in which they opened."""
    return tuple(
        OpenChange(_change(row), from_microseconds(row["opened_at_us"])) for row in session.execute(_OPEN)
    )


def read_changes(session: Session, limit: int) -> tuple[ChangeRecord, ...]:
    """Newest first."""
    rows = session.execute("SELECT * FROM topology_change ORDER BY id DESC LIMIT ?", (limit,))
    return tuple(
        ChangeRecord(
            change=_change(row),
            opened_at=from_microseconds(row["opened_at_us"]),
            closed_at=optional_instant(row["closed_at_us"]),
            ending=ChangeEnding(row["ending"]) if row["ending"] is not None else None,
        )
        for row in rows
    )


def read_last_change_at(session: Session) -> datetime | None:
    """When a change last opened or ended."""
    row = session.execute(
        "SELECT max(max(opened_at_us), coalesce(max(closed_at_us), 0)) AS at FROM topology_change"
    ).fetchone()
    return optional_instant(row["at"])


def _insert(session: Session, item: OpenChange) -> None:
    change = item.change
    session.execute(
        "INSERT INTO topology_change (kind, level, subject_kind, subject_ids, sentence, evidence_before,"
        " evidence_after, opened_at_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            change.kind.value,
            change.level.value,
            change.subject.kind.value,
            json.dumps(change.subject.ids),
            text(change.sentence),
            text(change.before),
            text(change.after),
            to_microseconds(item.opened_at),
        ),
    )


def _change(row: Row) -> Change:
    return Change(
        kind=ChangeKind(row["kind"]),
        level=Level(row["level"]),
        subject=Subject(SubjectKind(row["subject_kind"]), tuple(json.loads(row["subject_ids"]))),
        sentence=row["sentence"],
        before=row["evidence_before"],
        after=row["evidence_after"],
    )
