"""SQL of what the kernel said: tallies, and where the journal was read up to. Inside its caller's transaction.

Single events are not kept: a link that fails prints thousands a minute. The cursor is written with the events that were
read up to it, so that none is counted twice or lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpumond.model.change import Level
from gpumond.model.identity import PciBusId
from gpumond.model.kernel_log import KernelEventKind, KernelTally
from gpumond.store.rows import text
from gpumond.store.session import Session, from_microseconds, to_microseconds

TALLIES_MAX = 1000
"""A host has about 200 PCI devices, each with a few codes; beyond, the oldest go."""

_ADD = """
INSERT INTO kernel_tally (kind, pci_bus_id, code, level, count, first_at_us, last_at_us, detail)
VALUES (:kind, :pci_bus_id, :code, :level, :count, :first_at, :last_at, :detail)
ON CONFLICT (kind, pci_bus_id, code) DO UPDATE SET count = count + excluded.count, level = excluded.level,
  first_at_us = min(first_at_us, excluded.first_at_us),
  detail = CASE WHEN excluded.last_at_us >= last_at_us THEN excluded.detail ELSE detail END,
  last_at_us = max(last_at_us, excluded.last_at_us)
"""
_TRIM = """
DELETE FROM kernel_tally WHERE rowid NOT IN
  (SELECT rowid FROM kernel_tally ORDER BY last_at_us DESC, rowid DESC LIMIT ?)
"""


def add_tallies(session: Session, tallies: Iterable[KernelTally], *, cursor: str) -> None:
    session.executemany(
        _ADD,
        [
            {
                "kind": tally.kind.value,
                "pci_bus_id": tally.pci_bus_id,
                "code": text(tally.code),
                "level": tally.level.value,
                "count": tally.count,
                "first_at": to_microseconds(tally.first_at),
                "last_at": to_microseconds(tally.last_at),
                "detail": text(tally.detail),
            }
            for tally in tallies
        ],
    )
    session.execute(_TRIM, (TALLIES_MAX,))
    session.execute(
        "INSERT INTO kernel_log_cursor (id, cursor) VALUES (1, ?)"
        " ON CONFLICT (id) DO UPDATE SET cursor = excluded.cursor",
        (text(cursor),),
    )


def read_cursor(session: Session) -> str | None:
    """None where the journal was never read."""
    row = session.execute("SELECT cursor FROM kernel_log_cursor").fetchone()
    return None if row is None else row["cursor"]


def read_tallies(session: Session) -> tuple[KernelTally, ...]:
    """Newest first."""
    rows = session.execute("SELECT * FROM kernel_tally ORDER BY last_at_us DESC, kind, pci_bus_id, code")
    return tuple(
        KernelTally(
            kind=KernelEventKind(row["kind"]),
            pci_bus_id=PciBusId(row["pci_bus_id"]),
            code=row["code"],
            level=Level(row["level"]),
            count=row["count"],
            first_at=from_microseconds(row["first_at_us"]),
            last_at=from_microseconds(row["last_at_us"]),
            detail=row["detail"],
        )
        for row in rows
    )
