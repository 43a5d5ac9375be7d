"""PCIe Access Control Services of the bridges above the GPUs: whether they send P2P traffic up to the root.

Such a bridge makes P2P over PCIe slow, or hang (NVIDIA/nccl#199, NVIDIA/nccl-tests#117), while the driver still calls
it OK. The register is in the extended configuration space, which the kernel shows to root only. Layout: PCI Express
Base Specification, 7.7.11 (as <linux/pci_regs.h> has it). Reads files only, and wakes no bridge that sleeps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpumond.model.identity import PciBusId, normalise_pci_bus_id
from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, UnreadableReason, Value
from gpumond.probe.sysfs import PciInventory, is_asleep

_HEADER_BYTES: Final = 64
"""What everybody may read."""
_EXTENDED_BEGIN: Final = 0x100
_SPACE_BYTES: Final = 4096
_CAPABILITY_ACS: Final = 0x000D
_CONTROL_OFFSET: Final = 6
_REDIRECTS: Final = 0x04 | 0x08 | 0x10
"""P2P request redirect, P2P completion redirect, upstream forwarding."""


def read_redirects(sysfs: Path, pci: PciInventory) -> Reading[tuple[PciBusId, ...]]:
    """The bridges between the root and a GPU that redirect P2P, by PCI bus id. Not supported where there is no bridge."""
    bridges = sorted({name for gpu in pci.gpus for name in gpu.path[1:-1]})
    if not bridges:
        return NOT_SUPPORTED
    found = []
    for name in bridges:
        directory = sysfs / "bus/pci/devices" / name
        if is_asleep(directory):
            return Unreadable(UnreadableReason.ASLEEP, f"bridge {name} sleeps")
        space = _configuration_space(directory / "config")
        if space is None or len(space) <= _HEADER_BYTES:
            return Unreadable(UnreadableReason.NO_PERMISSION, "PCI configuration space is shown to root only")
        if control_of(space) & _REDIRECTS:
            found.append(normalise_pci_bus_id(name))
    return Value(tuple(found))


def control_of(space: bytes) -> int:
    """The ACS control register in a configuration space; 0 where the bridge has none, or where the list is broken."""
    offset, seen = _EXTENDED_BEGIN, set[int]()
    while _EXTENDED_BEGIN <= offset <= len(space) - 8 and offset not in seen:
        seen.add(offset)
        header = int.from_bytes(space[offset : offset + 4], "little")
        if header & 0xFFFF == _CAPABILITY_ACS:
            return int.from_bytes(space[offset + _CONTROL_OFFSET : offset + _CONTROL_OFFSET + 2], "little")
        offset = header >> 20
    return 0


def _configuration_space(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(_SPACE_BYTES)
    except OSError:
        return None
