from __future__ import annotations

import os

import pytest

from gpumond.process.cancellation import Cancellation


@pytest.mark.parametrize(
    ("graces", "shortest"), [([None], None), ([5.0], 5.0), ([5.0, None, 2.0], 2.0), ([0.0, 30.0], 0.0)]
)
def test_of_several_graces_the_shortest_wins_and_the_first_reason_stays(graces, shortest):
    cancellation = Cancellation()
    for number, grace in enumerate(graces):
        cancellation.cancel(grace_seconds=grace, reason=f"reason {number}")
    assert (cancellation.is_cancelled, cancellation.grace_seconds) == (True, shortest)
    assert cancellation.reason == "reason 0"


def test_nothing_is_cancelled_at_first():
    cancellation = Cancellation()
    assert (cancellation.is_cancelled, cancellation.reason, cancellation.grace_seconds) == (False, "", None)


def test_a_cancel_before_the_watch_is_seen_too():
    cancellation = Cancellation()
    cancellation.cancel()
    with cancellation.watch() as descriptor:
        assert os.eventfd_read(descriptor) == 1


def test_every_watcher_is_woken_by_every_cancel_and_gone_afterwards():
    cancellation = Cancellation()
    with cancellation.watch() as first, cancellation.watch() as second:
        with pytest.raises(BlockingIOError):
            os.eventfd_read(first)
        cancellation.cancel()
        cancellation.cancel()
        assert (os.eventfd_read(first), os.eventfd_read(second)) == (2, 2)
    cancellation.cancel()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(first)
