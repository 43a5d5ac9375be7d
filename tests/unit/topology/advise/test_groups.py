from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumond.model.topology import PathLevel
from gpumond.parsers.topology_text import parse_topology_text
from gpumond.topology.advise.groups import Group, Tier, cheap_groups, slots_of
from gpumond.topology.advise.host import AdvisedHost, GpuLink, HostGpu, Origin, host_of_text
from gpumond.topology.classify import TopologyClass

CASES = Path(__file__).parents[3] / "data" / "topology" / "cases"

# What the cases recommend, as groups; a trailing `?` where it depends on P2P that nobody has told.
RECOMMENDED = {
    "01-hgx-h100-8nic": ["0-7"],
    "02-a100-4gpu-mlx-column-names": ["0-3"],
    "03-gb200-gpu-numa-ids": ["0-3"],
    "04-8x4090-pix-islands-ansi": ["0-3?", "4-7?"],
    "05-v100-hybrid-cube-mesh": ["0-3", "4-7"],
    "06-2x5090-phb-p2p-gns": ["0", "1"],
    "07-aws-4xa10g-phb": ["0-3?"],
    "08-wsl2-3gpu-blank-affinity": ["0", "1", "2"],
    "09-azure-4xa100-pcie-nvlink-pairs": ["0-1", "2-3"],
    "10-single-rtx-pro-6000": ["0"],
    "11-mi300a-4apu-rocm-smi": ["0-3"],
    "12-2x7900xtx-amd-smi-26": ["0", "1"],
    "13-mi100-two-xgmi-hives": ["0,2-3,7", "1,4-6"],
    "14-5gpu-epyc-p2p-p-ok": ["0-4"],
    "15-h100-pairs-one-link-down-nv17": ["0-1", "2-3", "4-5", "6-7"],
    "16-amd-smi-json-6.1-keyed": ["0", "1"],
    "17-amd-smi-json-6.2-links": ["0", "1"],
    "18-power9-4xv100-numa-0-and-8": ["0-1", "2-3"],
}


def members(text):
    parts = [part.partition("-") for part in text.rstrip("?").split(",")]
    return tuple(f"GPU{n}" for first, _, last in parts for n in range(int(first), int(last or first) + 1))


def test_every_case_has_a_row():
    assert sorted(RECOMMENDED) == sorted(path.stem for path in CASES.glob("*.json"))


@pytest.mark.parametrize("case", RECOMMENDED)
def test_the_groups_that_a_knowledgeable_person_names(case):
    groups = cheap_groups(host_of_text(parse_topology_text((CASES / f"{case}.txt").read_text())))
    assert [(group.gpus, group.is_certain) for group in groups] == [
        (members(text), not text.endswith("?")) for text in RECOMMENDED[case]
    ]
    assert json.loads((CASES / f"{case}.json").read_text())["recommended_parallelism"]


def host_of(count, links=None, **changes):
    gpus = tuple(HostGpu(f"GPU{n}", n, model="H100") for n in range(count))
    named = {frozenset((f"GPU{a}", f"GPU{b}")): link for (a, b), link in (links or {}).items()}
    host = AdvisedHost(Origin.SNAPSHOT, None, gpus, named, (), TopologyClass.UNKNOWN, ())
    return replace(host, **changes)


def nvlink(count, p2p=True):
    return GpuLink(f"NV{count}", nvlinks=count, level=PathLevel.SYS, p2p=p2p)


def pcie(level, p2p=True):
    return GpuLink(level.value, level=level, p2p=p2p)


def tiers(host):
    return [(group.gpus, group.tier) for group in cheap_groups(host)]


def test_links_over_a_fabric_that_is_down_join_nothing():
    assert tiers(host_of(2, {(0, 1): nvlink(18, p2p=False)})) == [
        (("GPU0",), Tier.ALONE),
        (("GPU1",), Tier.ALONE),
    ]


@pytest.mark.parametrize(
    ("level", "tier"),
    [
        (PathLevel.PIX, Tier.SWITCH),
        (PathLevel.PXB, Tier.SWITCH),
        (PathLevel.PHB, Tier.SOCKET),
        (PathLevel.NODE, Tier.SOCKET),
    ],
)
def test_pcie_levels(level, tier):
    assert tiers(host_of(2, {(0, 1): pcie(level)})) == [(("GPU0", "GPU1"), tier)]
    assert len(tiers(host_of(2, {(0, 1): pcie(level, p2p=False)}))) == 2


def test_sockets_apart_are_never_close():
    assert len(cheap_groups(host_of(2, {(0, 1): pcie(PathLevel.SYS)}))) == 2


def test_beside_a_bridge_the_cpu_is_no_link():
    links = {pair: pcie(PathLevel.NODE) for pair in combinations(range(4), 2)} | {(1, 3): nvlink(4)}
    assert tiers(host_of(4, links)) == [
        (("GPU0",), Tier.ALONE),
        (("GPU1", "GPU3"), Tier.DIRECT),
        (("GPU2",), Tier.ALONE),
    ]


@pytest.mark.parametrize(
    ("links", "groups"),
    [
        ({(0, 1): 1, (0, 2): 4}, [("GPU0", "GPU2"), ("GPU1",)]),
        ({(0, 1): 1, (1, 2): 4}, [("GPU0",), ("GPU1", "GPU2")]),
        ({(0, 1): 4, (2, 3): 1, (0, 2): 1, (0, 3): 1}, [("GPU0", "GPU2", "GPU3"), ("GPU1",)]),
    ],
)
def test_the_better_linked_go_together(links, groups):
    host = host_of(4 if (2, 3) in links else 3, {pair: nvlink(count) for pair, count in links.items()})
    assert [group.gpus for group in cheap_groups(host)] == groups


def test_ranks_are_of_one_product_and_whole():
    host = host_of(3, dict.fromkeys(combinations(range(3), 2), nvlink(4)))
    other = replace(host, gpus=(replace(host.gpus[0], model="A100"), *host.gpus[1:]))
    assert [group.gpus for group in cheap_groups(other)] == [("GPU0",), ("GPU1", "GPU2")]
    sliced = replace(host, gpus=(replace(host.gpus[1], has_slices=True), host.gpus[0], host.gpus[2]))
    assert [group.gpus for group in cheap_groups(sliced)] == [("GPU1",), ("GPU0", "GPU2")]


@pytest.mark.parametrize(("gpus", "size"), [(1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (7, 4), (8, 8), (10, 8)])
def test_tensor_sizes_are_powers_of_two(gpus, size):
    assert Group(tuple(f"GPU{n}" for n in range(gpus)), Tier.DIRECT).largest_tensor_size == size


def test_pairs_of_a_mesh_are_cut_along_its_double_links():
    host = host_of_text(parse_topology_text((CASES / "05-v100-hybrid-cube-mesh.txt").read_text()))
    for group in cheap_groups(host):
        slots = slots_of(group, 2, host)
        assert {host.link(*slot).nvlinks for slot in slots} == {2}
        assert sorted(name for slot in slots for name in slot) == sorted(group.gpus)


def test_what_does_not_fill_a_slot_is_left_over():
    host = host_of(5, dict.fromkeys(combinations(range(5), 2), nvlink(4)))
    (group,) = cheap_groups(host)
    assert slots_of(group, 2, host) == [("GPU0", "GPU1"), ("GPU2", "GPU3")]
    assert slots_of(group, 8, host) == []


LINKS = st.sampled_from(
    [
        None,
        nvlink(1),
        nvlink(2),
        nvlink(18),
        nvlink(18, p2p=False),
        GpuLink("XGMI", is_xgmi=True),
        *(pcie(level, p2p) for level in PathLevel for p2p in (True, False, None)),
    ]
)


@st.composite
def hosts(draw, largest=10):
    count = draw(st.integers(1, largest))
    links = {pair: link for pair in combinations(range(count), 2) if (link := draw(LINKS)) is not None}
    host = host_of(count, links)
    models = st.sampled_from(["H100", "A100", None])
    return replace(
        host,
        gpus=tuple(replace(gpu, model=draw(models), has_slices=draw(st.booleans())) for gpu in host.gpus)
        if draw(st.booleans())
        else host.gpus,
    )


@settings(max_examples=150, deadline=None)
@given(hosts())
def test_groups_partition_the_gpus_and_every_pair_of_one_may_talk(host):
    groups = cheap_groups(host)
    assert sorted(name for group in groups for name in group.gpus) == sorted(gpu.name for gpu in host.gpus)
    for group in groups:
        assert (group.tier is Tier.ALONE) == (len(group.gpus) == 1)
        for pair in combinations(group.gpus, 2):
            assert host.link(*pair).p2p is not False
            assert host.link(*pair).is_direct == (group.tier is Tier.DIRECT)
        for size in (1, 2, 4, 8):
            names = [name for slot in slots_of(group, size, host) for name in slot]
            assert len(names) == len(set(names)) == len(group.gpus) // size * size
            assert set(names) <= set(group.gpus)


def test_sixty_four_gpus_take_no_time():
    host = host_of(64, dict.fromkeys(combinations(range(64), 2), nvlink(18)))
    (group,) = cheap_groups(host)
    assert len(slots_of(group, 8, host)) == 8
