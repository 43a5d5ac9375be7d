from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import NvLinkRemote, P2pCapability, P2pStatus, Vendor, XgmiPath
from gpumond.model.topology_text import P2pMatrix, P2pQuestion, TopologyText, Way
from gpumond.topology.classify import TopologyClass, classify_snapshot, classify_text

LOST = Unreadable(UnreadableReason.GPU_LOST)


def text_of(gpus, label, *matrices, **changes):
    """A host on which every pair has the same label, but for `changes`: GPU0_GPU1="SYS"."""
    names = tuple(f"GPU{n}" for n in range(gpus))
    links = {Way(a, b): label for a, b in permutations(names, 2)}
    links |= {Way(*pair.split("_")): other for pair, other in changes.items()}
    return TopologyText("", names, links={way: found for way, found in links.items() if found}, p2p=matrices)


def matrix(gpus, status, question=P2pQuestion.READ, **changes):
    names = [f"GPU{n}" for n in range(gpus)]
    statuses = {Way(a, b): status for a, b in permutations(names, 2)}
    statuses |= {Way(*pair.split("_")): other for pair, other in changes.items()}
    return P2pMatrix(question, "", statuses)


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (text_of(8, "NV18"), "nvswitch"),
        (text_of(16, "NV6"), "nvswitch"),  # DGX-2
        (text_of(8, "NV6"), "nvswitch"),
        (text_of(8, "NV8"), "nvswitch"),
        (text_of(4, "NV6"), "nvlink-partial"),  # the mesh of four H100
        (text_of(8, "NV17"), "nvlink-partial"),
        (text_of(2, "NV4"), "nvlink-partial"),  # a bridge of two A6000
        (text_of(8, "NV18", GPU0_GPU1="NV17", GPU1_GPU0="NV17"), "nvlink-partial"),
        (text_of(8, "NV18", GPU0_GPU1="SYS", GPU1_GPU0="SYS"), "nvlink-partial"),
        (text_of(8, "NV12", GPU0_GPU1="SYS"), "nvswitch"),  # one direction: MIG on GPU0
        (text_of(8, "NV18", GPU0_GPU1=None, GPU1_GPU0=None), "unknown"),
        (text_of(8, "NV18", GPU0_GPU1=None), "nvswitch"),
        (text_of(8, "SYS", GPU0_GPU1="NV4", GPU6_GPU7=None), "nvlink-partial"),
        (text_of(8, "XGMI"), "xgmi"),
        (text_of(8, "PCIE", GPU2_GPU3="XGMI"), "xgmi"),
        (text_of(2, "SYS"), "unknown"),
        (text_of(1, "SYS"), "unknown"),
        (text_of(0, "SYS"), "unknown"),
        (text_of(2, "SYS", matrix(2, "OK")), "pcie-p2p"),
        (text_of(2, "SYS", matrix(2, "OK", P2pQuestion.WRITE)), "pcie-p2p"),
        (text_of(2, "SYS", matrix(2, "OK", P2pQuestion.UNSTATED)), "pcie-p2p"),
        (text_of(2, "SYS", matrix(2, "OK", P2pQuestion.PCI)), "pcie-p2p"),
        (text_of(2, "SYS", matrix(2, "OK", P2pQuestion.NVLINK)), "unknown"),
        (text_of(2, "SYS", matrix(2, "OK", P2pQuestion.ATOMICS)), "unknown"),
        (text_of(2, "SYS", matrix(2, "U")), "unknown"),
        (text_of(2, "SYS", matrix(2, "CNS")), "pcie-no-p2p"),
        (text_of(2, "SYS", matrix(2, "DR")), "pcie-no-p2p"),
        (text_of(2, "SYS", matrix(2, "OK"), matrix(2, "GNS", P2pQuestion.PCI)), "pcie-p2p"),
        (text_of(2, "SYS", matrix(2, "OK"), matrix(2, "TNS", P2pQuestion.WRITE)), "pcie-no-p2p"),
        (text_of(2, "SYS", *(matrix(2, s, P2pQuestion.UNSTATED) for s in ("OK", "NS"))), "unknown"),
        (text_of(2, "SYS", *(matrix(2, "OK", P2pQuestion.UNSTATED) for _ in range(2))), "pcie-p2p"),
        (text_of(3, "SYS", matrix(3, "OK", GPU0_GPU1="CNS")), "pcie-no-p2p"),
        (text_of(3, "SYS", matrix(3, "OK", GPU0_GPU1="U")), "unknown"),
        (text_of(3, "SYS", matrix(2, "OK")), "unknown"),
        (text_of(2, "PCIE", matrix(2, "ENABLED", P2pQuestion.ACCESS)), "pcie-p2p"),
        (text_of(2, "PCIE", matrix(2, "True", P2pQuestion.ACCESS)), "pcie-p2p"),
        (text_of(2, "PCIE", matrix(2, "False", P2pQuestion.ACCESS)), "pcie-no-p2p"),
        (text_of(2, None, matrix(2, "ENABLED", P2pQuestion.ACCESS)), "unknown"),  # the links may be XGMI
        (replace(text_of(2, "PHB", matrix(2, "OK")), shows_nvlinks=False), "unknown"),
    ],
)
def test_text(topology, expected):
    found = classify_text(topology)
    assert found.topology_class == expected
    assert found.facts


def test_facts_hold_the_numbers():
    assert classify_text(text_of(8, "NV18", GPU0_GPU1="NV17", GPU1_GPU0="NV17")).facts == (
        "28 pairs of GPUs: 27 NV18, 1 NV17",
    )
    assert classify_text(text_of(2, "SYS", matrix(2, "OK", GPU0_GPU1="CNS"))).facts == (
        "1 pair of GPUs: 1 SYS",
        "P2P is said to work on 1 of 2 ways between GPUs",
    )


# --- snapshots ---------------------------------------------------------------------------------------------------------


def with_links(snapshot, change, only=None):
    """Every NVLink changed, or only those of GPU number `only`."""
    gpus = tuple(
        replace(gpu, nvlinks=Value(tuple(change(link) for link in gpu.nvlinks.value)))
        if only is None or place == only
        else gpu
        for place, gpu in enumerate(snapshot.gpus)
    )
    return replace(snapshot, gpus=gpus)


def with_pairs(snapshot, nvlinks, read=None, place=None):
    pairs = tuple(
        replace(pair, nvlinks=nvlinks, p2p=pair.p2p if read is None else {P2pCapability.READ: read})
        if place is None or n == place
        else pair
        for n, pair in enumerate(snapshot.pairs)
    )
    return replace(snapshot, pairs=pairs)


def down(link):
    return replace(link, is_up=Value(value=False))


def to_a_gpu(link):
    return replace(link, remote_type=Value(NvLinkRemote.GPU))


def without_nvlinks(snapshot, read):
    bare = replace(snapshot, gpus=tuple(replace(gpu, nvlinks=NOT_SUPPORTED) for gpu in snapshot.gpus))
    return with_pairs(bare, NOT_SUPPORTED, read)


def test_remote_type_decides_not_the_count(two_gpus, eight_gpus):
    """Two H200 in a VM, where the bus ids of the switches are hidden (MEASURED.md)."""
    for snapshot in (two_gpus, eight_gpus):
        found = classify_snapshot(snapshot)
        assert found.topology_class is TopologyClass.NVSWITCH
        assert found.facts == (f"NVLinks that end at an NVSwitch: GPUs {len(snapshot.gpus)} with 18",)
    assert classify_snapshot(with_links(two_gpus, to_a_gpu)).topology_class is TopologyClass.NVLINK_PARTIAL


def test_links_that_are_down_do_not_make_another_class_while_one_is_up(eight_gpus):
    one_down = with_links(eight_gpus, lambda link: down(link) if link.link == 0 else link, only=3)
    found = classify_snapshot(one_down)
    assert found.topology_class is TopologyClass.NVSWITCH
    assert found.facts == ("NVLinks that end at an NVSwitch: GPUs 7 with 18, 1 with 17",)


def test_a_gpu_without_any_link_makes_it_partial(eight_gpus):
    found = classify_snapshot(with_links(eight_gpus, down, only=3))
    assert found.topology_class is TopologyClass.NVLINK_PARTIAL
    assert found.facts[-1] == "7 of 8 GPUs have NVLinks that end at an NVSwitch"


@pytest.mark.parametrize("remote", [LOST, NOT_SUPPORTED, Value(NvLinkRemote.UNKNOWN)])
def test_unreadable_remotes_leave_it_to_the_counts(eight_gpus, remote):
    found = classify_snapshot(with_links(eight_gpus, lambda link: replace(link, remote_type=remote)))
    assert found.topology_class is TopologyClass.NVSWITCH
    assert "could not be read" in found.facts[-1]


@pytest.mark.parametrize("dead_way", [0, 1])
def test_a_pair_counts_by_its_better_direction(two_gpus, dead_way):
    """A MIG GPU reads no NVLink to its peers, while they read theirs to it."""
    unnamed = with_links(two_gpus, lambda link: replace(link, remote_type=LOST))
    snapshot = with_pairs(unnamed, Value(0), place=dead_way)
    assert classify_snapshot(snapshot).facts[0] == "1 pair of GPUs: 1 NV18"


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (Value(P2pStatus.OK), "pcie-p2p"),
        (Value(P2pStatus.CNS), "pcie-no-p2p"),
        (Value(P2pStatus.U), "unknown"),
        (LOST, "unknown"),
        (NOT_SUPPORTED, "unknown"),
    ],
)
def test_without_nvlinks_p2p_decides(eight_gpus, read, expected):
    assert classify_snapshot(without_nvlinks(eight_gpus, read)).topology_class == expected


def test_one_way_without_p2p_is_enough(eight_gpus):
    snapshot = without_nvlinks(eight_gpus, Value(P2pStatus.OK))
    snapshot = with_pairs(snapshot, NOT_SUPPORTED, Value(P2pStatus.TNS), place=5)
    assert classify_snapshot(snapshot).topology_class is TopologyClass.PCIE_NO_P2P


def test_could_not_read_is_neither_yes_nor_no(eight_gpus):
    snapshot = with_pairs(without_nvlinks(eight_gpus, Value(P2pStatus.OK)), LOST)
    assert classify_snapshot(snapshot).topology_class is TopologyClass.UNKNOWN


P2P_OK = Value(P2pStatus.OK)


def amd(snapshot, xgmi, p2p=P2P_OK, *, place=None):
    """`snapshot` as AMD's: no NVLinks, and `xgmi` for every pair (or the one at `place`)."""
    bare = replace(without_nvlinks(snapshot, p2p), vendor=Vendor.AMD)
    pairs = [replace(it, xgmi=xgmi) if place in (None, n) else it for n, it in enumerate(bare.pairs)]
    return replace(bare, pairs=tuple(pairs))


XGMI = Value(XgmiPath(Value(15), NOT_SUPPORTED, NOT_SUPPORTED, NOT_SUPPORTED))


@pytest.mark.parametrize("place", [None, 0, 55])
def test_one_xgmi_connection_makes_the_class(eight_gpus, place):
    found = classify_snapshot(amd(eight_gpus, XGMI, place=place))
    assert found.topology_class is TopologyClass.XGMI
    assert found.facts == (f"xGMI connects {56 if place is None else 1} of 56 ways between GPUs",)


@pytest.mark.parametrize(
    ("xgmi", "p2p", "expected"),
    [
        (NOT_SUPPORTED, Value(P2pStatus.OK), "pcie-p2p"),
        (NOT_SUPPORTED, Value(P2pStatus.NS), "pcie-no-p2p"),
        (NOT_SUPPORTED, Value(P2pStatus.U), "unknown"),
        (LOST, Value(P2pStatus.OK), "unknown"),
    ],
)
def test_amd_gpus_without_xgmi(eight_gpus, xgmi, p2p, expected):
    assert classify_snapshot(amd(eight_gpus, xgmi, p2p)).topology_class == expected


def test_one_gpu_and_no_gpu(eight_gpus):
    for gpus in (eight_gpus.gpus[:1], ()):
        assert (
            classify_snapshot(replace(eight_gpus, gpus=gpus, pairs=())).topology_class
            is TopologyClass.UNKNOWN
        )
    assert (
        classify_snapshot(
            replace(eight_gpus, pairs=(), gpus=tuple(replace(g, nvlinks=LOST) for g in eight_gpus.gpus))
        ).topology_class
        is TopologyClass.UNKNOWN
    )
