from __future__ import annotations

import pytest

from gpumond.model.identity import PciBusId
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import NvLink, NvLinkRemote
from gpumond.probe.nvlink import nvlinks_between

PEER = PciBusId("0000:1b:00.0")
ELSEWHERE = PciBusId("0000:43:00.0")
LOST = Unreadable(UnreadableReason.GPU_LOST)


UP = Value(True)
TO_GPU = Value(NvLinkRemote.GPU)
TO_PEER = Value(PEER)


def link(number=0, *, up=UP, remote=TO_GPU, to=TO_PEER):
    return NvLink(number, up, remote, to, Value(6), Value(26_562_000_000), NOT_SUPPORTED)


def to_switch(count, *, down=0):
    return Value(
        tuple(
            link(number, up=Value(number >= down), remote=Value(NvLinkRemote.SWITCH), to=NOT_SUPPORTED)
            for number in range(count)
        )
    )


def test_behind_a_switch_every_active_link_counts_although_no_bus_id_is_known():
    assert nvlinks_between(to_switch(18), to_switch(18), PEER) == Value(18)


def test_behind_a_switch_a_link_that_is_down_does_not_count():
    assert nvlinks_between(to_switch(18, down=1), to_switch(18), PEER) == Value(17)


def test_a_peer_without_active_switch_links_cannot_be_reached_through_one():
    assert nvlinks_between(to_switch(18), to_switch(18, down=18), PEER) == Value(0)
    assert nvlinks_between(to_switch(18), NOT_SUPPORTED, PEER) == Value(0)


def test_direct_links_count_towards_the_gpu_at_their_other_end():
    links = Value((link(0), link(1), link(2, to=Value(ELSEWHERE)), link(3, up=Value(False))))
    assert nvlinks_between(links, links, PEER) == Value(2)
    assert nvlinks_between(links, links, ELSEWHERE) == Value(1)


def test_links_to_a_cpu_lead_to_no_gpu():
    links = Value((link(remote=Value(NvLinkRemote.NPU)),))
    assert nvlinks_between(links, links, PEER) == Value(0)


def test_an_unknown_kind_of_remote_end_is_judged_by_its_bus_id():
    links = Value((link(remote=Value(NvLinkRemote.UNKNOWN)), link(remote=NOT_SUPPORTED)))
    assert nvlinks_between(links, links, PEER) == Value(2)


@pytest.mark.parametrize(
    "odd",
    [link(up=LOST), link(remote=LOST), link(to=LOST), link(to=NOT_SUPPORTED)],
    ids=["state", "type", "bus id", "no bus id"],
)
def test_one_unreadable_link_makes_the_count_unreadable(odd):
    """One link less than yesterday is an alarm; not knowing is not."""
    links = Value((link(0), odd))
    assert isinstance(nvlinks_between(links, links, PEER), Unreadable)


def test_no_nvlinks_at_all_is_no_number():
    assert nvlinks_between(NOT_SUPPORTED, NOT_SUPPORTED, PEER) == NOT_SUPPORTED
    assert nvlinks_between(LOST, to_switch(18), PEER) == LOST
    assert nvlinks_between(to_switch(18), LOST, PEER) == LOST
