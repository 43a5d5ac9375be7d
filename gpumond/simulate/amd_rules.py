"""The rules of `gpumond.simulate.rules` that keep apart what AMD's and NVIDIA's drivers can say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

from gpumond.model.topology import P2pCapability, P2pStatus, Vendor, XgmiLinkState
from gpumond.simulate.faults import DriverMismatch, FabricInProgress, LinkErrors
from gpumond.simulate.world import Scenario

AMD_CAPABILITIES = {P2pCapability.READ, P2pCapability.WRITE, P2pCapability.ATOMICS}
XGMI_WEIGHT_OF_A_HOP = 15
COMPUTE_PARTITIONS = ("SPX", "DPX", "TPX", "QPX", "CPX")
MEMORY_PARTITIONS = ("NPS1", "NPS2", "NPS4", "NPS8")
_UUIDS = {
    Vendor.NVIDIA: re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    Vendor.AMD: re.compile(r"GPU-[0-9a-f]{16}"),
}


def one_vendor(scenario: Scenario) -> Iterator[str]:
    """A host's GPUs are of one vendor: a snapshot has one."""
    vendors = sorted({gpu.model.vendor.value for gpu in scenario.gpus})
    if len(vendors) > 1:
        yield f"the host has GPUs of {' and '.join(vendors)}"


def uuid_of_its_vendor(scenario: Scenario) -> Iterator[str]:
    """NVIDIA writes a UUID, AMD the eight bytes of the unique id."""
    for gpu in scenario.gpus:
        if not _UUIDS[gpu.model.vendor].fullmatch(gpu.uuid):
            yield f"{gpu.uuid} is no name of a GPU of {gpu.model.vendor.value}"


def amd_versions_known(scenario: Scenario) -> Iterator[str]:
    """amdsmi and ROCm are installed where AMD's GPUs are; without them only KFD would answer."""
    host = scenario.host
    if scenario.vendor is Vendor.AMD and not (host.amdsmi_version and host.rocm_version):
        yield f"amdsmi {host.amdsmi_version or '?'} and ROCm {host.rocm_version or '?'} are not both known"


def faults_of_its_vendor(scenario: Scenario) -> Iterator[str]:
    """NVML alone has library and kernel module of different versions, a fabric, and error counters of links."""
    for fault in scenario.faults:
        is_of_nvidia = isinstance(fault, DriverMismatch | FabricInProgress | LinkErrors)
        if is_of_nvidia and scenario.vendor is Vendor.AMD:
            yield f"{fault.kind} strikes a host with GPUs of AMD"


def xgmi_of_amd(scenario: Scenario) -> Iterator[str]:
    """xGMI is AMD's, and a GPU has at most the links of its product. AMD's has no NVLink."""
    for gpu in scenario.gpus:
        links = len(gpu.xgmi.links) if gpu.xgmi else 0
        if links > gpu.model.xgmi_links_max:
            yield f"GPU {gpu.pci_bus_id} has {links} xGMI links, {gpu.model.name} {gpu.model.xgmi_links_max}"
        if gpu.model.vendor is Vendor.AMD and (gpu.links or gpu.fabric):
            yield f"GPU {gpu.pci_bus_id} is AMD's and has NVLinks"


def xgmi_links_lead_away(scenario: Scenario) -> Iterator[str]:
    """Of the links of a GPU in a hive, as many are wired as the hive has other GPUs."""
    sizes = Counter(gpu.xgmi.hive_id for gpu in scenario.gpus if gpu.xgmi)
    for gpu in scenario.gpus:
        wired = sum(it is not XgmiLinkState.DISABLED for it in gpu.xgmi.links) if gpu.xgmi else 0
        if gpu.xgmi and wired < sizes[gpu.xgmi.hive_id] - 1:
            yield f"GPU {gpu.pci_bus_id} has {wired} wired xGMI links in a hive of {sizes[gpu.xgmi.hive_id]}"


def xgmi_within_a_hive(scenario: Scenario) -> Iterator[str]:
    """Two GPUs are connected by xGMI where they are of one hive, and nowhere else."""
    hives = [gpu.xgmi.hive_id if gpu.xgmi else None for gpu in scenario.gpus]
    for pair in scenario.pairs:
        if not {pair.gpu, pair.peer} <= set(range(len(hives))):
            continue
        is_one_hive = hives[pair.gpu] is not None and hives[pair.gpu] == hives[pair.peer]
        if is_one_hive != (pair.xgmi is not None):
            yield f"the hives of {pair.gpu} -> {pair.peer} are {hives[pair.gpu]} and {hives[pair.peer]}"


def xgmi_symmetric(scenario: Scenario) -> Iterator[str]:
    """An xGMI connection is the same both ways."""
    paths = {(pair.gpu, pair.peer): pair.xgmi for pair in scenario.pairs}
    for (gpu, peer), path in paths.items():
        if gpu < peer and paths.get((peer, gpu), path) != path:
            yield f"xGMI {gpu} -> {peer} is {path}, {peer} -> {gpu} is {paths[peer, gpu]}"


def xgmi_weight_is_real(scenario: Scenario) -> Iterator[str]:
    """Each physical hop weighs 15; zero where the driver does not say."""
    for pair in scenario.pairs:
        if pair.xgmi and (pair.xgmi.weight < 0 or pair.xgmi.weight % XGMI_WEIGHT_OF_A_HOP):
            yield f"xGMI {pair.gpu} -> {pair.peer} weighs {pair.xgmi.weight}"


def amd_access_is_one_answer(scenario: Scenario) -> Iterator[str]:
    """amdsmi has one question for reading and writing, and answers it with yes or no."""
    for pair in scenario.pairs:
        read, write = pair.p2p.get(P2pCapability.READ), pair.p2p.get(P2pCapability.WRITE)
        if scenario.vendor is Vendor.AMD and (read is not write or read not in (P2pStatus.OK, P2pStatus.NS)):
            yield f"{pair.gpu} -> {pair.peer} may be read: {read}, written: {write}"


def partitions_are_real(scenario: Scenario) -> Iterator[str]:
    """An AMD GPU is in one compute and one memory partition mode; others know none."""
    for gpu in scenario.gpus:
        modes = (gpu.compute_partition, gpu.memory_partition)
        known = (COMPUTE_PARTITIONS, MEMORY_PARTITIONS) if gpu.model.vendor is Vendor.AMD else (("",), ("",))
        if not all(mode in names for mode, names in zip(modes, known, strict=True)):
            yield f"GPU {gpu.pci_bus_id} has the partition modes {modes[0]!r} and {modes[1]!r}"


AMD_RULES: tuple[Callable[[Scenario], Iterator[str]], ...] = (
    one_vendor,
    uuid_of_its_vendor,
    amd_versions_known,
    faults_of_its_vendor,
    xgmi_of_amd,
    xgmi_links_lead_away,
    xgmi_within_a_hive,
    xgmi_symmetric,
    xgmi_weight_is_real,
    amd_access_is_one_answer,
    partitions_are_real,
)
