"""Samples about the GPUs, their links and their surroundings: functions of an immutable HostStatus.

A reading without a value gives no sample, never a 0 and never a NaN: could-not-read is neither a change nor green
(DESIGN rule 4). `gpu` is the number in the accepted inventory; a GPU that nobody has accepted yet has none, so its
label is empty and its UUID tells it apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from gpumond.exporter.family import Sample
from gpumond.model.identity import GpuUuid
from gpumond.model.kernel_log import KernelEventKind
from gpumond.model.reading import Reading, Unreadable, UnreadableReason, Value, value_or_none
from gpumond.model.status import HostStatus, InventoryEntry
from gpumond.model.topology import (
    Fabric,
    Gpu,
    NvLink,
    NvLinkRemote,
    P2pCapability,
    P2pStatus,
    SilentGpu,
    Snapshot,
    link_label,
)

T = TypeVar("T")
Producer = Callable[[HostStatus], Iterable[Sample]]

EXPORTED_P2P = (P2pCapability.READ, P2pCapability.WRITE, P2pCapability.NVLINK)
LINK_KIND_NVLINK = "nvlink"
MIXED_MODELS = "mixed"

XIDS_MAX = 64
"""A sick GPU has about five different ones."""

_UNKNOWN_LINK = "?"  # what link_label prints for a pair without an answer
_LOST = (UnreadableReason.GPU_LOST, UnreadableReason.RESET_REQUIRED)

# nvmlGpuFabricInfo: registration states and the status of a completed one (an nvmlReturn_t).
_FABRIC_NOT_SUPPORTED = 0
_FABRIC_COMPLETED = 3
_FABRIC_SUCCESS = 0


def gpu_numbers(status: HostStatus) -> dict[GpuUuid, str]:
    """The label `gpu` of each accepted GPU."""
    return {entry.uuid: str(entry.number) for entry in status.inventory}


def readable_snapshot(status: HostStatus) -> Snapshot | None:
    """The snapshot, or None where there is none yet or the driver as a whole gave no answer."""
    snapshot = status.snapshot
    return None if snapshot is None or isinstance(snapshot.driver, Unreadable) else snapshot


def is_present(status: HostStatus, entry: InventoryEntry) -> bool | None:
    """Whether an accepted GPU is there; None where this cannot be told."""
    snapshot = readable_snapshot(status)
    if snapshot is None:
        return None
    if snapshot.gpu(entry.uuid) is not None:
        return True
    silent = [gpu for gpu in snapshot.silent_gpus if gpu.pci_bus_id == entry.pci_bus_id]
    if silent:
        return _is_silent_present(silent[0])
    # A silent GPU without an address may be this one: it is missing only if that one is lost.
    nameless = [gpu for gpu in snapshot.silent_gpus if gpu.pci_bus_id is None]
    return None if any(gpu.cause.reason not in _LOST for gpu in nameless) else False


def _is_silent_present(silent: SilentGpu) -> bool | None:
    if silent.cause.reason is UnreadableReason.ASLEEP:
        return True
    return False if silent.cause.reason in _LOST else None


def node_info(status: HostStatus) -> Iterator[Sample]:
    snapshot = status.snapshot
    if snapshot is None:
        return
    models = {entry.name for entry in status.inventory} or {
        name for gpu in snapshot.gpus if (name := value_or_none(gpu.name))
    }
    count = len(status.inventory) or len(snapshot.gpus)
    yield (
        (
            snapshot.vendor.value if snapshot.vendor else "",
            models.pop() if len(models) == 1 else MIXED_MODELS if models else "",
            str(count),
            value_or_none(snapshot.host.driver_version) or "",
            value_or_none(snapshot.host.cuda_version) or "",
            snapshot.host.kernel,
        ),
        1,
    )


def gpus(status: HostStatus) -> Iterator[Sample]:
    snapshot = readable_snapshot(status)
    if snapshot is not None:
        yield (), len(snapshot.gpus)


def gpus_expected(status: HostStatus) -> Iterator[Sample]:
    yield (), len(status.inventory)


def gpu_present(status: HostStatus) -> Iterator[Sample]:
    for entry in status.inventory:
        present = is_present(status, entry)
        if present is not None:
            yield (str(entry.number), entry.uuid), present


def gpu_info(status: HostStatus) -> Iterator[Sample]:
    answered = {gpu.uuid: gpu for gpu in status.snapshot.gpus} if status.snapshot else {}
    for entry in status.inventory:
        gpu = answered.pop(entry.uuid, None)
        vbios = (value_or_none(gpu.vbios_version) or "") if gpu else ""
        address = gpu.pci_bus_id if gpu else entry.pci_bus_id
        yield (str(entry.number), entry.uuid, address, entry.name, vbios), 1
    for gpu in answered.values():
        yield (
            (
                "",
                gpu.uuid,
                gpu.pci_bus_id,
                value_or_none(gpu.name) or "",
                value_or_none(gpu.vbios_version) or "",
            ),
            1,
        )


def gpu_set_info(status: HostStatus) -> Iterator[Sample]:
    for gpu_set in status.gpu_sets:
        for uuid in gpu_set.uuids:
            yield (gpu_set.name, uuid), 1


def per_gpu(read: Callable[[Gpu], Reading[T]], number: Callable[[T], float | None]) -> Producer:
    """A producer of one sample a GPU; `number` answers None where the value does not apply."""

    def samples(status: HostStatus) -> Iterator[Sample]:
        for labels, gpu in _labelled_gpus(status):
            reading = read(gpu)
            value = number(reading.value) if isinstance(reading, Value) else None
            if value is not None:
                yield labels, value

    return samples


def fabric_readiness(fabric: Fabric) -> float | None:
    """1 where registration has completed without a fault, None on GPUs that have no fabric."""
    if fabric.state == _FABRIC_NOT_SUPPORTED:
        return None
    return fabric.state == _FABRIC_COMPLETED and fabric.status == _FABRIC_SUCCESS


def ecc_errors(status: HostStatus) -> Iterator[Sample]:
    for labels, gpu in _labelled_gpus(status):
        for name, count in (value_or_none(gpu.ecc_errors) or {}).items():
            yield (*labels, name), count


def topology_link_info(status: HostStatus) -> Iterator[Sample]:
    numbers = gpu_numbers(status)
    for pair in status.snapshot.pairs if status.snapshot else ():
        label = link_label(pair)
        if label != _UNKNOWN_LINK:
            ends = (numbers.get(pair.gpu, ""), numbers.get(pair.peer, ""), pair.gpu, pair.peer)
            yield (*ends, label), 1


def p2p_supported(status: HostStatus) -> Iterator[Sample]:
    numbers = gpu_numbers(status)
    for pair in status.snapshot.pairs if status.snapshot else ():
        ends = (numbers.get(pair.gpu, ""), numbers.get(pair.peer, ""), pair.gpu, pair.peer)
        for capability in EXPORTED_P2P:
            reading = pair.p2p.get(capability)
            # U says neither yes nor no: that is no answer.
            if isinstance(reading, Value) and reading.value is not P2pStatus.U:
                yield (*ends, capability.value), reading.value is P2pStatus.OK


def p2p_expected(status: HostStatus) -> Iterator[Sample]:
    numbers = gpu_numbers(status)
    for item in status.p2p_expectations:
        ends = (numbers.get(item.gpu, ""), numbers.get(item.peer, ""), item.gpu, item.peer)
        yield (*ends, item.capability.value), item.is_supported


def pcie_generation_under_load(status: HostStatus) -> Iterator[Sample]:
    numbers = gpu_numbers(status)
    for link in status.loaded_pcie_links:
        yield (numbers.get(link.uuid, ""), link.uuid), link.generation


def xid_last_timestamps(status: HostStatus) -> Iterator[Sample]:
    """Of the GPUs that are or were accepted here; the newest XIDS_MAX, since a store remembers for years."""
    by_bus_id = {entry.pci_bus_id: entry for entry in status.inventory}
    xids = [tally for tally in status.kernel_tallies if tally.kind is KernelEventKind.XID]
    for tally in xids[:XIDS_MAX]:
        entry = by_bus_id.get(tally.pci_bus_id)
        if entry is not None:
            labels = (str(entry.number), entry.uuid, tally.code, tally.level.value)
            yield labels, tally.last_at.timestamp()


def gpu_link_up(status: HostStatus) -> Iterator[Sample]:
    for labels, gpu in _labelled_gpus(status):
        for link in value_or_none(gpu.nvlinks) or ():
            if isinstance(link.is_up, Value):
                yield (*labels, str(link.link), LINK_KIND_NVLINK), link.is_up.value


def gpu_link_errors(status: HostStatus) -> Iterator[Sample]:
    """One series a link behind a switch, where a link is a cable or a switch port; else the sum over a GPU's links."""
    for labels, gpu in _labelled_gpus(status):
        links = value_or_none(gpu.nvlinks) or ()
        remotes = {value_or_none(link.remote_type) for link in links}
        if NvLinkRemote.SWITCH in remotes:
            yield from _errors_by_link(labels, links)
        elif remotes - {None}:
            yield from _errors_summed(labels, links)


def _errors_by_link(labels: tuple[str, str], links: tuple[NvLink, ...]) -> Iterator[Sample]:
    for link in links:
        for name, count in (value_or_none(link.errors) or {}).items():
            yield (*labels, str(link.link), LINK_KIND_NVLINK, name), count


def _errors_summed(labels: tuple[str, str], links: tuple[NvLink, ...]) -> Iterator[Sample]:
    # A sum over fewer links than last time would look like a counter that was reset.
    if any(isinstance(link.errors, Unreadable) for link in links):
        return
    sums: dict[str, int] = {}
    for link in links:
        for name, count in (value_or_none(link.errors) or {}).items():
            sums[name] = sums.get(name, 0) + count
    for name, count in sums.items():
        yield (*labels, "", LINK_KIND_NVLINK, name), count


def nic_info(status: HostStatus) -> Iterator[Sample]:
    for nic in status.snapshot.nics if status.snapshot else ():
        yield (nic.name, nic.pci_bus_id or "", nic.node_guid, nic.link_layer), 1


def nic_port_up(status: HostStatus) -> Iterator[Sample]:
    for nic in status.snapshot.nics if status.snapshot else ():
        for port, is_up in nic.ports_up.items():
            yield (nic.name, str(port)), is_up


def nic_gpu_link_info(status: HostStatus) -> Iterator[Sample]:
    numbers = gpu_numbers(status)
    for nic in status.snapshot.nics if status.snapshot else ():
        for uuid, level in nic.levels.items():
            yield (nic.name, numbers.get(uuid, ""), uuid, level.value), 1


def _labelled_gpus(status: HostStatus) -> Iterator[tuple[tuple[str, str], Gpu]]:
    numbers = gpu_numbers(status)
    for gpu in status.snapshot.gpus if status.snapshot else ():
        yield (numbers.get(gpu.uuid, ""), gpu.uuid), gpu
