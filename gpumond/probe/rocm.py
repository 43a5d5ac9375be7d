"""The AMD GPUs of this host: each that answers, each that does not, and every directed pair of them.

Through amdsmi; where that cannot be imported, what the kernel driver tells in sysfs (KFD). A driver that is unusable as
a whole is one answer (`driver`), not a silent GPU for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gpumond.model.identity import PciBusId
from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import SilentGpu
from gpumond.probe import amd, amd_codes, kfd, kfd_report
from gpumond.probe.amd import AmdSmiLibrary, Handle
from gpumond.probe.amd_gpu import OpenGpu, read_bus_id, read_gpu
from gpumond.probe.amd_pairs import read_pair
from gpumond.probe.amd_place import Place
from gpumond.probe.kfd import KfdGpu
from gpumond.probe.readings import or_else, then
from gpumond.probe.report import DriverReport
from gpumond.probe.sysfs import PciDevice, PciInventory, text_of

_NO_DRIVER = "no kernel driver is bound to it: its initialisation failed, or somebody unbound it"
_ASLEEP = "in runtime suspend; reading it would wake it"


def read(sysfs: Path, pci: PciInventory, *, kernel: str) -> DriverReport:
    nodes = kfd.read_gpus(sysfs)
    with amd.opened() as library:
        if isinstance(library, AmdSmiLibrary):
            return read_with(library, pci, nodes)
        if library.reason is UnreadableReason.NO_LIBRARY and nodes:
            version = text_of(sysfs / "module/amdgpu/version") or kernel
            return kfd_report.read(pci, nodes, driver=version, library=library)
        return DriverReport(_driver_problem(library, pci), library_version=library, rocm_version=library)


def read_with(library: AmdSmiLibrary, pci: PciInventory, nodes: Mapping[PciBusId, KfdGpu]) -> DriverReport:
    """The same through a library that is open already."""
    handles = library.handles()
    if not isinstance(handles, Value) or not handles.value:
        cause = handles if isinstance(handles, Unreadable) else _nothing_shown(pci)
        return DriverReport(cause, library.version(), rocm_version=library.rocm_version())
    opened: list[OpenGpu] = []
    silent: list[SilentGpu] = []
    seen: set[PciBusId] = set()
    for index, handle in enumerate(handles.value):
        match _enter(library, handle, index, pci, nodes):
            case OpenGpu() as gpu:
                opened.append(gpu)
                seen.add(gpu.gpu.pci_bus_id)
            case SilentGpu() as gpu:
                silent.append(gpu)
                seen |= {gpu.pci_bus_id} if gpu.pci_bus_id else set()
    silent += [SilentGpu(None, it.bus_id, _absence_of(it)) for it in pci.gpus if it.bus_id not in seen]
    opened.sort(key=lambda it: it.gpu.pci_bus_id)
    places = {it.gpu.uuid: Place.of(it.gpu.pci_bus_id, pci, nodes) for it in opened}
    return DriverReport(
        driver=_driver_version(library, handles.value),
        library_version=library.version(),
        rocm_version=library.rocm_version(),
        gpus=tuple(it.gpu for it in opened),
        silent_gpus=tuple(sorted(silent, key=lambda it: it.pci_bus_id or "")),
        pairs=tuple(
            read_pair(library, one, other, (places[one.gpu.uuid], places[other.gpu.uuid]))
            for one in opened
            for other in opened
            if one is not other
        ),
    )


def _enter(
    library: AmdSmiLibrary,
    handle: Handle,
    index: int,
    pci: PciInventory,
    nodes: Mapping[PciBusId, KfdGpu],
) -> OpenGpu | SilentGpu:
    bus_id = read_bus_id(library, handle)
    if not isinstance(bus_id, Value):
        unnamed = Unreadable(UnreadableReason.DRIVER, "the driver gives GPUs no bus id")
        return SilentGpu(index, None, bus_id if isinstance(bus_id, Unreadable) else unnamed)
    place = Place.of(bus_id.value, pci, nodes)
    if place.device is not None and place.device.is_asleep:
        return SilentGpu(index, bus_id.value, Unreadable(UnreadableReason.ASLEEP, _ASLEEP))
    gpu = read_gpu(library, handle, index=index, bus_id=bus_id.value, place=place)
    return SilentGpu(index, bus_id.value, gpu) if isinstance(gpu, Unreadable) else gpu


def _driver_version(library: AmdSmiLibrary, handles: Sequence[Handle]) -> Reading[str]:
    """The first GPU's answer: there is one amdgpu for all."""
    version: Reading[str] = NOT_SUPPORTED
    for handle in handles:
        answer = library.ask("amdsmi_get_gpu_driver_info", handle, convert=lambda it: it["driver_version"])
        version = or_else(version, then(answer, amd_codes.text))
        if isinstance(version, Value):
            break
    return version


def _absence_of(device: PciDevice) -> Unreadable:
    """Why a GPU that sysfs shows is not among the library's."""
    if device.is_asleep:
        return Unreadable(UnreadableReason.ASLEEP, _ASLEEP)
    if not device.has_driver:
        return Unreadable(UnreadableReason.GPU_LOST, _NO_DRIVER)
    return Unreadable(UnreadableReason.ERROR, "amdsmi does not show this GPU")


def _nothing_shown(pci: PciInventory) -> Unreadable:
    """A library that starts and shows no GPU at all; most often the user is in the wrong groups (ROCm/amdsmi#184)."""
    shown = f"amdsmi shows none of the {len(pci.gpus)} GPUs of this host"
    if pci.gpus and not any(device.has_driver for device in pci.gpus):
        return _driver_not_loaded(pci)
    return Unreadable(
        UnreadableReason.NO_PERMISSION, f"{shown}: /dev/kfd and /dev/dri may not be ours to open"
    )


def _driver_problem(cause: Unreadable, pci: PciInventory) -> Unreadable:
    """`cause`, or the simpler one behind it."""
    if cause.reason is UnreadableReason.DRIVER and pci.gpus:
        return cause if any(device.has_driver for device in pci.gpus) else _driver_not_loaded(pci)
    return cause


def _driver_not_loaded(pci: PciInventory) -> Unreadable:
    return Unreadable(
        UnreadableReason.DRIVER_NOT_LOADED,
        f"no kernel driver is bound to the {len(pci.gpus)} GPUs of this host",
    )
