"""One opened NVIDIA GPU, read as a whole: identity, links, placement, modes, health.

Each value stands alone: one that cannot be read leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar

from gpumond.model.identity import GpuUuid, PciBusId, normalise_pci_bus_id
from gpumond.model.reading import NOT_SUPPORTED, NotSupported, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import Gpu, PcieLink
from gpumond.probe.lists import list_of_mask
from gpumond.probe.numa import numa_node_of
from gpumond.probe.nvidia_links import read_nvlinks
from gpumond.probe.nvml import FieldId, Handle, NvmlLibrary
from gpumond.probe.readings import mapped, or_else, then
from gpumond.probe.sysfs import PciDevice, PciInventory

T = TypeVar("T")

# Linux' largest CONFIG_NR_CPUS (8192) and MAX_NUMNODES (1024): a mask that is too short is refused, one that is too
# long is not.
CPU_MASK_WORDS = 128
NODE_MASK_WORDS = 16
NODE_SCOPE = 0

_RECOVERY_ACTION: FieldId = (230, 0)

_MEMORY_INFO_V2 = 0x02000028

_ECC_ERRORS = {0: "corrected", 1: "uncorrected"}
_ECC_VOLATILE = 0

_NO_PERFORMANCE_STATE = 32

_CLOCK_SM = 1
_MILLIWATTS_PER_WATT = 1000
_HERTZ_PER_MEGAHERTZ = 1_000_000


@dataclass(frozen=True, slots=True)
class OpenGpu:
    """A GPU with its handle, good for as long as the library is open."""

    handle: Handle
    gpu: Gpu


def read_gpu(
    library: NvmlLibrary, handle: Handle, pci: PciInventory, *, with_errors: bool
) -> OpenGpu | Unreadable:
    """The GPU behind `handle`, or why it counts as silent: it has no identity, or the driver has lost it."""
    identity = _read_identity(library, handle)
    if isinstance(identity, Unreadable):
        return identity
    gpu = _read_facts(library, handle, identity, pci, with_errors=with_errors)
    lost = _loss_of(gpu)
    return OpenGpu(handle, gpu) if lost is None else lost


@dataclass(frozen=True, slots=True)
class _Identity:
    uuid: GpuUuid
    pci_bus_id: PciBusId
    index: int


def _read_identity(library: NvmlLibrary, handle: Handle) -> _Identity | Unreadable:
    uuid = library.ask("nvmlDeviceGetUUID", handle, convert=lambda it: GpuUuid(str(it)))
    pci_bus_id = library.ask(
        "nvmlDeviceGetPciInfo", handle, convert=lambda info: normalise_pci_bus_id(_text(info.busId))
    )
    index = library.ask("nvmlDeviceGetIndex", handle, convert=int)
    match uuid, pci_bus_id, index:
        case Value(uuid_value), Value(pci_value), Value(index_value):
            return _Identity(uuid_value, pci_value, index_value)
        case _:
            causes = [it for it in (uuid, pci_bus_id, index) if isinstance(it, Unreadable)]
            return (
                causes[0]
                if causes
                else Unreadable(UnreadableReason.DRIVER, "the driver gives GPUs no identity")
            )


def _read_facts(
    library: NvmlLibrary, handle: Handle, identity: _Identity, pci: PciInventory, *, with_errors: bool
) -> Gpu:
    def ask(call: str, *arguments: Any, convert: Callable[[Any], T]) -> Reading[T]:
        return library.ask(f"nvmlDeviceGet{call}", handle, *arguments, convert=convert)

    device = pci.gpu(identity.pci_bus_id)
    memory = _read_memory(library, handle)
    mig = ask("MigMode", convert=_pair_of_bools)
    ecc = ask("EccMode", convert=_pair_of_bools)
    rows = ask("RemappedRows", convert=lambda it: (bool(it[2]), bool(it[3])))
    cpu_affinity = then(ask("CpuAffinity", CPU_MASK_WORDS, convert=list_of_mask), _unless_empty)
    memory_affinity = then(
        ask("MemoryAffinity", NODE_MASK_WORDS, NODE_SCOPE, convert=list_of_mask), _unless_empty
    )
    return Gpu(
        pci_bus_id=identity.pci_bus_id,
        uuid=identity.uuid,
        index=identity.index,
        name=ask("Name", convert=_text),
        vbios_version=ask("VbiosVersion", convert=_text),
        minor_number=ask("MinorNumber", convert=int),
        module_id=ask("ModuleId", convert=int),
        memory_total_bytes=mapped(memory, itemgetter(0)),
        memory_used_bytes=mapped(memory, itemgetter(1)),
        utilisation_ratio=ask("UtilizationRates", convert=lambda it: it.gpu / 100),
        processes=library.processes(handle),
        pcie=_read_pcie(library, handle, device),
        nvlinks=read_nvlinks(library, handle, with_errors=with_errors),
        fabric=library.fabric(handle),
        numa_node=numa_node_of(
            device.numa_node if device else None, memory_affinity, cpu_affinity, pci.cpus_of_node
        ),
        gpu_numa_id=ask("NumaNodeId", convert=int),
        cpu_affinity=cpu_affinity,
        memory_affinity=memory_affinity,
        persistence_mode=ask("PersistenceMode", convert=bool),
        mig_mode=mapped(mig, itemgetter(0)),
        mig_mode_pending=mapped(mig, itemgetter(1)),
        ecc_mode=mapped(ecc, itemgetter(0)),
        ecc_mode_pending=mapped(ecc, itemgetter(1)),
        ecc_errors=_read_ecc_errors(library, handle),
        remapped_rows_pending=mapped(rows, itemgetter(0)),
        remapped_rows_failure=mapped(rows, itemgetter(1)),
        recovery_action=library.fields(handle, [_RECOVERY_ACTION])[_RECOVERY_ACTION],
        performance_state=then(ask("PerformanceState", convert=int), _unless_no_performance_state),
        power_limit_watts=ask(
            "EnforcedPowerLimit", convert=lambda milliwatts: milliwatts / _MILLIWATTS_PER_WATT
        ),
        sm_clock_limit_hertz=ask(
            "ApplicationsClock", _CLOCK_SM, convert=lambda megahertz: int(megahertz) * _HERTZ_PER_MEGAHERTZ
        ),
    )


def _read_memory(library: NvmlLibrary, handle: Handle) -> Reading[tuple[int, int]]:
    """Total and used. The first struct counts what the driver reserves for itself as used: 615 MiB of an idle H200."""

    def ask(*version: int) -> Reading[tuple[int, int]]:
        return library.ask(
            "nvmlDeviceGetMemoryInfo", handle, *version, convert=lambda it: (int(it.total), int(it.used))
        )

    reading = ask(_MEMORY_INFO_V2)
    return ask() if isinstance(reading, NotSupported) else reading


def _read_pcie(library: NvmlLibrary, handle: Handle, device: PciDevice | None) -> PcieLink:
    """From NVML; where that has no answer, sysfs has the same values."""

    def ask(call: str) -> Reading[int]:
        return library.ask(call, handle, convert=int)

    link = PcieLink(
        generation=ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        generation_max=ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        width_lanes=ask("nvmlDeviceGetCurrPcieLinkWidth"),
        width_lanes_max=ask("nvmlDeviceGetMaxPcieLinkWidth"),
        replays=ask("nvmlDeviceGetPcieReplayCounter"),
    )
    if device is None:
        return link
    return PcieLink(
        generation=or_else(link.generation, device.link.generation),
        generation_max=or_else(link.generation_max, device.link.generation_max),
        width_lanes=or_else(link.width_lanes, device.link.width_lanes),
        width_lanes_max=or_else(link.width_lanes_max, device.link.width_lanes_max),
        replays=link.replays,
    )


def _read_ecc_errors(library: NvmlLibrary, handle: Handle) -> Reading[dict[str, int]]:
    counts: dict[str, int] = {}
    for kind, name in _ECC_ERRORS.items():
        count = library.ask("nvmlDeviceGetTotalEccErrors", handle, kind, _ECC_VOLATILE, convert=int)
        if not isinstance(count, Value):
            return count
        counts[name] = count.value
    return Value(counts)


def _loss_of(gpu: Gpu) -> Unreadable | None:
    """Why this GPU is gone, though some of its values still came out of the driver's memory."""
    live = (
        gpu.memory_used_bytes,
        gpu.utilisation_ratio,
        gpu.performance_state,
        gpu.pcie.replays,
        gpu.ecc_errors,
    )
    causes = [reading for reading in live if isinstance(reading, Unreadable)]
    return next((cause for cause in causes if cause.reason is UnreadableReason.GPU_LOST), None)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _pair_of_bools(modes: Any) -> tuple[bool, bool]:
    current, pending = modes
    return bool(current), bool(pending)


def _unless_empty(numbers: str) -> Reading[str]:
    """An empty mask (WSL2) means that the driver does not say, not that no CPU is near."""
    return Value(numbers) if numbers else NOT_SUPPORTED


def _unless_no_performance_state(state: int) -> Reading[int]:
    return NOT_SUPPORTED if state == _NO_PERFORMANCE_STATE else Value(state)
