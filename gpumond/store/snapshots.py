"""SQL of topology snapshots and of the accepted inventory. Works inside its caller's transaction."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import datetime

from gpumond.codec import decode, encode
from gpumond.model.identity import GpuUuid, PciBusId
from gpumond.model.status import InventoryEntry
from gpumond.model.topology import Snapshot
from gpumond.store.records import SnapshotPeriod
from gpumond.store.rows import text
from gpumond.store.session import Session, from_microseconds, to_microseconds
from gpumond.store.structure import Structure, structure_of


def write_snapshot(session: Session, snapshot: Snapshot) -> None:
    """Keep the document where the structure is new, else note that it was seen again."""
    taken_at = to_microseconds(snapshot.taken_at)
    row = session.execute("SELECT id, structure FROM snapshot ORDER BY id DESC LIMIT 1").fetchone()
    last = None if row is None else Structure(zlib.decompress(row["structure"]))
    structure = structure_of(snapshot, last)
    if structure == last:
        session.execute(
            "UPDATE snapshot SET last_seen_us = max(last_seen_us, ?) WHERE id = ?", (taken_at, row["id"])
        )
        return
    session.execute(
        "INSERT INTO snapshot (structure_hash, structure, document, first_seen_us, last_seen_us)"
        " VALUES (?, ?, ?, ?, ?)",
        (
            structure.hash,
            zlib.compress(structure.document),
            zlib.compress(encode(snapshot)),
            taken_at,
            taken_at,
        ),
    )


def read_latest_snapshot(session: Session) -> Snapshot | None:
    row = session.execute("SELECT document FROM snapshot ORDER BY id DESC LIMIT 1").fetchone()
    return None if row is None else decode(Snapshot, zlib.decompress(row["document"]))


def read_periods(session: Session, limit: int) -> tuple[SnapshotPeriod, ...]:
    """Newest first."""
    rows = session.execute(
        "SELECT structure_hash, first_seen_us, last_seen_us FROM snapshot ORDER BY id DESC LIMIT ?", (limit,)
    )
    return tuple(
        SnapshotPeriod(
            from_microseconds(row["first_seen_us"]),
            from_microseconds(row["last_seen_us"]),
            row["structure_hash"],
        )
        for row in rows
    )


def write_acceptance(
    session: Session, entries: Iterable[InventoryEntry], *, by: str, reason: str, at: datetime
) -> int:
    """Returns the number of the acceptance."""
    acceptance = session.execute(
        "INSERT INTO acceptance (at_us, accepted_by, reason) VALUES (?, ?, ?)",
        (to_microseconds(at), text(by), text(reason)),
    ).lastrowid
    session.executemany(
        "INSERT INTO accepted_gpu (acceptance, number, uuid, pci_bus_id, name) VALUES (?, ?, ?, ?, ?)",
        [(acceptance, entry.number, entry.uuid, entry.pci_bus_id, entry.name) for entry in entries],
    )
    if acceptance is None:
        raise AssertionError("an acceptance was just written")
    return acceptance


def read_inventory(session: Session) -> tuple[InventoryEntry, ...]:
    """What was accepted last, by number."""
    newest = session.execute("SELECT max(id) AS id FROM acceptance").fetchone()["id"]
    return () if newest is None else read_inventory_of(session, newest)


def read_inventory_of(session: Session, acceptance: int) -> tuple[InventoryEntry, ...]:
    rows = session.execute(
        "SELECT number, uuid, pci_bus_id, name FROM accepted_gpu WHERE acceptance = ? ORDER BY number",
        (acceptance,),
    )
    return tuple(
        InventoryEntry(row["number"], GpuUuid(row["uuid"]), PciBusId(row["pci_bus_id"]), row["name"])
        for row in rows
    )
