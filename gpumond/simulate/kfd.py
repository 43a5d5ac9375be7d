"""The KFD part of a made-up host's /sys: a node for each NUMA node, then one for each GPU, with the links between them."""

from __future__ import annotations

import shutil
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
GPU_IDS_BASE = 40_001
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
            _write_text(entry / "gpu_id", str(gpu_id_of(number) if readable else ""))
            _write_links(world, number, entry)
    write_kfd_processes(world, sysfs)


def write_kfd_processes(world: Scenario, sysfs: Path) -> None:
    """Each process with a file for every GPU, used or not; and none that was there before."""
    directory = sysfs / "class/kfd/kfd/proc"
    shown = [number for number in range(len(world.gpus)) if is_shown(number, world.faults)]
    used = {
        (process.pid, number): process.used_memory_bytes
        for number in shown
        for process in world.gpus[number].processes
    }
    pids = {pid for pid, _ in used}
    for entry in directory.iterdir() if directory.exists() else ():
        if int(entry.name) not in pids:
            shutil.rmtree(entry)
    directory.mkdir(parents=True, exist_ok=True)
    for pid in pids:
        for number in shown:
            _write_text(directory / f"{pid}/vram_{gpu_id_of(number)}", str(used.get((pid, number), 0)))


def gpu_id_of(number: int) -> int:
    """KFD makes it up out of the GPU's properties; only that it is one of its own matters."""
    return GPU_IDS_BASE + number


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
    _write_text(path, "\n".join(f"{name} {value}" for name, value in properties.items()))


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n" if text else "", encoding="utf-8")
