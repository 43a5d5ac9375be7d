"""What sysfs says of PCI devices: where they sit, what their link does, whether they sleep. No driver library needed.

Everything is readable by everyone, and a file that is missing, empty or odd is an answer, never an error. Roots are
parameters, so that tests can hand in a tree of their own.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from gpumond.model.identity import PciBusId, normalise_pci_bus_id
from gpumond.model.reading import NOT_SUPPORTED, Reading, Value
from gpumond.model.topology import PathLevel, PcieLink, Vendor
from gpumond.probe.lists import members_of_list

_VENDOR_IDS = {Vendor.NVIDIA: "0x10de", Vendor.AMD: "0x1002"}
# Display controllers of every kind, and AMD's Instinct boards, which call themselves processing accelerators.
_GPU_CLASSES = ("0x03", "0x1200")

_ASLEEP = frozenset({"suspended", "suspending"})
_FOREIGN_DRIVERS = frozenset({"vfio-pci", "pci-stub", "xen-pciback"})  # given away to a virtual machine

_NODE = re.compile(r"node(\d+)")
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")

# PCI Express transfer rate per lane, as the kernel prints it, to generation.
_GENERATION_OF_GTS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6, "128": 7}
_LANES_MAX = 32  # a device that left the bus reads 63 or 255


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One PCI device. `path` is its chain of bridges: host bridge, ports, then the device itself.

    `numa_node` is None where the firmware does not say (-1 in sysfs).
    """

    bus_id: PciBusId
    path: tuple[str, ...]
    numa_node: int | None
    has_driver: bool
    is_asleep: bool
    link: PcieLink
    iommu_group_type: str | None
    """As the kernel prints it: `identity`, `DMA`, `DMA-FQ`. None where no IOMMU translates this device."""


@dataclass(frozen=True, slots=True)
class PciInventory:
    """The GPUs of one vendor that sysfs shows, and what is needed to place them."""

    gpus: tuple[PciDevice, ...]
    cpus_of_node: dict[int, frozenset[int]]

    def gpu(self, bus_id: PciBusId) -> PciDevice | None:
        return next((device for device in self.gpus if device.bus_id == bus_id), None)


def pci_inventory(sysfs: Path, vendor: Vendor = Vendor.NVIDIA) -> PciInventory:
    return PciInventory(pci_gpus(sysfs, vendor), cpus_of_node(sysfs))


def cpus_of_node(sysfs: Path) -> dict[int, frozenset[int]]:
    """The CPUs of each NUMA node. Node ids need not be consecutive (0 and 8 on POWER9)."""
    found = {}
    for entry in _entries(sysfs / "devices/system/node"):
        match = _NODE.fullmatch(entry.name)
        if match is not None:
            found[int(match[1])] = members_of_list(text_of(entry / "cpulist"))
    return found


def pci_gpus(sysfs: Path, vendor: Vendor) -> tuple[PciDevice, ...]:
    """Every GPU of `vendor` that this host can use, ordered by PCI bus id."""
    directory = sysfs / "bus/pci/devices"
    found = [read_pci_device(entry, sysfs) for entry in _entries(directory) if _is_usable_gpu(entry, vendor)]
    return tuple(sorted((device for device in found if device is not None), key=lambda device: device.bus_id))


def read_pci_device(entry: Path, sysfs: Path) -> PciDevice | None:
    """The PCI device behind a sysfs directory or link; None where its name is no PCI bus id."""
    real = entry.resolve()
    try:
        bus_id = normalise_pci_bus_id(real.name)
    except ValueError:
        return None
    node = _integer(text_of(entry / "numa_node"))
    return PciDevice(
        bus_id=bus_id,
        path=_bridge_chain(real),
        numa_node=node if node is not None and node >= 0 else None,
        has_driver=(entry / "driver").exists(),
        is_asleep=is_asleep(entry),
        link=_pcie_link(entry),
        iommu_group_type=_iommu_group_type(entry, sysfs),
    )


def bridges_to(sysfs: Path, bus_id: PciBusId) -> tuple[PciBusId, ...]:
    """The PCI bus ids from the root port to a device, itself included; only itself where sysfs does not show it."""
    found = [bus_id]
    for part in _bridge_chain((sysfs / "bus/pci/devices" / bus_id).resolve()):
        with contextlib.suppress(ValueError):
            found.append(normalise_pci_bus_id(part))
    return tuple(dict.fromkeys(found))


def path_level(
    one: tuple[str, ...], other: tuple[str, ...], one_node: int | None, other_node: int | None
) -> PathLevel | None:
    """How far apart two devices are, from their chains of bridges; None where sysfs does not tell.

    The words are those of nvidia-smi's legend. Below a common port, one bridge on each side (the two downstream
    ports of one switch) is still "at most a single PCIe bridge".
    """
    if not one or not other:
        return None
    common = _common_length(one, other)
    if common == 0:
        if one_node is None or other_node is None:
            return None
        return PathLevel.NODE if one_node == other_node else PathLevel.SYS
    if common == 1:
        return PathLevel.PHB
    bridges_below = max(len(one), len(other)) - common - 1
    return PathLevel.PIX if bridges_below <= 1 else PathLevel.PXB


def is_asleep(device: Path) -> bool:
    """Whether a device is in runtime power management's sleep; reading from it would wake it."""
    return text_of(device / "power/runtime_status") in _ASLEEP


def text_of(path: Path) -> str:
    """The stripped content of a small file; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _is_usable_gpu(entry: Path, vendor: Vendor) -> bool:
    return (
        text_of(entry / "vendor") == _VENDOR_IDS[vendor]
        and text_of(entry / "class").startswith(_GPU_CLASSES)
        and (entry / "driver").resolve().name not in _FOREIGN_DRIVERS
    )


def _bridge_chain(real: Path) -> tuple[str, ...]:
    parts = real.parts
    start = next((at for at, part in enumerate(parts) if _HOST_BRIDGE.fullmatch(part)), None)
    return () if start is None else parts[start:]


def _common_length(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length


def _pcie_link(entry: Path) -> PcieLink:
    return PcieLink(
        generation=_generation(entry / "current_link_speed"),
        generation_max=_generation(entry / "max_link_speed"),
        width_lanes=_lanes(entry / "current_link_width"),
        width_lanes_max=_lanes(entry / "max_link_width"),
        replays=NOT_SUPPORTED,
    )


def _generation(path: Path) -> Reading[int]:
    """From `32.0 GT/s PCIe`, `8 GT/s` or, after a device has left the bus, `Unknown`."""
    rate = text_of(path).partition(" ")[0].removesuffix(".0")
    generation = _GENERATION_OF_GTS.get(rate)
    return NOT_SUPPORTED if generation is None else Value(generation)


def _lanes(path: Path) -> Reading[int]:
    lanes = _integer(text_of(path))
    return NOT_SUPPORTED if lanes is None or not 1 <= lanes <= _LANES_MAX else Value(lanes)


def _iommu_group_type(entry: Path, sysfs: Path) -> str | None:
    group = entry / "iommu_group"
    if not group.exists():
        return None
    number = group.resolve().name
    return text_of(sysfs / "kernel/iommu_groups" / number / "type") or text_of(group / "type") or "on"


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
