"""AMD's kernel driver in sysfs (KFD): its GPUs, who they are, and the links between them. No library needed.

ROCr reads the same files to decide what ROCR_VISIBLE_DEVICES means, so a GPU's identity comes from here. Readable by
everyone; in a container, the node of a GPU that the container may not use reads as empty, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpumond.model.identity import GpuUuid, PciBusId, normalise_pci_bus_id
from gpumond.probe.amd_codes import rocr_uuid
from gpumond.probe.sysfs import text_of

LINK_PCIE = 2
LINK_XGMI = 11
"""CRAT_IOLINK_TYPE_* of the kernel."""

_PARTITION_SHIFT = 28


@dataclass(frozen=True, slots=True)
class KfdLink:
    """One directed link; rates in 10^6 bytes/s, zero where the driver does not know them."""

    to_node: int
    kind: int
    weight: int
    bandwidth_min_mbps: int
    bandwidth_max_mbps: int


@dataclass(frozen=True, slots=True)
class KfdGpu:
    """One GPU, or one partition of a GPU."""

    node: int
    pci_bus_id: PciBusId
    unique_id: int
    hive_id: int
    render_minor: int
    links: tuple[KfdLink, ...]
    gpu_id: int = 0
    """By which KFD itself names it where it lists processes; zero where that cannot be read."""

    @property
    def uuid(self) -> GpuUuid | None:
        return rocr_uuid(self.unique_id)

    def link_to(self, peer: KfdGpu) -> KfdLink | None:
        return next((link for link in self.links if link.to_node == peer.node), None)


def read_gpus(sysfs: Path) -> dict[PciBusId, KfdGpu]:
    """Every GPU that KFD shows us, in the order of its nodes."""
    found = [_read_gpu(entry) for entry in _numbered(sysfs / "class/kfd/kfd/topology/nodes")]
    return {gpu.pci_bus_id: gpu for gpu in found if gpu is not None}


def _read_gpu(entry: Path) -> KfdGpu | None:
    properties = _properties(entry / "properties")
    if not properties.get("simd_count"):
        return None  # a CPU, or a GPU that is not ours to see
    return KfdGpu(
        node=int(entry.name),
        pci_bus_id=_bus_id(properties.get("domain", 0), properties.get("location_id", 0)),
        unique_id=properties.get("unique_id", 0),
        hive_id=properties.get("hive_id", 0),
        render_minor=properties.get("drm_render_minor", 0),
        links=tuple(
            _read_link(link / "properties")
            # io_links are direct; p2p_links lead through host bridges, and are there where P2P is allowed.
            for directory in ("io_links", "p2p_links")
            for link in _numbered(entry / directory)
        ),
        gpu_id=_gpu_id(entry),
    )


def _gpu_id(entry: Path) -> int:
    text = text_of(entry / "gpu_id").strip()
    return int(text) if text.isdecimal() else 0


def _read_link(path: Path) -> KfdLink:
    properties = _properties(path)
    return KfdLink(
        to_node=properties.get("node_to", -1),
        kind=properties.get("type", 0),
        weight=properties.get("weight", 0),
        bandwidth_min_mbps=properties.get("min_bandwidth", 0),
        bandwidth_max_mbps=properties.get("max_bandwidth", 0),
    )


def _bus_id(domain: int, location: int) -> PciBusId:
    """Bits 15-8 the bus, 7-3 the device, 2-0 the function; a partition's number stands in the highest four."""
    function = location & 7 | location >> _PARTITION_SHIFT & 7
    return normalise_pci_bus_id(
        f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{function}"
    )


def _properties(path: Path) -> Mapping[str, int]:
    """`name value` a line; a value that is no number is left out."""
    pairs = (line.split() for line in text_of(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}  # noqa: PLR2004


def _numbered(directory: Path) -> list[Path]:
    try:
        entries = [entry for entry in directory.iterdir() if entry.name.isdecimal()]
    except OSError:
        return []
    return sorted(entries, key=lambda entry: int(entry.name))
