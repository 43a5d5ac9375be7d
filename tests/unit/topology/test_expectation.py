from dataclasses import replace

import pytest

from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.status import P2pExpectation
from gpumond.model.topology import P2pCapability, P2pStatus
from gpumond.topology.expectation import p2p_expectations

LOST = Unreadable(UnreadableReason.ERROR)


def with_read(snapshot, reading):
    """The first pair answers so; the others as they did."""
    first, *others = snapshot.pairs
    changed = replace(first, p2p={**first.p2p, P2pCapability.READ: reading})
    return replace(snapshot, pairs=(changed, *others))


def test_nothing_is_said_of_what_is_as_it_was(eight_gpus):
    assert p2p_expectations(eight_gpus, eight_gpus) == ()


@pytest.mark.parametrize("status", [P2pStatus.CNS, P2pStatus.TNS, P2pStatus.NS])
def test_a_capability_that_is_gone_was_expected_and_one_that_came_was_not(eight_gpus, status):
    pair = eight_gpus.pairs[0]
    without = with_read(eight_gpus, Value(status))
    lost = P2pExpectation(pair.gpu, pair.peer, P2pCapability.READ, is_supported=True)
    assert p2p_expectations(eight_gpus, without) == (lost,)
    assert p2p_expectations(without, eight_gpus) == (replace(lost, is_supported=False),)


@pytest.mark.parametrize("reading", [LOST, NOT_SUPPORTED, Value(P2pStatus.U)])
def test_no_answer_is_no_difference(eight_gpus, reading):
    assert p2p_expectations(eight_gpus, with_read(eight_gpus, reading)) == ()


def test_a_pair_that_is_not_there_is_no_difference(eight_gpus):
    assert p2p_expectations(eight_gpus, replace(eight_gpus, pairs=eight_gpus.pairs[1:])) == ()
