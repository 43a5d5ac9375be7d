from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import status as fakes

from gpumond.board import StatusBoard
from gpumond.model.status import HostStatus


@pytest.fixture
def board():
    return StatusBoard(HostStatus(version="0.1.0", started_at=fakes.NOW))


def test_a_change_is_a_new_version(board):
    assert board.versioned == (0, board.status)
    changed = board.update(lambda status: replace(status, is_ready=True))
    assert changed.is_ready
    assert board.versioned == (1, changed)


def test_a_change_that_fails_changes_nothing(board):
    before = board.versioned
    with pytest.raises(ZeroDivisionError):
        board.update(lambda _: 1 / 0)
    assert board.versioned == before


def test_listeners_hear_of_a_change_when_it_can_be_read(board):
    heard = []
    board.subscribe(lambda: heard.append(board.status.is_ready))
    board.subscribe(lambda: heard.append(board.versioned[0]))
    board.update(lambda status: replace(status, is_ready=True))
    assert heard == [True, 1]


def test_no_change_is_lost_between_threads(board):
    def count():
        for _ in range(200):
            board.update(lambda status: replace(status, unkillable_pids=(*status.unkillable_pids, 1)))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(board.status.unkillable_pids) == 800
    assert board.versioned[0] == 800
