"""Which GPUs must be idle so that some of them can be measured. Pure: it reads a snapshot.

A job on a GPU below the same PCIe switch shares its uplink, so it is disturbed, and disturbs. Behind NVSwitch every
GPU shares the switches: there the whole board must be idle, unless the operator has said that a sweep may run beside
jobs (`beside_jobs`), in a series of its own.
"""

from __future__ import annotations

from collections.abc import Collection

from gpumond.model.identity import GpuUuid
from gpumond.model.reading import Unreadable, Value
from gpumond.model.topology import Gpu, GpuPair, NvLinkRemote, PathLevel, Snapshot

_SWITCHED = frozenset({PathLevel.PIX, PathLevel.PXB})


def guard_scope(
    snapshot: Snapshot, uuids: Collection[GpuUuid], *, beside_jobs: bool = False
) -> tuple[GpuUuid, ...]:
    """`uuids` and all that share a PCIe switch or, unless `beside_jobs`, an NVSwitch with one of them; by PCI bus id."""
    members = set(uuids) | {
        pair.peer for pair in snapshot.pairs if pair.gpu in uuids and _shares_switch(pair)
    }
    if not beside_jobs:
        switched = {gpu.uuid for gpu in snapshot.gpus if _is_behind_nvswitch(gpu)}
        if switched & set(uuids):
            members |= switched
    ordered = sorted(snapshot.gpus, key=lambda gpu: gpu.pci_bus_id)
    return tuple(gpu.uuid for gpu in ordered if gpu.uuid in members)


def _shares_switch(pair: GpuPair) -> bool:
    """A path that cannot be read may lead through a switch."""
    if isinstance(pair.level, Unreadable):
        return True
    return isinstance(pair.level, Value) and pair.level.value in _SWITCHED


def _is_behind_nvswitch(gpu: Gpu) -> bool:
    if not isinstance(gpu.nvlinks, Value):
        return isinstance(gpu.nvlinks, Unreadable)
    return any(
        isinstance(link.remote_type, Value) and link.remote_type.value is NvLinkRemote.SWITCH
        for link in gpu.nvlinks.value
    )
