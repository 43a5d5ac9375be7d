"""The NVIDIA GPUs of this host: each that answers, each that does not, and every directed pair of them.

One lost GPU spoils nothing else: each is opened by its PCI bus id, by itself. A GPU that sleeps is not opened, because
opening wakes it. A driver that is unusable as a whole is one answer (`driver`), not a silent GPU for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gpumond.model.identity import PciBusId
from gpumond.model.reading import NotSupported, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import GpuPair, SilentGpu
from gpumond.probe import nvml
from gpumond.probe.nvidia_gpu import OpenGpu, read_gpu
from gpumond.probe.nvlink import nvlinks_between
from gpumond.probe.nvml import NvmlLibrary
from gpumond.probe.nvml_codes import P2P_INDEX, driver_cause_of, p2p_status, path_level
from gpumond.probe.readings import then
from gpumond.probe.report import DriverReport
from gpumond.probe.sysfs import PciInventory


def read(pci: PciInventory, *, with_errors: bool) -> DriverReport:
    with nvml.opened() as library:
        if isinstance(library, Unreadable):
            return DriverReport(driver=library, library_version=library, cuda_version=library)
        return read_with(library, pci, with_errors=with_errors)


def read_with(library: NvmlLibrary, pci: PciInventory, *, with_errors: bool) -> DriverReport:
    """The same through a library that is open already."""
    versions = _Versions.of(library)
    count = library.ask("nvmlDeviceGetCount", convert=int)
    if not isinstance(count, Value):
        cause = count if isinstance(count, Unreadable) else driver_cause_of(0, "nvmlDeviceGetCount")
        return DriverReport(cause, versions.library, versions.cuda)
    opened: list[OpenGpu] = []
    silent: list[SilentGpu] = []
    for door in _doors(pci, count.value):
        match _enter(library, door, pci, with_errors=with_errors):
            case OpenGpu() as gpu:
                opened.append(gpu)
            case Unreadable() as cause:
                silent.append(SilentGpu(door.index, door.pci_bus_id, cause))
    opened.sort(key=lambda it: it.gpu.pci_bus_id)
    return DriverReport(
        driver=versions.driver,
        library_version=versions.library,
        cuda_version=versions.cuda,
        gpus=tuple(it.gpu for it in opened),
        silent_gpus=tuple(silent),
        pairs=tuple(
            _read_pair(library, one, other) for one in opened for other in opened if one is not other
        ),
    )


class _Versions(NamedTuple):
    driver: Reading[str]
    library: Reading[str]
    cuda: Reading[str]

    @classmethod
    def of(cls, library: NvmlLibrary) -> _Versions:
        return cls(
            library.ask("nvmlSystemGetDriverVersion", convert=str),
            library.ask("nvmlSystemGetNVMLVersion", convert=str),
            library.ask("nvmlSystemGetCudaDriverVersion_v2", convert=_cuda_version),
        )


@dataclass(frozen=True, slots=True)
class _Door:
    """A GPU that should be there: by its PCI bus id, or only by the driver's index."""

    index: int | None
    pci_bus_id: PciBusId | None
    is_asleep: bool = False


def _doors(pci: PciInventory, count: int) -> list[_Door]:
    """By PCI bus id wherever sysfs shows the GPUs. By index only where it shows fewer than the driver counts (WSL2, a
    container without sysfs) and none of them sleeps, since an index does not say which GPU it would wake.
    """
    if len(pci.gpus) < count and not any(device.is_asleep for device in pci.gpus):
        return [_Door(index, None) for index in range(count)]
    return [_Door(None, device.bus_id, device.is_asleep) for device in pci.gpus]


def _enter(
    library: NvmlLibrary, door: _Door, pci: PciInventory, *, with_errors: bool
) -> OpenGpu | Unreadable:
    if door.is_asleep:
        return Unreadable(UnreadableReason.ASLEEP, "in runtime suspend; reading it would wake it")
    if door.pci_bus_id is not None:
        handle = library.open_gpu(door.pci_bus_id)
    else:
        handle = library.open_gpu_at(door.index or 0)
    match handle:
        case Value(opened):
            return read_gpu(library, opened, pci, with_errors=with_errors)
        case Unreadable() as cause:
            return cause
        case NotSupported():
            return Unreadable(UnreadableReason.ERROR, "the driver does not know this GPU")


def _read_pair(library: NvmlLibrary, one: OpenGpu, other: OpenGpu) -> GpuPair:
    """One direction: drivers answer differently for the other."""
    level = library.ask("nvmlDeviceGetTopologyCommonAncestor", one.handle, other.handle, convert=int)
    return GpuPair(
        gpu=one.gpu.uuid,
        peer=other.gpu.uuid,
        level=then(level, path_level),
        nvlinks=nvlinks_between(one.gpu.nvlinks, other.gpu.nvlinks, other.gpu.pci_bus_id),
        p2p={
            capability: library.ask(
                "nvmlDeviceGetP2PStatus", one.handle, other.handle, index, convert=p2p_status
            )
            for capability, index in P2P_INDEX.items()
        },
    )


def _cuda_version(number: int) -> str:
    """13000 is 13.0, 12080 is 12.8."""
    return f"{number // 1000}.{number % 1000 // 10}"
