from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations

import pytest

from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import GpuPair, NvLinkRemote, Vendor, XgmiLinkState, XgmiPath
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.simulate.snapshot import render_snapshot
from gpumond.topology.expected import (
    RING_MODELS,
    XGMI_RING_MODELS,
    expected_ring_busbw,
    ring_model_of,
)

LOST = Unreadable(UnreadableReason.GPU_LOST)
GB = 1e9


def snapshot_of(name, *faults):
    scenario = with_faults(load_scenario(name), [parse_fault(fault) for fault in faults])
    return render_snapshot(scenario, taken_at=datetime(2026, 11, 29, tzinfo=UTC))


def expected(snapshot, count=None):
    return expected_ring_busbw(snapshot, [gpu.uuid for gpu in snapshot.gpus[:count]])


# (host, GPUs, what was measured in GB/s, how far the model may be off)
MEASURED = [
    ("hgx-a100-8", 8, 234.9, 0.02),
    ("hgx-h200-8", 8, 367.2, 0.03),
    ("hgx-h200-8", 4, 363.3, 0.02),
    ("h200-2-vm", 2, 344.8, 0.05),
    ("hgx-b200-8", 8, 682.2, 0.02),
    ("hgx-b200-8", 4, 673.2, 0.01),
]


@pytest.mark.parametrize(("name", "gpus", "measured_gbps", "tolerance"), MEASURED)
def test_the_model_is_near_published_rings(name, gpus, measured_gbps, tolerance):
    assert expected(snapshot_of(name), gpus) == pytest.approx(measured_gbps * GB, rel=tolerance)


def test_every_constant_has_a_source():
    for model in (*RING_MODELS, *XGMI_RING_MODELS):
        assert "topo.h" in model.link_source
        assert model.fraction_source
        assert 0.9 < model.fraction < 1


@pytest.mark.parametrize(
    "name",
    [
        "dgx1-v100-cube-mesh",
        "gh200-1",
        "l40s-8-pcie",
        "rtx4080-10-no-p2p",
        "rtx4090-4-no-p2p",
        "rtx5090-2-no-p2p",
        "rtxpro6000-8-pcie",
    ],
)
def test_no_number_where_none_has_a_source(name):
    assert expected(snapshot_of(name)) is None


@pytest.mark.parametrize("gpus", [0, 1])
def test_one_rank_has_no_bus(gpus):
    assert expected(snapshot_of("hgx-h200-8"), gpus) is None


def test_the_slowest_member_decides_and_others_do_not():
    hurt = snapshot_of("hgx-h200-8", "link_down,gpu=7,link=3", "link_down,gpu=7,link=4")
    assert expected(hurt) == pytest.approx(16 / 18 * expected(snapshot_of("hgx-h200-8")))
    assert expected(hurt, 4) == expected(snapshot_of("hgx-h200-8"))


def test_a_member_that_is_not_there():
    snapshot = snapshot_of("hgx-h200-8")
    members = [gpu.uuid for gpu in snapshot.gpus]
    assert expected_ring_busbw(replace(snapshot, gpus=snapshot.gpus[:7]), members) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda gpu: replace(gpu, name=LOST),
        lambda gpu: replace(gpu, name=Value("NVIDIA A100-SXM4-80GB")),
        lambda gpu: replace(gpu, nvlinks=LOST),
        lambda gpu: replace(gpu, nvlinks=Value((replace(gpu.nvlinks.value[0], is_up=LOST), *gpu.nvlinks.value[1:]))),
        lambda gpu: replace(gpu, nvlinks=Value((replace(gpu.nvlinks.value[0], remote_type=LOST), *gpu.nvlinks.value[1:]))),
    ],
)  # fmt: skip
def test_a_fact_that_is_missing_is_not_guessed(change):
    snapshot = snapshot_of("hgx-h200-8")
    assert expected(replace(snapshot, gpus=(change(snapshot.gpus[0]), *snapshot.gpus[1:]))) is None


def test_links_between_gpus_are_not_counted():
    snapshot = snapshot_of("hgx-h200-8")
    links = tuple(
        replace(link, remote_type=Value(NvLinkRemote.GPU)) for link in snapshot.gpus[0].nvlinks.value
    )
    mixed = (replace(snapshot.gpus[0], nvlinks=Value(links)), *snapshot.gpus[1:])
    assert expected(replace(snapshot, gpus=mixed)) is None


@pytest.mark.parametrize(
    ("name", "product"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100|H200|H20"),
        ("NVIDIA H20", "H100|H200|H20"),
        ("NVIDIA B200", "B200"),
    ],
)
def test_products_with_a_model(name, product):
    assert ring_model_of(name).product == product


@pytest.mark.parametrize(
    "name", ["NVIDIA GH200 480GB", "NVIDIA GB200", "NVIDIA B300 SXM6 AC", "NVIDIA H800", "NVIDIA A800", "Tesla V100", ""]
)  # fmt: skip
def test_products_without(name):
    assert ring_model_of(name) is None


# --- xGMI --------------------------------------------------------------------------------------------------------------


def mesh_of_mi300x(gpus=8, *, partition="SPX", up=7, product="AMD Instinct MI300X"):
    """The shape that the AMD probe gives a board of eight, on the frame of a host that we have."""
    frame = snapshot_of("hgx-h200-8")
    links = (XgmiLinkState.UP,) * up + (XgmiLinkState.DOWN,) * (7 - up) + (XgmiLinkState.DISABLED,)
    path = XgmiPath(Value(15), NOT_SUPPORTED, NOT_SUPPORTED, NOT_SUPPORTED)
    members = tuple(
        replace(
            gpu,
            name=Value(product),
            nvlinks=NOT_SUPPORTED,
            fabric=NOT_SUPPORTED,
            xgmi_links=Value(links),
            compute_partition=Value(partition),
        )
        for gpu in frame.gpus[:gpus]
    )
    pairs = tuple(
        GpuPair(one.uuid, other.uuid, NOT_SUPPORTED, NOT_SUPPORTED, {}, Value(path))
        for one, other in permutations(members, 2)
    )
    return replace(frame, vendor=Vendor.AMD, gpus=members, pairs=pairs)


def test_eight_mi300x():
    assert expected(mesh_of_mi300x()) == pytest.approx(312.9 * GB, rel=0.01)
    assert expected(mesh_of_mi300x(up=6)) == pytest.approx(6 / 7 * expected(mesh_of_mi300x()))


@pytest.mark.parametrize(
    "snapshot",
    [
        mesh_of_mi300x(4),
        mesh_of_mi300x(2),
        mesh_of_mi300x(partition="CPX"),
        mesh_of_mi300x(product="AMD Instinct MI355X"),
        mesh_of_mi300x(product="AMD Instinct MI325X"),
        replace(mesh_of_mi300x(), pairs=mesh_of_mi300x().pairs[1:]),
        replace(mesh_of_mi300x(), gpus=tuple(replace(gpu, xgmi_links=LOST) for gpu in mesh_of_mi300x().gpus)),
    ],
)
def test_other_xgmi_hosts_have_no_number(snapshot):
    assert expected(snapshot) is None


def test_four_of_eight_mi300x_have_no_number():
    assert expected(mesh_of_mi300x(), 4) is None
