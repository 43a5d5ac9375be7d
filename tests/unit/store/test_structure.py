from __future__ import annotations

from dataclasses import replace

import pytest
from history_values import NIGHT, make_gpu, make_pair, make_snapshot

from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import GpuProcess, P2pCapability, P2pStatus, PathLevel, SilentGpu
from gpumond.store.structure import structure_of

LOST = Unreadable(UnreadableReason.TIMEOUT, "no answer in 5 s")
BASE = make_snapshot()
A, B = BASE.gpus
LINK = A.nvlinks.value[0]


def with_gpu(**changes):
    return replace(BASE, gpus=(replace(A, **changes), B))


def with_link(**changes):
    return with_gpu(nvlinks=Value((replace(LINK, **changes),)))


VOLATILE = {
    "time": replace(BASE, taken_at=NIGHT.replace(year=2030), duration_seconds=9.0),
    "uptime": replace(BASE, host=replace(BASE.host, uptime_seconds=9.0)),
    "boot": replace(BASE, host=replace(BASE.host, boot_id="1111")),
    "memory used": with_gpu(memory_used_bytes=Value(5)),
    "utilisation": with_gpu(utilisation_ratio=Value(0.5)),
    "processes": with_gpu(processes=Value((GpuProcess(1, "compute", None),))),
    "performance state": with_gpu(performance_state=Value(8)),
    "ECC errors": with_gpu(ecc_errors=Value({"corrected": 1})),
    "PCIe generation at idle": with_gpu(pcie=replace(A.pcie, generation=Value(5))),
    "PCIe replays": with_gpu(pcie=replace(A.pcie, replays=Value(7))),
    "link errors": with_link(errors=Value({"crc": 50})),
    "order of the driver": replace(BASE, gpus=(B, A), pairs=BASE.pairs[::-1]),
}

STRUCTURAL = {
    "driver": replace(BASE, driver=Value("590.1")),
    "kernel": replace(BASE, host=replace(BASE.host, kernel="6.2.0")),
    "GPU gone": replace(BASE, gpus=(A,)),
    "GPU silent": replace(BASE, gpus=(A,), silent_gpus=(SilentGpu(1, B.pci_bus_id, LOST),)),
    "another GPU in the slot": replace(BASE, gpus=(A, make_gpu("c", 2))),
    "lanes": with_gpu(pcie=replace(A.pcie, width_lanes=Value(8))),
    "link down": with_link(is_up=Value(value=False)),
    "MIG": with_gpu(mig_mode=Value(value=True)),
    "no longer supported": with_gpu(ecc_mode=NOT_SUPPORTED),
    "path": replace(BASE, pairs=(make_pair("a", "b", level=Value(PathLevel.SYS)), BASE.pairs[1])),
    "P2P": replace(
        BASE, pairs=(make_pair("a", "b", p2p={P2pCapability.READ: Value(P2pStatus.NS)}), BASE.pairs[1])
    ),
}

UNREADABLE = {
    "a field": with_gpu(name=LOST),
    "a field of a link": with_link(is_up=LOST),
    "all links": with_gpu(nvlinks=LOST),
    "P2P": replace(BASE, pairs=(make_pair("a", "b", p2p={P2pCapability.READ: LOST}), BASE.pairs[1])),
    "the host": replace(BASE, host=replace(BASE.host, iommu=LOST)),
}


@pytest.mark.parametrize("snapshot", VOLATILE.values(), ids=VOLATILE)
def test_what_changes_all_the_time_is_no_structure(snapshot):
    assert structure_of(snapshot, None) == structure_of(BASE, None)


@pytest.mark.parametrize("snapshot", STRUCTURAL.values(), ids=STRUCTURAL)
def test_what_must_not_change_is(snapshot):
    base = structure_of(BASE, None)
    changed = structure_of(snapshot, base)
    assert changed != base
    assert changed.hash != base.hash


@pytest.mark.parametrize("snapshot", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_keeps_its_last_known_value(snapshot):
    base = structure_of(BASE, None)
    assert structure_of(snapshot, base) == base
    assert structure_of(snapshot, None) != base


@pytest.mark.parametrize("snapshot", UNREADABLE.values(), ids=UNREADABLE)
def test_a_value_that_is_read_for_the_first_time_is_news(snapshot):
    blind = structure_of(snapshot, None)
    assert structure_of(BASE, blind) == structure_of(BASE, None) != blind


def test_another_reason_for_not_reading_is_no_news():
    blind = structure_of(with_gpu(name=LOST), None)
    other = Unreadable(UnreadableReason.GPU_LOST, "it fell off the bus")
    assert structure_of(with_gpu(name=other), blind) == blind
