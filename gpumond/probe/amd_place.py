"""Where an AMD GPU sits, from sysfs alone: its PCI device, its KFD node, its NUMA node. The same with and without amdsmi."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpumond.model.identity import PciBusId
from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, Value
from gpumond.model.topology import PathLevel
from gpumond.probe.kfd import KfdGpu
from gpumond.probe.lists import list_of_members
from gpumond.probe.sysfs import PciDevice, PciInventory, path_level


class Place(NamedTuple):
    device: PciDevice | None
    node: KfdGpu | None
    cpus_of_node: Mapping[int, frozenset[int]]

    @classmethod
    def of(cls, bus_id: PciBusId, pci: PciInventory, nodes: Mapping[PciBusId, KfdGpu]) -> Place:
        return cls(device_of(bus_id, pci), nodes.get(bus_id), pci.cpus_of_node)

    def numa_node(self, driver_node: Reading[int | None] = NOT_SUPPORTED) -> Reading[int]:
        """Sysfs first, then the driver; either may not know."""
        if self.device is not None and self.device.numa_node is not None:
            return Value(self.device.numa_node)
        if isinstance(driver_node, Unreadable):
            return driver_node
        known = driver_node.value if isinstance(driver_node, Value) else None
        return NOT_SUPPORTED if known is None else Value(known)

    def cpu_affinity(self, node: Reading[int]) -> Reading[str]:
        """The CPUs of the GPU's NUMA node: the kernel's own answer, and the same with every release of amdsmi."""
        cpus = self.cpus_of_node.get(node.value) if isinstance(node, Value) else None
        return Value(list_of_members(cpus)) if cpus else NOT_SUPPORTED

    def render_minor(self) -> Reading[int]:
        """The number in /dev/dri/renderD<N>."""
        return Value(self.node.render_minor) if self.node and self.node.render_minor else NOT_SUPPORTED

    def level_to(self, peer: Place) -> Reading[PathLevel]:
        if self.device is None or peer.device is None:
            return NOT_SUPPORTED
        one, other = self.device, peer.device
        level = path_level(one.path, other.path, one.numa_node, other.numa_node)
        return NOT_SUPPORTED if level is None else Value(level)


def device_of(bus_id: PciBusId, pci: PciInventory) -> PciDevice | None:
    """The PCI device; that of the whole board for a partition, which sysfs does not show (`.1`, `.2`, ...)."""
    return pci.gpu(bus_id) or pci.gpu(PciBusId(f"{bus_id.partition('.')[0]}.0"))
