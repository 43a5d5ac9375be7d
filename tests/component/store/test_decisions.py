"""Which state is accepted, who said so, and how that is taken back."""

from __future__ import annotations

import pytest
from history_values import NIGHT, make_gpu, make_snapshot

from gpumond.model.status import InventoryEntry
from gpumond.store.records import DecisionVerdict

TWO = make_snapshot()
ONE = make_snapshot(gpus=(make_gpu("a", 1),))
INVENTORY_OF_TWO = (
    InventoryEntry(0, "GPU-a", "0000:01:00.0", "NVIDIA H200"),
    InventoryEntry(1, "GPU-b", "0000:02:00.0", "NVIDIA H200"),
)
INVENTORY_OF_ONE = INVENTORY_OF_TWO[:1]


@pytest.fixture
def accepted(store, clock):
    """A store in which gpumond accepted two GPUs, and alice one of them an hour later."""
    store.accept_snapshot(TWO, INVENTORY_OF_TWO, by="gpumond", reason="first seen")
    clock.step(hours=1)
    store.accept_snapshot(ONE, INVENTORY_OF_ONE, by="alice", reason="RMA")
    return store


def in_force(store):
    found = store.accepted_snapshot()
    return found.snapshot, store.accepted_inventory(), found.decision.by


def test_before_the_first_acceptance_there_is_none(store):
    assert store.accepted_snapshot() is None
    assert store.decisions(limit=9) == ()
    assert store.undo_decision(by="alice", reason="") is None


def test_the_newest_acceptance_is_in_force_with_its_inventory(accepted):
    assert in_force(accepted) == (ONE, INVENTORY_OF_ONE, "alice")


def test_an_undone_acceptance_leaves_the_one_before_and_stays_on_record(accepted, clock):
    clock.step(hours=1)
    undone = accepted.undo_decision(by="bob", reason="the GPU is back")
    assert (undone.by, undone.undone_by, undone.undone_reason) == ("alice", "bob", "the GPU is back")
    assert in_force(accepted) == (TWO, INVENTORY_OF_TWO, "gpumond")
    assert [(d.by, d.undone_at is not None) for d in accepted.decisions(limit=9)] == [
        ("alice", True),
        ("gpumond", False),
    ]


def test_the_first_acceptance_cannot_be_undone(accepted):
    assert accepted.undo_decision(by="bob", reason="") is not None
    assert accepted.undo_decision(by="bob", reason="") is None
    assert in_force(accepted) == (TWO, INVENTORY_OF_TWO, "gpumond")


def test_a_rejection_changes_nothing_and_is_undone_first(accepted):
    accepted.reject_snapshot(TWO, by="bob", reason="not what was ordered")
    assert in_force(accepted) == (ONE, INVENTORY_OF_ONE, "alice")
    undone = accepted.undo_decision(by="bob", reason="misread")
    assert undone.verdict is DecisionVerdict.REJECTED
    assert in_force(accepted) == (ONE, INVENTORY_OF_ONE, "alice")


def test_snapshot_and_inventory_are_accepted_together_or_not_at_all(store):
    twice = (*INVENTORY_OF_ONE, *INVENTORY_OF_ONE)
    with pytest.raises(ValueError, match="UNIQUE"):
        store.accept_snapshot(TWO, twice, by="alice", reason="")
    assert store.accepted_snapshot() is None
    assert store.accepted_inventory() == ()


def test_a_reason_of_bytes_that_are_no_text_is_kept_readable(store):
    store.accept_snapshot(TWO, INVENTORY_OF_TWO, by="al\udce9x", reason="\udcff")
    (decision,) = store.decisions(limit=1)
    assert (decision.by, decision.reason, decision.at) == ("al\\udce9x", "\\udcff", NIGHT)
