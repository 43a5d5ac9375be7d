"""The matrix against what nvidia-smi printed on two hosts, cell by cell."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpumond.model.identity import GpuUuid, PciBusId
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import (
    Gpu,
    GpuPair,
    Host,
    Nic,
    P2pCapability,
    P2pStatus,
    PathLevel,
    PcieLink,
    SilentGpu,
    Snapshot,
    Vendor,
    XgmiPath,
)
from gpumond.topology.matrix import cells_of, link_labels, numbers_by_bus_id, render_matrix

DATA = Path(__file__).parents[2] / "data/topology"

DENIED = Unreadable(UnreadableReason.NO_PERMISSION)
LOST = Unreadable(UnreadableReason.GPU_LOST, "nvmlDeviceGetHandleByPciBusId: GPU_IS_LOST (15)")


def uuid_of(number):
    return GpuUuid(f"GPU-{number:08d}")


def bus_id_of(number):
    return PciBusId(f"0000:{number + 6:02x}:00.0")


def gpu(number, *, cpus="0-31", node=0):
    unread = dict.fromkeys(
        (
            "vbios_version", "minor_number", "module_id", "memory_total_bytes", "memory_used_bytes",
            "utilisation_ratio", "processes", "nvlinks", "fabric", "persistence_mode", "mig_mode",
            "mig_mode_pending", "ecc_mode", "ecc_mode_pending", "ecc_errors", "remapped_rows_pending",
            "remapped_rows_failure", "recovery_action", "performance_state", "gpu_numa_id",
        ),
        NOT_SUPPORTED,
    )  # fmt: skip
    return Gpu(
        pci_bus_id=bus_id_of(number),
        uuid=uuid_of(number),
        index=number,
        name=Value("NVIDIA H200"),
        pcie=PcieLink(*[NOT_SUPPORTED] * 5),
        numa_node=Value(node),
        cpu_affinity=Value(cpus),
        memory_affinity=Value(str(node)),
        **unread,
    )


NV18 = Value(18)
PHB = Value(PathLevel.PHB)
OK = Value(P2pStatus.OK)


def pair(one, other, *, nvlinks=NV18, level=PHB, p2p=OK, xgmi=NOT_SUPPORTED):
    return GpuPair(uuid_of(one), uuid_of(other), level, nvlinks, dict.fromkeys(P2pCapability, p2p), xgmi)


def snapshot(gpus, pairs=(), **rest):
    facts = {"silent_gpus": (), "nics": (), **rest}
    return Snapshot(
        taken_at=datetime(2026, 11, 29, tzinfo=UTC),
        host=Host(
            "6.8.0", "boot", 100.0, 32, NOT_SUPPORTED, Value("580"), Value("13"), Value("13.0"), Value(True)
        ),
        vendor=Vendor.NVIDIA,
        driver=Value("580"),
        gpus=tuple(gpus),
        pairs=tuple(pairs),
        duration_seconds=0.3,
        **facts,
    )


def all_pairs(count, **facts):
    return [pair(one, other, **facts) for one in range(count) for other in range(count) if one != other]


def two_gpus(**facts):
    return snapshot([gpu(0), gpu(1)], all_pairs(2, **facts))


def cells_in(text):
    """Every cell of a printed table by row and column, from nvidia-smi (tabs, escape codes) or from us."""
    lines = re.sub(r"\x1b\[\d*m", "", text).splitlines()
    first = next(at for at, line in enumerate(lines) if line.strip())
    table = lines[first : lines.index("", first)]
    separator = r"\t+" if "\t" in text else r"\s{2,}"
    columns = re.split(separator, table[0].strip())
    rows = [re.split(separator, line.strip()) for line in table[1:]]
    return {
        (row[0], column): cell.strip()
        for row in rows
        for column, cell in zip(columns, row[1:], strict=False)
        if cell.strip() != "X"
    }


def test_two_h200_agree_with_nvidia_smi_in_every_cell():
    printed = (DATA / "h200x2-topo-m.txt").read_text()
    assert cells_in(render_matrix(two_gpus())) == cells_in(printed)
    assert len(cells_in(printed)) == 2 + 2 * 3


def hgx_h100():
    """8 GPUs, each with the NIC behind its own PCIe switch; four a socket."""

    def level(one, other):
        same = PathLevel.PIX if one == other else PathLevel.NODE
        return same if one // 4 == other // 4 else PathLevel.SYS

    cpus = ("0-31,64-95", "32-63,96-127")
    nics = [
        Nic(
            name=f"mlx5_{number}",
            pci_bus_id=None,
            node_guid="",
            numa_node=Value(number // 4),
            ports_up={1: True},
            rate_bits_per_second=Value(400_000_000_000),
            link_layer="InfiniBand",
            levels={uuid_of(peer): level(number, peer) for peer in range(8)},
            nic_levels={f"mlx5_{peer}": level(number, peer) for peer in range(8) if peer != number},
        )
        for number in range(8)
    ]
    gpus = [gpu(number, cpus=cpus[number // 4], node=number // 4) for number in range(8)]
    return snapshot(gpus, all_pairs(8), nics=tuple(nics))


def test_an_hgx_h100_with_nics_agrees_with_nvidia_smi_in_every_cell():
    printed = (DATA / "hgx-h100-8nic-topo-m.txt").read_text()
    assert cells_in(render_matrix(hgx_h100())) == cells_in(printed)
    assert len(cells_in(printed)) == 16 * 15 + 8 * 3


def test_nic_names_stand_in_the_legend():
    assert "  NIC7: mlx5_7\n" in render_matrix(hgx_h100())


def test_without_nvlink_the_pcie_level_stands_in_the_cell():
    shown = two_gpus(nvlinks=NOT_SUPPORTED, level=Value(PathLevel.PIX))
    assert link_labels(shown, numbers_by_bus_id(shown)) == {"GPU0-GPU1": "PIX"}


def test_xgmi_stands_in_the_cell_and_in_the_legend():
    path = Value(XgmiPath(Value(15), NOT_SUPPORTED, NOT_SUPPORTED, NOT_SUPPORTED))
    shown = two_gpus(nvlinks=NOT_SUPPORTED, level=Value(PathLevel.SYS), xgmi=path)
    assert link_labels(shown, numbers_by_bus_id(shown)) == {"GPU0-GPU1": "XGMI"}
    assert "  XGMI = " in render_matrix(shown)


@pytest.mark.parametrize(
    "unread",
    [
        {"nvlinks": DENIED},
        {"nvlinks": NOT_SUPPORTED, "level": DENIED},
        {"nvlinks": NOT_SUPPORTED, "xgmi": DENIED},
    ],
)
def test_what_could_not_be_read_is_a_question_mark_and_not_a_guess(unread):
    shown = two_gpus(**unread)
    assert link_labels(shown, numbers_by_bus_id(shown)) == {"GPU0-GPU1": "?"}


def test_directions_that_differ_are_both_named():
    shown = snapshot([gpu(0), gpu(1)], [pair(0, 1), pair(1, 0, nvlinks=Value(17))])
    assert link_labels(shown, numbers_by_bus_id(shown)) == {"GPU0->GPU1": "NV18", "GPU1->GPU0": "NV17"}


def test_numbers_follow_the_bus_id_whatever_the_drivers_order_is():
    shown = snapshot([replace(gpu(1), index=0), replace(gpu(0), index=1)], all_pairs(2))
    assert numbers_by_bus_id(shown) == {uuid_of(0): 0, uuid_of(1): 1}
    assert re.search(r"GPU0:\s+GPU-00000000\s+0000:06:00.0\s+NVIDIA H200", render_matrix(shown))


def test_a_lost_gpu_keeps_its_number_free_and_is_named_below():
    shown = snapshot(
        [gpu(0), gpu(2)], [pair(0, 2), pair(2, 0)], silent_gpus=(SilentGpu(None, bus_id_of(1), LOST),)
    )
    text = render_matrix(shown)
    assert ("GPU0", "GPU2") in cells_in(text)
    assert re.search(r"0000:07:00.0\s+gpu lost\s+nvmlDeviceGetHandleByPciBusId", text)


def test_gpus_that_a_container_does_not_show_us_have_no_number():
    hidden = SilentGpu(None, bus_id_of(0), Unreadable(UnreadableReason.NO_PERMISSION))
    shown = snapshot([gpu(1)], silent_gpus=(hidden,))
    assert numbers_by_bus_id(shown) == {uuid_of(1): 0}


def test_numbers_of_the_accepted_inventory_are_obeyed_and_a_new_gpu_goes_by_its_bus_id():
    text = render_matrix(two_gpus(), {uuid_of(0): 5})
    assert cells_in(text)["GPU5", "0000:07:00.0"] == "NV18"


@pytest.mark.parametrize(("reading", "shown"), [(Value("0-1"), "0-1"), (NOT_SUPPORTED, "1"), (DENIED, "1")])
def test_numa_affinity_falls_back_on_the_numa_node(reading, shown):
    text = render_matrix(snapshot([replace(gpu(0, node=1), memory_affinity=reading)]))
    assert cells_in(text)["GPU0", "NUMA Affinity"] == shown


def test_affinity_that_is_unknown_says_so():
    one = replace(gpu(0), cpu_affinity=DENIED, memory_affinity=NOT_SUPPORTED, numa_node=NOT_SUPPORTED)
    cells = cells_in(render_matrix(snapshot([one])))
    assert [cells["GPU0", column] for column in ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")] == [
        "?",
        "N/A",
        "N/A",
    ]


def test_p2p_is_one_line_a_capability_with_its_exceptions():
    pairs = [*all_pairs(3)[1:], pair(0, 1, p2p=Value(P2pStatus.CNS))]
    text = render_matrix(snapshot([gpu(0), gpu(1), gpu(2)], pairs))
    assert re.search(r"read\s+OK for 5 of 6 pairs; CNS for GPU0->GPU1\n", text)
    assert re.search(r"pci\s+OK for all pairs\n", render_matrix(two_gpus()))


def test_many_exceptions_are_counted_and_not_listed():
    pairs = all_pairs(8)
    odd = [replace(it, p2p=dict.fromkeys(P2pCapability, DENIED)) for it in pairs[:20]]
    text = render_matrix(snapshot([gpu(number) for number in range(8)], [*odd, *pairs[20:]]))
    assert "OK for 36 of 56 pairs; ? for GPU0->GPU1, " in text
    assert " and 12 more\n" in text


def test_a_host_with_silent_gpus_only_shows_those():
    text = render_matrix(snapshot([], silent_gpus=(SilentGpu(3, None, LOST),)))
    assert text.startswith("Silent GPUs")
    assert "index 3" in text


def test_a_single_gpu_is_a_matrix_of_one():
    shown = snapshot([gpu(0)])
    assert cells_of(shown, numbers_by_bus_id(shown)) == {}
    assert render_matrix(shown).splitlines()[1].split()[:2] == ["GPU0", "X"]
