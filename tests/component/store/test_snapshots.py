"""Which snapshots are kept, and the history of accepted inventories."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from history_values import NIGHT, make_gpu, make_snapshot

from gpumond.model.reading import Unreadable, UnreadableReason, Value
from gpumond.model.status import InventoryEntry

LOST = Unreadable(UnreadableReason.TIMEOUT)


def minutes(count):
    return NIGHT + timedelta(minutes=count)


def test_the_same_structure_is_one_row_that_was_seen_again(store):
    for minute in range(3):
        store.record_snapshot(make_snapshot(minutes(minute), duration_seconds=float(minute)))
    (period,) = store.snapshot_periods(limit=9)
    assert (period.first_seen, period.last_seen) == (NIGHT, minutes(2))
    assert store.latest_snapshot() == make_snapshot(duration_seconds=0.0)


def test_a_new_structure_is_a_new_row(store):
    gpu_lost = make_snapshot(minutes(1), gpus=(make_gpu("a", 1),))
    store.record_snapshot(make_snapshot())
    store.record_snapshot(gpu_lost)
    assert store.latest_snapshot() == gpu_lost
    store.record_snapshot(make_snapshot(minutes(2)))
    periods = store.snapshot_periods(limit=9)
    assert [period.first_seen for period in periods] == [minutes(2), minutes(1), NIGHT]
    assert periods[0].structure_hash == periods[2].structure_hash != periods[1].structure_hash


def test_a_field_that_cannot_be_read_for_a_while_changes_nothing(store):
    blind = make_snapshot(minutes(1), gpus=(make_gpu("a", 1, name=LOST), make_gpu("b", 2, nvlinks=LOST)))
    for snapshot in (make_snapshot(), blind, make_snapshot(minutes(2)), blind):
        store.record_snapshot(snapshot)
    assert len(store.snapshot_periods(limit=9)) == 1


def test_a_change_while_another_field_cannot_be_read_is_one_change(store):
    narrow = replace(make_gpu("a", 1).pcie, width_lanes=Value(8))
    blind = make_snapshot(minutes(1), gpus=(make_gpu("a", 1, pcie=narrow, name=LOST), make_gpu("b", 2)))
    seeing = make_snapshot(minutes(2), gpus=(make_gpu("a", 1, pcie=narrow), make_gpu("b", 2)))
    for snapshot in (make_snapshot(), blind, seeing):
        store.record_snapshot(snapshot)
    assert [period.first_seen for period in store.snapshot_periods(limit=9)] == [minutes(1), NIGHT]


def test_a_clock_that_steps_back_does_not_shorten_a_period(store):
    store.record_snapshot(make_snapshot(minutes(5)))
    store.record_snapshot(make_snapshot(minutes(1)))
    (period,) = store.snapshot_periods(limit=9)
    assert period.last_seen == minutes(5)


def test_the_newest_acceptance_counts_and_the_others_stay_on_record(store):
    first = InventoryEntry(0, "GPU-a", "0000:01:00.0", "NVIDIA H200")
    second = InventoryEntry(0, "GPU-b", "0000:01:00.0", "NVIDIA H200")
    store.accept_inventory([first], by="gpumond", reason="first seen")
    store.accept_inventory([second], by="alice", reason="replaced after Xid 79")
    assert store.accepted_inventory() == (second,)
    with store._database.reading() as session:
        rows = session.execute(
            "SELECT accepted_by, reason, uuid FROM acceptance JOIN accepted_gpu ON acceptance = id"
        )
        assert [tuple(row) for row in rows] == [
            ("gpumond", "first seen", "GPU-a"),
            ("alice", "replaced after Xid 79", "GPU-b"),
        ]


def test_an_empty_inventory_can_be_accepted(store):
    store.accept_inventory([InventoryEntry(0, "GPU-a", "0000:01:00.0", "")], by="gpumond", reason="")
    store.accept_inventory([], by="alice", reason="GPUs are gone for good")
    assert store.accepted_inventory() == ()
