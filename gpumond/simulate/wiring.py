"""How two devices of a made-up host are connected: their place in the PCI tree, the NVLinks between them. Pure."""

from __future__ import annotations

from gpumond.model.topology import NvLinkRemote, PathLevel
from gpumond.simulate.world import ScenarioGpu


def path_level(path: tuple[str, ...], numa: int, peer_path: tuple[str, ...], peer_numa: int) -> PathLevel:
    """The level between two devices below `path` and `peer_path` (host bridge first, the device itself not in it).

    Devices of one host bridge meet at that bridge, at a switch that both hang off directly, or further up. An unknown
    NUMA node (-1) cannot prove that two host bridges share one, so they count as far apart.
    """
    common = _common_length(path, peer_path)
    if common == 0:
        is_same_node = numa == peer_numa and numa >= 0
        return PathLevel.NODE if is_same_node else PathLevel.SYS
    if common == 1:
        return PathLevel.PHB
    # A switch is an upstream port with a downstream port per device: one bridge below the meeting point is one switch.
    below = max(len(path), len(peer_path)) - common
    return PathLevel.PIX if below <= 1 else PathLevel.PXB


def links_between(gpu: ScenarioGpu, peer: ScenarioGpu) -> int:
    """Links of `gpu` that are up and lead to `peer`, directly or through switches."""
    if any(link.is_up and link.remote_type is NvLinkRemote.SWITCH for link in peer.links):
        return sum(link.is_up and link.remote_type is NvLinkRemote.SWITCH for link in gpu.links)
    return sum(link.is_up and link.peer == peer.pci_bus_id for link in gpu.links)


def _common_length(path: tuple[str, ...], peer_path: tuple[str, ...]) -> int:
    length = 0
    for ours, theirs in zip(path, peer_path, strict=False):
        if ours != theirs:
            break
        length += 1
    return length
