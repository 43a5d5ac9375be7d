"""Who is who: GPUs by UUID, then by PCI bus id; runs by a sortable id. Never by index."""

from __future__ import annotations

import re
from typing import NewType

GpuUuid = NewType("GpuUuid", str)
"""What CUDA_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES take: `GPU-xxxxxxxx-xxxx-...` (NVIDIA), `GPU-<16 digits>` (AMD)."""

PciBusId = NewType("PciBusId", str)
"""Normalised as sysfs prints it: `dddd:bb:dd.f`, lower case."""

RunId = NewType("RunId", str)
"""`20261129T020000Z-1a2b3c`: sorts by time, safe as a file name."""

_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?")


def normalise_pci_bus_id(text: str) -> PciBusId:
    """The sysfs form of a PCI bus id: NVML prints an eight-digit domain in upper case, sysfs four in lower.

    Raises ValueError where `text` is no PCI bus id.
    """
    match = _PCI.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"not a PCI bus id: {text!r}")
    domain, bus, device, function = match.groups()
    return PciBusId(
        f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{function or '0'}"
    )
