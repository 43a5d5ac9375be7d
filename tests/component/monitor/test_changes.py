"""The watch between snapshots and the store: believed after two readings, kept over a restart, cleared by a decision."""

from __future__ import annotations

import pytest
from snapshot_edits import edited, links, without_gpus, without_nics

from gpumond.board import StatusBoard
from gpumond.errors import NotEvaluatedError, StoreError
from gpumond.model.change import ChangeCount, ChangeKind, Level
from gpumond.model.reading import Value
from gpumond.model.status import HostStatus
from gpumond.monitor.changes import ChangeWatch
from gpumond.monitor.decisions import DecisionKind, decide
from gpumond.monitor.inventory import inventory_of
from gpumond.store.records import ChangeEnding
from gpumond.store.sqlite import Store

DOWN = Value(value=False)


@pytest.fixture
def store(tmp_path, clock):
    with Store.open(tmp_path / "state", clock=clock) as opened:
        yield opened


@pytest.fixture
def start(store, clock):
    """`start()`: a daemon's watch on this store, with the board that it writes."""

    def call():
        board = StatusBoard(HostStatus(version="0.1.0", started_at=clock.now()))
        watch = ChangeWatch(store=store, board=board, clock=clock)
        watch.restore()
        return watch, board

    return call


@pytest.fixture
def watching(start, eight_gpus):
    """A watch that has accepted eight GPUs, and its board."""
    watch, board = start()
    watch.accept(eight_gpus, inventory_of(eight_gpus), by="gpumond", reason="first seen")
    return watch, board


@pytest.fixture
def link_down(eight_gpus):
    return edited(eight_gpus, links(3, 7, is_up=DOWN))


def open_kinds(board):
    return [item.change.kind for item in board.status.changes]


def observe(watch, *snapshots):
    for snapshot in snapshots:
        watch.observe(snapshot)


def test_before_anything_is_accepted_nothing_differs(start, eight_gpus):
    watch, board = start()
    observe(watch, eight_gpus, eight_gpus)
    assert (board.status.changes, board.status.accepted_at) == ((), None)


def test_a_change_opens_with_the_second_reading_and_is_on_disk(watching, store, link_down, clock):
    watch, board = watching
    watch.observe(link_down)
    assert open_kinds(board) == []
    clock.sleep(60)
    watch.observe(link_down)
    assert open_kinds(board) == [ChangeKind.NVLINK_DOWN]
    assert store.open_changes() == board.status.changes
    assert board.status.last_change_at == clock.now()
    assert board.status.change_counts == (ChangeCount(ChangeKind.NVLINK_DOWN, Level.CRITICAL, 1),)


def test_it_ends_when_the_host_is_as_accepted_again(watching, store, link_down, eight_gpus):
    watch, board = watching
    observe(watch, link_down, link_down, eight_gpus)
    assert open_kinds(board) == [ChangeKind.NVLINK_DOWN]
    watch.observe(eight_gpus)
    assert open_kinds(board) == []
    (record,) = store.changes(limit=9)
    assert record.ending is ChangeEnding.GONE


def test_a_worse_state_of_the_same_change_is_opened_anew(watching, store, link_down, eight_gpus):
    watch, board = watching
    worse = edited(eight_gpus, links(3, 7, 8, is_up=DOWN))
    observe(watch, link_down, link_down, worse, worse)
    assert [item.change.after for item in board.status.changes] == ["16 links up"]
    assert [record.ending for record in store.changes(limit=9)] == [None, ChangeEnding.REVISED]


def test_a_restart_keeps_what_was_open_and_since_when(watching, start, link_down, clock):
    watch, board = watching
    observe(watch, link_down, link_down)
    before = board.status
    clock.sleep(3600)
    again, restarted = start()
    for _ in range(2):
        assert restarted.status.changes == before.changes
        assert restarted.status.accepted_at == before.accepted_at
        assert restarted.status.change_counts == before.change_counts
        assert restarted.status.last_change_at == before.last_change_at
        again.observe(link_down)


def test_accepting_clears_what_was_open_and_renumbers(watching, store, eight_gpus):
    watch, board = watching
    seven = edited(eight_gpus, without_gpus(3))
    observe(watch, seven, seven)
    assert open_kinds(board) == [ChangeKind.GPU_MISSING]
    answer = decide(watch, DecisionKind.ACCEPT, seven, by="alice", reason="RMA")
    assert answer == "accepted: the state of 2026-11-29 02:00:00 UTC, 7 GPUs"
    assert open_kinds(board) == []
    assert [entry.number for entry in board.status.inventory] == list(range(7))
    assert store.changes(limit=1)[0].ending is ChangeEnding.ACCEPTED
    observe(watch, seven, seven)
    assert open_kinds(board) == []
    observe(watch, eight_gpus, eight_gpus)
    assert open_kinds(board) == [ChangeKind.GPU_ADDED]


def test_undoing_an_acceptance_tells_against_the_state_before(watching, store, eight_gpus):
    watch, board = watching
    seven = edited(eight_gpus, without_gpus(3))
    decide(watch, DecisionKind.ACCEPT, seven, by="alice", reason="RMA")
    answer = decide(watch, DecisionKind.UNDO, None, by="bob", reason="it is back")
    assert answer == "undone: what alice accepted at 2026-11-29 12:00:00 UTC"
    assert len(board.status.inventory) == 8
    observe(watch, seven, seven)
    assert open_kinds(board) == [ChangeKind.GPU_MISSING]
    decide(watch, DecisionKind.ACCEPT, seven, by="alice", reason="gone for good")
    decide(watch, DecisionKind.UNDO, None, by="bob", reason="no")
    assert [record.ending for record in store.changes(limit=9)] == [ChangeEnding.ACCEPTED]


def test_a_rejection_is_put_on_record_and_leaves_everything_open(watching, store, link_down):
    watch, board = watching
    observe(watch, link_down, link_down)
    answer = decide(watch, DecisionKind.REJECT, link_down, by="alice", reason="repair ordered")
    assert answer.startswith("rejected: the state of")
    assert open_kinds(board) == [ChangeKind.NVLINK_DOWN]
    assert [decision.verdict for decision in store.decisions(limit=9)] == ["rejected", "accepted"]


@pytest.mark.parametrize("kind", list(DecisionKind))
def test_what_cannot_be_decided(watching, kind):
    watch, _ = watching
    with pytest.raises(NotEvaluatedError, match="there is no"):
        decide(watch, kind, None, by="alice", reason="because")


def test_while_nothing_can_be_written_the_board_knows_and_the_store_catches_up(
    watching, store, link_down, clock
):
    watch, board = watching
    store._database.script(
        "PRAGMA query_only = ON"
    )  # every write fails, as on a file system that went read-only
    observe(watch, link_down, link_down)
    assert open_kinds(board) == [ChangeKind.NVLINK_DOWN]
    assert board.status.last_change_at == clock.now()
    store._database.script("PRAGMA query_only = OFF")
    assert store.open_changes() == ()
    watch.observe(link_down)
    assert store.open_changes() == board.status.changes
    assert board.status.change_counts == (ChangeCount(ChangeKind.NVLINK_DOWN, Level.CRITICAL, 1),)


def test_an_acceptance_that_cannot_be_stored_changes_nothing(watching, store, link_down):
    watch, board = watching
    store._database.script("PRAGMA query_only = ON")
    with pytest.raises(StoreError):
        decide(watch, DecisionKind.ACCEPT, link_down, by="alice", reason="so be it")
    observe(watch, link_down, link_down)
    assert open_kinds(board) == [ChangeKind.NVLINK_DOWN]


def test_what_does_not_change_is_not_written_again(watching, store, link_down, eight_gpus):
    watch, _ = watching
    observe(watch, link_down, link_down)
    before = store.counters()
    observe(watch, link_down, edited(link_down, without_nics("mlx5_1")), link_down)
    assert store.counters() == before
    assert len(store.changes(limit=9)) == 1
