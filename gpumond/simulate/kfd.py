"""The KFD part of a made-up host's /sys: a node for each NUMA node, then one for each GPU, with the links between them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpumond.model.topology import P2pCapability, P2pStatus
from gpumond.probe.lists import members_of_list
from gpumond.simulate.amd_answers import RENDER_MINOR_BASE
from gpumond.simulate.amd_driver import is_in_kfd, is_shown
from gpumond.simulate.world import Scenario, ScenarioGpu, ScenarioPair

LINK_PCIE = 2
LINK_XGMI = 11
WEIGHT_PCIE = 20
_SIMDS = 1_216


def write_kfd(world: Scenario, sysfs: Path) -> None:
    nodes = sysfs / "class/kfd/kfd/topology/nodes"
    for node in world.host.numa_nodes:
        _write(
            nodes / str(node.id) / "properties",
            {"cpu_cores_count": len(members_of_list(node.cpus)), "simd_count": 0, "unique_id": 0},
        )
    for number, gpu in enumerate(world.gpus):
        if is_shown(number, world.faults):
            entry = nodes / str(_node_of(world, number))
            readable = is_in_kfd(number, world.faults)
            _write(entry / "properties", _properties(gpu) if readable else {})
            _write_links(world, number, entry)


def _node_of(world: Scenario, number: int) -> int:
    return len(world.host.numa_nodes) + number


def _properties(gpu: ScenarioGpu) -> Mapping[str, int]:
    domain, bus, rest = gpu.pci_bus_id.split(":")
    device, function = rest.split(".")
    return {
        "cpu_cores_count": 0,
        "simd_count": _SIMDS,
        "vendor_id": gpu.model.pci_device_id & 0xFFFF,
        "device_id": gpu.model.pci_device_id >> 16,
        "location_id": int(bus, 16) << 8 | int(device, 16) << 3 | int(function),
        "domain": int(domain, 16),
        "drm_render_minor": RENDER_MINOR_BASE + gpu.minor,
        "hive_id": gpu.xgmi.hive_id if gpu.xgmi else 0,
        "unique_id": int(gpu.uuid.removeprefix("GPU-"), 16),
    }


def _write_links(world: Scenario, number: int, entry: Path) -> None:
    """To the GPU's own CPU node, and to every peer that it reaches: over xGMI, or through host bridges."""
    host_node = max(world.gpus[number].numa_node, 0)
    links: dict[str, list[Mapping[str, int]]] = {
        "io_links": [_link(LINK_PCIE, _node_of(world, number), host_node, WEIGHT_PCIE, 0)],
        "p2p_links": [],
    }
    for pair in world.pairs:
        if pair.gpu == number and is_shown(pair.peer, world.faults):
            _add_link(world, pair, links)
    for directory, entries in links.items():
        for place, link in enumerate(entries):
            _write(entry / directory / str(place) / "properties", link)


def _add_link(world: Scenario, pair: ScenarioPair, links: dict[str, list[Mapping[str, int]]]) -> None:
    ends = _node_of(world, pair.gpu), _node_of(world, pair.peer)
    if pair.xgmi is not None:
        links["io_links"].append(_link(LINK_XGMI, *ends, pair.xgmi.weight, pair.xgmi.bandwidth_mbps))
    elif pair.p2p[P2pCapability.READ] is P2pStatus.OK:
        links["p2p_links"].append(_link(LINK_PCIE, *ends, 2 * WEIGHT_PCIE, 0))


def _link(kind: int, node: int, to_node: int, weight: int, bandwidth_mbps: int) -> Mapping[str, int]:
    return {
        "type": kind,
        "node_from": node,
        "node_to": to_node,
        "weight": weight,
        "min_bandwidth": bandwidth_mbps,
        "max_bandwidth": bandwidth_mbps,
    }


def _write(path: Path, properties: Mapping[str, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name} {value}\n" for name, value in properties.items()), encoding="utf-8")
