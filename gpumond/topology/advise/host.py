"""One host as advice needs it, whether a snapshot or somebody's paste told it. Pure.

Devices are named as people see them (`GPU3`). A fact that the source does not have is None; nothing is guessed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Final

from gpumond.model.identity import GpuUuid, PciBusId
from gpumond.model.reading import Reading, Value, value_or_none
from gpumond.model.topology import Gpu, GpuPair, Nic, PathLevel, Snapshot, Vendor, link_label
from gpumond.model.topology_text import TextProblemKind, TopologyText, Way
from gpumond.topology.classify import (
    TopologyClass,
    better_label,
    classify_snapshot,
    classify_text,
    p2p_of_pair,
    p2p_of_text,
)
from gpumond.topology.matrix import gpu_names, numbers_by_bus_id
from gpumond.topology.printable import printable_name

UNKNOWN_LABEL: Final = "?"
_NVLINKS = re.compile(r"NV(\d+)")
_GPU_NUMBER = re.compile(r"GPU(\d+)")


class Origin(StrEnum):
    """What told the facts of a host."""

    SNAPSHOT = "snapshot"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class PcieLimit:
    generation: int
    lanes: int


@dataclass(frozen=True, slots=True)
class HostGpu:
    """`number` is the driver's, for variables that take indices; None where the source numbers nothing."""

    name: str
    number: int | None
    uuid: GpuUuid | None = None
    model: str | None = None
    memory_bytes: int | None = None
    numa: str | None = None
    cpus: str | None = None
    pcie: PcieLimit | None = None
    has_slices: bool = False
    """MIG: what programs see is parts of this GPU, and those have no P2P."""


@dataclass(frozen=True, slots=True)
class GpuLink:
    """How two GPUs are connected, of the worse direction. `level` is None behind a label that names none."""

    label: str
    nvlinks: int = 0
    is_xgmi: bool = False
    level: PathLevel | None = None
    p2p: bool | None = None

    @property
    def is_direct(self) -> bool:
        """A link that GPUs have for each other, not the PCIe tree of the host."""
        return self.nvlinks > 0 or self.is_xgmi


@dataclass(frozen=True, slots=True)
class HostNic:
    """`is_up` is None where the source does not tell ports."""

    name: str
    is_up: bool | None
    levels: Mapping[str, PathLevel]


@dataclass(frozen=True, slots=True)
class AdvisedHost:
    origin: Origin
    vendor: Vendor | None
    gpus: tuple[HostGpu, ...]
    links: Mapping[frozenset[str], GpuLink]
    nics: tuple[HostNic, ...]
    topology_class: TopologyClass
    class_facts: tuple[str, ...]
    silent_gpus: int = 0
    iommu: str | None = None
    acs_redirects: tuple[PciBusId, ...] = ()
    """Bridges that send P2P up to the root, as far as they could be read."""

    def link(self, gpu: str, peer: str) -> GpuLink:
        return self.links.get(frozenset((gpu, peer)), GpuLink(UNKNOWN_LABEL))

    def gpu(self, name: str) -> HostGpu:
        return next(gpu for gpu in self.gpus if gpu.name == name)


def host_of_snapshot(snapshot: Snapshot) -> AdvisedHost:
    names = gpu_names(snapshot, numbers_by_bus_id(snapshot))
    classification = classify_snapshot(snapshot)
    return AdvisedHost(
        origin=Origin.SNAPSHOT,
        vendor=snapshot.vendor,
        gpus=tuple(_gpu(gpu, name) for uuid, name in names.items() if (gpu := snapshot.gpu(uuid))),
        links={
            frozenset((names[one], names[other])): _link_of_pairs(
                [pair for pair in (snapshot.pair(one, other), snapshot.pair(other, one)) if pair is not None]
            )
            for one, other in combinations(names, 2)
        },
        nics=tuple(_nic(nic, names) for nic in snapshot.nics),
        topology_class=classification.topology_class,
        class_facts=classification.facts,
        silent_gpus=len(snapshot.silent_gpus),
        iommu=value_or_none(snapshot.host.iommu),
        acs_redirects=value_or_none(snapshot.host.acs_redirects) or (),
    )


def host_of_text(topology: TopologyText) -> AdvisedHost:
    classification = classify_text(topology)
    p2p = p2p_of_text(topology)
    # A list that nvidia-smi has cut names some of the cores, and pinning to those would be wrong.
    has_whole_lists = all(problem.kind is not TextProblemKind.CPU_LIST_CUT for problem in topology.problems)
    return AdvisedHost(
        origin=Origin.TEXT,
        vendor=_vendor_of_tool(topology.tool),
        gpus=tuple(_gpu_of_text(topology, name, has_cpus=has_whole_lists) for name in topology.gpus),
        links={
            frozenset(pair): _link_of_text(topology, Way(*pair), p2p)
            for pair in combinations(topology.gpus, 2)
        },
        nics=tuple(_nic_of_text(topology, nic) for nic in topology.nics),
        topology_class=classification.topology_class,
        class_facts=classification.facts,
    )


# --- from a snapshot ---------------------------------------------------------------------------------------------------


def _gpu(gpu: Gpu, name: str) -> HostGpu:
    model = value_or_none(gpu.name)
    numa = value_or_none(gpu.numa_node)
    return HostGpu(
        name=name,
        number=gpu.index,
        uuid=GpuUuid(printable_name(gpu.uuid)),
        model=None if model is None else printable_name(model),
        memory_bytes=value_or_none(gpu.memory_total_bytes),
        numa=None if numa is None else str(numa),
        cpus=value_or_none(gpu.cpu_affinity),
        pcie=_pcie_limit(gpu),
        has_slices=gpu.mig_mode == Value(value=True),
    )


def _pcie_limit(gpu: Gpu) -> PcieLimit | None:
    """The generation that it can reach (the current one drops at idle) on the lanes that it has."""
    generation, lanes = value_or_none(gpu.pcie.generation_max), value_or_none(gpu.pcie.width_lanes)
    return PcieLimit(generation, lanes) if generation and lanes else None


def _link_of_pairs(directions: list[GpuPair]) -> GpuLink:
    if not directions:
        return GpuLink(UNKNOWN_LABEL)
    worse = min(directions, key=lambda pair: (isinstance(pair.xgmi, Value), _count(pair.nvlinks)))
    p2p = _all_true([p2p_of_pair(pair) for pair in directions])
    labels = {link_label(pair) for pair in directions}
    if UNKNOWN_LABEL in labels:
        return GpuLink(UNKNOWN_LABEL, p2p=p2p)
    return GpuLink(
        link_label(worse),
        nvlinks=_count(worse.nvlinks),
        is_xgmi=isinstance(worse.xgmi, Value),
        level=value_or_none(worse.level),
        p2p=p2p,
    )


def _count(reading: Reading[int]) -> int:
    return value_or_none(reading) or 0


def _nic(nic: Nic, names: Mapping[GpuUuid, str]) -> HostNic:
    levels = {names[uuid]: level for uuid, level in nic.levels.items() if uuid in names}
    return HostNic(printable_name(nic.name), any(nic.ports_up.values()), levels)


# --- from a text -------------------------------------------------------------------------------------------------------


def _vendor_of_tool(tool: str) -> Vendor | None:
    if tool.startswith("nvidia-smi"):
        return Vendor.NVIDIA
    return Vendor.AMD if tool.startswith(("amd-smi", "rocm-smi")) else None


def _gpu_of_text(topology: TopologyText, name: str, *, has_cpus: bool) -> HostGpu:
    number = _GPU_NUMBER.fullmatch(name)
    return HostGpu(
        name=name,
        number=int(number[1]) if number else None,
        numa=topology.numa.get(name),
        cpus=topology.cpu_affinity.get(name) if has_cpus else None,
    )


def _link_of_text(topology: TopologyText, way: Way, p2p: Mapping[Way, bool | None]) -> GpuLink:
    label = better_label(topology.links, way) or UNKNOWN_LABEL
    nvlinks = _NVLINKS.fullmatch(label)
    return GpuLink(
        label,
        nvlinks=int(nvlinks[1]) if nvlinks else 0,
        is_xgmi=label == "XGMI",
        level=_level(label),
        p2p=_all_true([p2p.get(way), p2p.get(way.back)]),
    )


def _nic_of_text(topology: TopologyText, nic: str) -> HostNic:
    levels = {gpu: _level(topology.links.get(Way(gpu, nic), "")) for gpu in topology.gpus}
    known = {gpu: level for gpu, level in levels.items() if level is not None}
    return HostNic(printable_name(topology.nic_names.get(nic, nic)), None, known)


def _level(label: str) -> PathLevel | None:
    return PathLevel(label) if label in PathLevel.__members__ else None


def _all_true(answers: Iterable[bool | None]) -> bool | None:
    """No where one way is closed; unknown where one way is not told and none is closed."""
    found = list(answers)
    if False in found:
        return False
    return None if None in found else True
