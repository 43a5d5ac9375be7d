"""Worlds that no driver could produce, one named rule each. A fake that answers nonsense proves nothing.

A rule is a function of a scenario that yields a sentence for every contradiction it finds. `check` runs them all.
Faults that change the hardware are judged by what they leave behind: apply them first (`gpumond.simulate.hardware`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, get_args

from gpumond.model.topology import NvLinkRemote, P2pCapability, P2pStatus, Vendor, XgmiLinkState
from gpumond.probe.lists import members_of_list
from gpumond.simulate import amd_calls
from gpumond.simulate.amd_rules import AMD_CAPABILITIES, AMD_RULES
from gpumond.simulate.faults import (
    CallCrashes,
    CallFails,
    CallHangs,
    FabricInProgress,
    GpuFault,
    LinkDown,
    LinkErrors,
    NicDown,
    NotSupported,
    PcieWidth,
)
from gpumond.simulate.nvml_calls import symbols_of
from gpumond.simulate.wiring import links_between, path_level
from gpumond.simulate.world import NUMA_UNKNOWN, Scenario, ScenarioGpu, ScenarioNic

PCIE_WIDTHS = (1, 2, 4, 8, 16)
FABRIC_STATES = (0, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class Violation:
    """One contradiction in a scenario, and the rule that found it."""

    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


Rule: TypeAlias = Callable[[Scenario], Iterator[str]]


def unique_uuids(scenario: Scenario) -> Iterator[str]:
    """A UUID names one GPU."""
    for uuid in _repeated(gpu.uuid for gpu in scenario.gpus):
        yield f"two GPUs have the UUID {uuid}"


def unique_pci_bus_ids(scenario: Scenario) -> Iterator[str]:
    """A PCI bus id is one device: GPU, NIC, NVSwitch or bridge."""
    devices = [gpu.pci_bus_id for gpu in scenario.gpus]
    devices += [nic.pci_bus_id for nic in scenario.nics] + list(scenario.nvswitches)
    bridges = {bridge for device in _devices(scenario) for bridge in device.path[1:]}
    for bus_id in _repeated([*devices, *bridges]):
        yield f"two devices have the bus id {bus_id}"


def unique_minor_numbers(scenario: Scenario) -> Iterator[str]:
    """/dev/nvidiaN belongs to one GPU."""
    for minor in _repeated(gpu.minor for gpu in scenario.gpus):
        yield f"two GPUs have the minor number {minor}"


def unique_module_ids(scenario: Scenario) -> Iterator[str]:
    """An SXM socket holds one module."""
    for module in _repeated(gpu.module_id for gpu in scenario.gpus if gpu.module_id is not None):
        yield f"two GPUs sit in module {module}"


def unique_nic_names(scenario: Scenario) -> Iterator[str]:
    """The kernel names an RDMA device once."""
    for name in _repeated(nic.name for nic in scenario.nics):
        yield f"two NICs are called {name}"


def numa_cpus_exist(scenario: Scenario) -> Iterator[str]:
    """Every CPU belongs to one NUMA node, and no node has a CPU that the host does not have."""
    cpus = [cpu for node in scenario.host.numa_nodes for cpu in members_of_list(node.cpus)]
    for cpu in _repeated(cpus):
        yield f"CPU {cpu} is in two NUMA nodes"
    for cpu in sorted(set(cpus)):
        if cpu >= scenario.host.cpu_count:
            yield f"CPU {cpu} is beyond the host's {scenario.host.cpu_count}"


def numa_node_exists(scenario: Scenario) -> Iterator[str]:
    """A device's NUMA node is one of the host's, or unknown to sysfs."""
    known = {node.id for node in scenario.host.numa_nodes} | {NUMA_UNKNOWN}
    for gpu in scenario.gpus:
        for node in {gpu.numa_node, gpu.memory_node} - known:
            yield f"GPU {gpu.pci_bus_id} is on NUMA node {node}, which the host does not have"
    for nic in scenario.nics:
        if nic.numa_node not in known:
            yield f"NIC {nic.name} is on NUMA node {nic.numa_node}, which the host does not have"


def memory_node_agrees(scenario: Scenario) -> Iterator[str]:
    """The driver may know a NUMA node that sysfs does not, but the two do not contradict each other."""
    for gpu in scenario.gpus:
        if gpu.numa_node not in (NUMA_UNKNOWN, gpu.memory_node):
            yield f"GPU {gpu.pci_bus_id}: sysfs says node {gpu.numa_node}, the driver {gpu.memory_node}"


def host_bridge_has_one_node(scenario: Scenario) -> Iterator[str]:
    """A host bridge is part of one socket, and everything below it too."""
    nodes = {bridge.name: bridge.numa_node for bridge in scenario.host.host_bridges}
    for device in _devices(scenario):
        if nodes.get(device.path[0], NUMA_UNKNOWN) != device.numa_node:
            yield (
                f"{device.pci_bus_id} is on NUMA node {device.numa_node}, "
                f"its host bridge {device.path[0]} on {nodes.get(device.path[0])}"
            )


def pcie_width_is_real(scenario: Scenario) -> Iterator[str]:
    """A link has 1, 2, 4, 8 or 16 lanes."""
    for gpu in scenario.gpus:
        if gpu.pcie_width not in PCIE_WIDTHS:
            yield f"GPU {gpu.pci_bus_id} has a PCIe link of {gpu.pcie_width} lanes"


def pcie_within_maximum(scenario: Scenario) -> Iterator[str]:
    """A link is never wider or faster than its GPU can be."""
    for gpu in scenario.gpus:
        if gpu.pcie_width > gpu.model.pcie_width_max:
            yield f"GPU {gpu.pci_bus_id} has {gpu.pcie_width} lanes of at most {gpu.model.pcie_width_max}"
        if not 1 <= gpu.pcie_generation <= gpu.model.pcie_generation_max:
            yield (
                f"GPU {gpu.pci_bus_id} runs PCIe generation {gpu.pcie_generation} "
                f"of at most {gpu.model.pcie_generation_max}"
            )


def memory_within_total(scenario: Scenario) -> Iterator[str]:
    """A GPU does not use more memory than it has, nor its processes more than the GPU does."""
    for gpu in scenario.gpus:
        if gpu.memory_used_bytes + gpu.model.memory_reserved_bytes > gpu.model.memory_total_bytes:
            yield f"GPU {gpu.pci_bus_id} uses {gpu.memory_used_bytes} of {gpu.model.memory_total_bytes} bytes"
        held = sum(process.used_memory_bytes for process in gpu.processes)
        if held > gpu.memory_used_bytes:
            yield f"the processes on GPU {gpu.pci_bus_id} hold {held} bytes of {gpu.memory_used_bytes}"


def link_count_within_model(scenario: Scenario) -> Iterator[str]:
    """A GPU has at most the NVLinks of its product."""
    for gpu in scenario.gpus:
        if len(gpu.links) > gpu.model.nvlinks_max:
            yield f"GPU {gpu.pci_bus_id} has {len(gpu.links)} NVLinks, {gpu.model.name} {gpu.model.nvlinks_max}"


def link_numbers_consecutive(scenario: Scenario) -> Iterator[str]:
    """NVLinks are numbered from 0 without gaps."""
    for gpu in scenario.gpus:
        if [link.link for link in gpu.links] != list(range(len(gpu.links))):
            yield f"GPU {gpu.pci_bus_id} numbers its NVLinks {[link.link for link in gpu.links]}"


def link_peer_exists(scenario: Scenario) -> Iterator[str]:
    """An NVLink ends at a GPU or an NVSwitch of this host, of the type that it claims."""
    ends = {gpu.pci_bus_id: NvLinkRemote.GPU for gpu in scenario.gpus}
    ends |= dict.fromkeys(scenario.nvswitches, NvLinkRemote.SWITCH)
    for gpu in scenario.gpus:
        for link in gpu.links:
            if link.peer is not None and ends.get(link.peer) is not link.remote_type:
                yield (
                    f"NVLink {link.link} of GPU {gpu.pci_bus_id} leads to {link.peer}, "
                    f"which is no {link.remote_type.name} of this host"
                )


def link_leaves_its_gpu(scenario: Scenario) -> Iterator[str]:
    """No NVLink leads back to its own GPU."""
    for gpu in scenario.gpus:
        for link in gpu.links:
            if link.peer == gpu.pci_bus_id:
                yield f"NVLink {link.link} of GPU {gpu.pci_bus_id} leads to itself"


def links_symmetric(scenario: Scenario) -> Iterator[str]:
    """Two GPUs see the same number of links between them, up as well as all of them."""
    for number, gpu in enumerate(scenario.gpus):
        for peer in scenario.gpus[number + 1 :]:
            for word, counted in (("NVLinks", False), ("NVLinks up", True)):
                ours = sum(it.peer == peer.pci_bus_id and it.is_up >= counted for it in gpu.links)
                theirs = sum(it.peer == gpu.pci_bus_id and it.is_up >= counted for it in peer.links)
                if ours != theirs:
                    yield f"{gpu.pci_bus_id} has {ours} {word} to {peer.pci_bus_id}, the other way {theirs}"


def links_of_one_kind(scenario: Scenario) -> Iterator[str]:
    """A board wires a GPU's NVLinks to switches or to GPUs, never to both."""
    for gpu in scenario.gpus:
        kinds = {link.remote_type for link in gpu.links}
        if len(kinds) > 1:
            yield f"GPU {gpu.pci_bus_id} has NVLinks to {' and '.join(sorted(kind.name for kind in kinds))}"


def fabric_needs_nvswitch(scenario: Scenario) -> Iterator[str]:
    """Only a GPU whose NVLinks end at switches registers with a fabric, and only a model that knows how."""
    for gpu in scenario.gpus:
        if gpu.fabric is None:
            continue
        if not any(link.remote_type is NvLinkRemote.SWITCH for link in gpu.links):
            yield f"GPU {gpu.pci_bus_id} has a fabric state without an NVSwitch"
        if not gpu.model.has_fabric:
            yield f"GPU {gpu.pci_bus_id} has a fabric state, and {gpu.model.name} knows none"


def fabric_state_is_real(scenario: Scenario) -> Iterator[str]:
    """The fabric state is one of NVML's four, and its status means something only when completed."""
    for gpu in scenario.gpus:
        if gpu.fabric is not None and gpu.fabric.state not in FABRIC_STATES:
            yield f"GPU {gpu.pci_bus_id} has the fabric state {gpu.fabric.state}"


def every_pair_once(scenario: Scenario) -> Iterator[str]:
    """The driver answers for each ordered pair of different GPUs, and for no other."""
    count = len(scenario.gpus)
    expected = Counter((a, b) for a in range(count) for b in range(count) if a != b)
    found = Counter((pair.gpu, pair.peer) for pair in scenario.pairs)
    for pair in sorted((expected - found) + (found - expected)):
        yield f"the pair {pair[0]} -> {pair[1]} occurs {found[pair]} times"


def levels_symmetric(scenario: Scenario) -> Iterator[str]:
    """The PCIe path is the same both ways."""
    levels = {(pair.gpu, pair.peer): pair.level for pair in scenario.pairs}
    for (gpu, peer), level in levels.items():
        back = levels.get((peer, gpu), level)
        if gpu < peer and back is not level:
            yield f"{gpu} -> {peer} is {level}, {peer} -> {gpu} is {back}"


def level_follows_pci_tree(scenario: Scenario) -> Iterator[str]:
    """PIX, PXB and PHB share a host bridge; NODE and SYS do not, and differ by the NUMA node."""
    for pair in scenario.pairs:
        if not {pair.gpu, pair.peer} <= set(range(len(scenario.gpus))):
            continue  # every_pair_once says so
        gpu, peer = scenario.gpus[pair.gpu], scenario.gpus[pair.peer]
        level = path_level(gpu.path, gpu.numa_node, peer.path, peer.numa_node)
        if pair.level is not level:
            yield f"{pair.gpu} -> {pair.peer} is {pair.level}, the PCI tree says {level}"


def p2p_nvlink_needs_links(scenario: Scenario) -> Iterator[str]:
    """P2P over NVLink is OK only where NVLinks are up."""
    for pair in scenario.pairs:
        if not {pair.gpu, pair.peer} <= set(range(len(scenario.gpus))):
            continue
        is_ok = pair.p2p.get(P2pCapability.NVLINK) is P2pStatus.OK
        if is_ok and not links_between(scenario.gpus[pair.gpu], scenario.gpus[pair.peer]):
            yield f"P2P over NVLink {pair.gpu} -> {pair.peer} is OK without a link"


def p2p_answers_complete(scenario: Scenario) -> Iterator[str]:
    """The driver has an answer for every capability of a pair that its vendor knows."""
    for pair in scenario.pairs:
        expected = set(P2pCapability)
        if scenario.vendor is Vendor.AMD:
            expected = AMD_CAPABILITIES if pair.xgmi else AMD_CAPABILITIES - {P2pCapability.ATOMICS}
        for capability in sorted(expected - set(pair.p2p)):
            yield f"the pair {pair.gpu} -> {pair.peer} has no answer for P2P {capability}"


def driver_and_library_agree(scenario: Scenario) -> Iterator[str]:
    """NVML's version ends in the driver's: they are installed together. A mismatch is a fault, not a world."""
    host = scenario.host
    if scenario.vendor is Vendor.NVIDIA and not host.nvml_version.endswith(f".{host.driver_version}"):
        yield f"NVML {host.nvml_version} does not belong to driver {host.driver_version}"


def curves_are_possible(scenario: Scenario) -> Iterator[str]:
    """A benchmark has a bandwidth, takes some time, and scatters by less than its own value."""
    for curve in scenario.curves:
        positive = (curve.peak_gbps, curve.half_size_bytes, curve.steepness, curve.latency_us)
        if min(positive) <= 0 or not 0 <= curve.noise_cv < 1:
            yield f"the curve of {curve.collective} from {curve.min_ranks} ranks is impossible"


def fault_targets_exist(scenario: Scenario) -> Iterator[str]:
    """A fault strikes a GPU, a link or a NIC that is there."""
    for fault in scenario.faults:
        if (
            isinstance(fault, get_args(GpuFault))
            and fault.gpu is not None
            and not 0 <= fault.gpu < len(scenario.gpus)
        ):
            yield f"{fault.kind} strikes GPU {fault.gpu} of {len(scenario.gpus)}"
        elif isinstance(fault, LinkDown | LinkErrors):
            gpu = scenario.gpus[fault.gpu]
            links = len(gpu.links)
            if isinstance(fault, LinkDown) and gpu.xgmi is not None:
                links = len(gpu.xgmi.links)
            if not 0 <= fault.link < links:
                yield f"{fault.kind} strikes link {fault.link} of {links} on GPU {fault.gpu}"
            elif gpu.xgmi is not None and gpu.xgmi.links[fault.link] is XgmiLinkState.DISABLED:
                yield f"{fault.kind} strikes xGMI link {fault.link} of GPU {fault.gpu}, which is not wired"
        elif isinstance(fault, PcieWidth):
            gpu = scenario.gpus[fault.gpu]
            if fault.lanes not in PCIE_WIDTHS or fault.lanes > gpu.model.pcie_width_max:
                yield f"{fault.kind} leaves GPU {fault.gpu} {fault.lanes} lanes"
        elif isinstance(fault, NicDown) and fault.nic not in {nic.name for nic in scenario.nics}:
            yield f"{fault.kind} strikes NIC {fault.nic!r}, which the host does not have"
        elif isinstance(fault, FabricInProgress) and not any(gpu.fabric for gpu in scenario.gpus):
            yield f"{fault.kind} strikes a host without a fabric"


def fault_calls_exist(scenario: Scenario) -> Iterator[str]:
    """A fault of a call names one that the library has."""
    for fault in scenario.faults:
        if not isinstance(fault, CallFails | NotSupported | CallHangs | CallCrashes):
            continue
        is_known = (
            fault.call in amd_calls.CALLS if scenario.vendor is Vendor.AMD else bool(symbols_of(fault.call))
        )
        if not is_known:
            yield f"{fault.kind} strikes {fault.call!r}, which is no call of the fake library"


RULES: tuple[Rule, ...] = (
    unique_uuids,
    unique_pci_bus_ids,
    unique_minor_numbers,
    unique_module_ids,
    unique_nic_names,
    numa_cpus_exist,
    numa_node_exists,
    memory_node_agrees,
    host_bridge_has_one_node,
    pcie_width_is_real,
    pcie_within_maximum,
    memory_within_total,
    link_count_within_model,
    link_numbers_consecutive,
    link_peer_exists,
    link_leaves_its_gpu,
    links_symmetric,
    links_of_one_kind,
    fabric_needs_nvswitch,
    fabric_state_is_real,
    every_pair_once,
    levels_symmetric,
    level_follows_pci_tree,
    p2p_nvlink_needs_links,
    p2p_answers_complete,
    driver_and_library_agree,
    curves_are_possible,
    fault_targets_exist,
    fault_calls_exist,
    *AMD_RULES,
)


def check(scenario: Scenario) -> tuple[Violation, ...]:
    """Every contradiction in `scenario`, by rule; none where such a host could exist."""
    return tuple(Violation(rule.__name__, message) for rule in RULES for message in rule(scenario))


def _devices(scenario: Scenario) -> tuple[ScenarioGpu | ScenarioNic, ...]:
    return (*scenario.gpus, *scenario.nics)


def _repeated(values: Iterable[Hashable]) -> list[Hashable]:
    return [value for value, count in Counter(values).items() if count > 1]
