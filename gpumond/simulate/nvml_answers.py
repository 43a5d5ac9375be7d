"""A scenario as the answers of its driver library: the text from which the fake `libnvidia-ml.so.1` answers. Pure.

One answer a line: `CALL KEY STATUS VALUE`. The key names whom or what is asked (`-` the system, `3` a GPU, `3/7` its
link, `3/7/0` a counter of it, `0/1/2` a pair and a capability). The status is an nvmlReturn_t, or `hang`, or `crash`.
Where there is no line for a key, the one for its GPU alone applies; where there is none either, the call is not supported.
The library knows struct layouts, buffer sizes and the order of calls; everything else stands in these lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from gpumond.model.topology import NvLinkRemote, P2pCapability, P2pStatus, PathLevel
from gpumond.probe.lists import members_of_list
from gpumond.probe.nvml_codes import NvmlStatus
from gpumond.simulate.faults import Fault, GpuLost
from gpumond.simulate.hardware import POWER_LIMIT_MILLIWATTS, SM_CLOCK_LIMIT_MEGAHERTZ, struck
from gpumond.simulate.nvml_calls import HANDLE_CALLS, branch_of
from gpumond.simulate.nvml_faults import Status, fault_status, struck_calls
from gpumond.simulate.world import (
    FieldAnswer,
    Scenario,
    ScenarioGpu,
    ScenarioHost,
    ScenarioLink,
    ScenarioPair,
)

OK = 0
_CLOCK_SM = 1
SYSTEM = "-"

UNSIGNED = 1
UNSIGNED_LONG_LONG = 3

LINK_FIELDS_SINCE = 525
"""The driver branch that brought the field values of single links."""
LAST_FIELD_BEFORE_LINK_FIELDS = 160
RECOVERY_ACTION_FIELD = 230
RECOVERY_ACTION_SINCE = 560

NVLINKS_MAX = 18
"""NVML_NVLINK_MAX_LINKS of these drivers; beyond it a link number is an invalid argument."""

NVLINKS_MAX_KEY = "nvlinks_max"
FABRIC_STRUCT_KEY = "fabric_struct_version"
"""What the library must know besides the answers to calls."""
FABRIC_V3_SINCE = 570

PROCESS_CALLS = {
    "compute": "nvmlDeviceGetComputeRunningProcesses",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses",
    "mps": "nvmlDeviceGetMPSComputeRunningProcesses",
}

LEVEL_NUMBERS = {
    PathLevel.PIX: 10,
    PathLevel.PXB: 20,
    PathLevel.PHB: 30,
    PathLevel.NODE: 40,
    PathLevel.SYS: 50,
}
P2P_STATUS_NUMBERS = {
    P2pStatus.OK: 0,
    P2pStatus.CNS: 1,
    P2pStatus.GNS: 2,
    P2pStatus.TNS: 3,
    P2pStatus.DR: 4,
    P2pStatus.NS: 5,
    P2pStatus.U: 6,
}
P2P_INDEX = {
    P2pCapability.READ: 0,
    P2pCapability.WRITE: 1,
    P2pCapability.NVLINK: 2,
    P2pCapability.ATOMICS: 3,
    P2pCapability.PCI: 4,
}
P2P_INDEX_UNKNOWN = 5

_HIDDEN_PCI = "FFFFFFFF:FF:FF.0 FFFFFFF:FF:FF.0 4294967295 255 255 4294967295 0"

Scalar: TypeAlias = int | str


@dataclass(frozen=True, slots=True)
class Answer:
    """What one call answers for one key."""

    call: str
    key: str
    status: Status
    value: str = ""

    def __str__(self) -> str:
        return f"{self.call} {self.key} {self.status} {self.value}".rstrip()


def render_answers(scenario: Scenario, *, elapsed_seconds: float = 0.0) -> str:
    """The answer file of `scenario`, `elapsed_seconds` after it began."""
    return answer_lines(answers_of(struck(scenario, elapsed_seconds)))


def answer_lines(answers: Iterable[Answer]) -> str:
    return "".join(f"{answer}\n" for answer in answers)


def answers_of(world: Scenario) -> Iterator[Answer]:
    """Every answer of a host whose hardware faults have struck."""
    yield from _with_faults(_system(world), world.faults)
    for number, gpu in enumerate(world.gpus):
        yield from _with_faults(_gpu(world, number, gpu), world.faults)
    for pair in world.pairs:
        yield from _with_faults(_pair(pair), world.faults)
    for call, gpu_number in struck_calls(world.faults, len(world.gpus)):
        status = fault_status(call, gpu_number, world.faults)
        if status is not None:
            yield Answer(call, str(gpu_number), status)
    for fault in world.faults:
        if isinstance(fault, GpuLost):
            yield Answer("*", str(fault.gpu), NvmlStatus.GPU_IS_LOST.value)


def _with_faults(answers: Iterable[Answer], faults: tuple[Fault, ...]) -> Iterator[Answer]:
    for answer in answers:
        first = answer.key.split("/")[0]
        status = fault_status(answer.call, None if first == SYSTEM else int(first), faults)
        yield answer if status is None else replace(answer, status=status)


def _ok(call: str, key: object, *values: Scalar) -> Answer:
    return Answer(call, str(key), OK, " ".join(str(value) for value in values))


def _not_supported(call: str, key: object) -> Answer:
    return Answer(call, str(key), NvmlStatus.NOT_SUPPORTED.value)


def _system(world: Scenario) -> Iterator[Answer]:
    host = world.host
    yield _ok("nvmlInitWithFlags", SYSTEM)
    yield _ok("nvmlInit_v2", SYSTEM)
    yield _ok("nvmlSystemGetDriverVersion", SYSTEM, host.driver_version)
    yield _ok("nvmlSystemGetNVMLVersion", SYSTEM, host.nvml_version)
    yield _ok("nvmlSystemGetCudaDriverVersion", SYSTEM, host.cuda_version)
    yield _ok("nvmlSystemGetCudaDriverVersion_v2", SYSTEM, host.cuda_version)
    yield _ok("nvmlDeviceGetCount_v2", SYSTEM, len(world.gpus))
    yield _ok("nvmlGetExcludedDeviceCount", SYSTEM, 0)
    yield _ok(NVLINKS_MAX_KEY, SYSTEM, NVLINKS_MAX)
    is_new = branch_of(host.driver_version) >= FABRIC_V3_SINCE
    yield _ok(FABRIC_STRUCT_KEY, SYSTEM, 3 if is_new else 2)


def _gpu(world: Scenario, number: int, gpu: ScenarioGpu) -> Iterator[Answer]:
    yield from (_ok(call, number) for call in HANDLE_CALLS)
    yield from _identity(number, gpu)
    yield from _memory(number, gpu)
    yield from _placement(world.host, number, gpu)
    yield from _modes(world.host, number, gpu)
    yield from _processes(number, gpu)
    yield from _fabric(number, gpu)
    for link in gpu.links:
        yield from _link(number, gpu, link)
    yield _ok("nvmlDeviceGetFieldValues", number)
    for field, answer in _fields(world.host, gpu).items():
        yield _field(number, field, SYSTEM, answer)
    if branch_of(world.host.driver_version) >= LINK_FIELDS_SINCE:
        for link in gpu.links:
            yield from _link_fields(number, gpu, link)
    for call, values in gpu.model.answers.items():
        yield _ok(call, number, *((values,) if isinstance(values, str) else values))


def _identity(number: int, gpu: ScenarioGpu) -> Iterator[Answer]:
    model = gpu.model
    yield _ok("nvmlDeviceGetIndex", number, number)
    yield _ok("nvmlDeviceGetUUID", number, gpu.uuid)
    yield _ok("nvmlDeviceGetName", number, model.name)
    yield _ok("nvmlDeviceGetMinorNumber", number, gpu.minor)
    yield _ok("nvmlDeviceGetVbiosVersion", number, model.vbios_version)
    yield _ok(
        "nvmlDeviceGetPciInfo_v3",
        number,
        _pci_info(gpu.pci_bus_id, model.pci_device_id, model.pci_subsystem_id),
    )
    if gpu.serial:
        yield _ok("nvmlDeviceGetSerial", number, gpu.serial)
    if gpu.module_id is not None:
        yield _ok("nvmlDeviceGetModuleId", number, gpu.module_id)


def _pci_info(bus_id: str, device_id: int, subsystem_id: int) -> str:
    """`busId busIdLegacy domain bus device pciDeviceId pciSubSystemId`."""
    domain, bus, device = bus_id.split(":")
    numbers = (int(domain, 16), int(bus, 16), int(device.split(".")[0], 16), device_id, subsystem_id)
    return f"0000{bus_id.upper()} {bus_id.upper()} {' '.join(map(str, numbers))}"


def _memory(number: int, gpu: ScenarioGpu) -> Iterator[Answer]:
    """The first version of the struct counts reserved memory as used (capture: 615 MiB on an idle H200)."""
    total, reserved, used = (
        gpu.model.memory_total_bytes,
        gpu.model.memory_reserved_bytes,
        gpu.memory_used_bytes,
    )
    free = total - reserved - used
    yield _ok("nvmlDeviceGetMemoryInfo", number, total, free, used + reserved)
    yield _ok("nvmlDeviceGetMemoryInfo_v2", number, total, reserved, free, used)
    yield _ok("nvmlDeviceGetUtilizationRates", number, gpu.utilisation_percent, gpu.utilisation_percent // 4)


def _placement(host: ScenarioHost, number: int, gpu: ScenarioGpu) -> Iterator[Answer]:
    cpus = next((node.cpus for node in host.numa_nodes if node.id == gpu.memory_node), "")
    cpu_words = mask_words(members_of_list(cpus))
    for call in ("nvmlDeviceGetCpuAffinity", "nvmlDeviceGetCpuAffinityWithinScope"):
        yield _ok(call, number, *cpu_words)
    yield _ok("nvmlDeviceGetMemoryAffinity", number, *mask_words([gpu.memory_node]))
    if gpu.gpu_numa_id is None:
        yield _not_supported("nvmlDeviceGetNumaNodeId", number)
    else:
        yield _ok("nvmlDeviceGetNumaNodeId", number, gpu.gpu_numa_id)
    yield _ok("nvmlDeviceGetCurrPcieLinkGeneration", number, gpu.pcie_generation)
    yield _ok("nvmlDeviceGetCurrPcieLinkWidth", number, gpu.pcie_width)
    yield _ok("nvmlDeviceGetMaxPcieLinkGeneration", number, gpu.model.pcie_generation_max)
    yield _ok("nvmlDeviceGetGpuMaxPcieLinkGeneration", number, gpu.model.pcie_generation_max)
    yield _ok("nvmlDeviceGetMaxPcieLinkWidth", number, gpu.model.pcie_width_max)
    yield _ok("nvmlDeviceGetPcieReplayCounter", number, gpu.pcie_replays)


def mask_words(bits: Iterable[int]) -> tuple[int, ...]:
    """The bits as 64-bit words, lowest first; as many as the highest bit needs, and at least one."""
    mask = sum(1 << bit for bit in set(bits))
    count = max(1, -(-mask.bit_length() // 64))
    return tuple(mask >> (64 * word) & (1 << 64) - 1 for word in range(count))


def _modes(host: ScenarioHost, number: int, gpu: ScenarioGpu) -> Iterator[Answer]:
    model = gpu.model
    is_busy = gpu.utilisation_percent > 0
    yield _ok("nvmlDeviceGetPersistenceMode", number, 1)
    yield _ok("nvmlDeviceGetPerformanceState", number, 0)
    yield _ok("nvmlDeviceGetVirtualizationMode", number, int(host.is_virtual))
    yield _ok("nvmlDeviceGetPowerUsage", number, gpu.power_milliwatts)
    yield _ok("nvmlDeviceGetEnforcedPowerLimit", number, POWER_LIMIT_MILLIWATTS)
    yield _ok("nvmlDeviceGetApplicationsClock", f"{number}/{_CLOCK_SM}", SM_CLOCK_LIMIT_MEGAHERTZ)
    yield _ok("nvmlDeviceGetTemperature", f"{number}/0", model.temperature_celsius)
    for kind, clock in enumerate(model.clocks_mhz):
        yield _ok("nvmlDeviceGetClockInfo", f"{number}/{kind}", clock)
    for call in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        yield _ok(call, number, 4 if is_busy else 1)  # power cap, idle
    if model.has_mig:
        yield _ok("nvmlDeviceGetMigMode", number, 0, 0)
    if model.has_row_remapping:
        yield _ok("nvmlDeviceGetRemappedRows", number, 0, 0, 0, 0)
    if model.has_ecc:
        yield _ok("nvmlDeviceGetEccMode", number, 1, 1)
        for kind, count in enumerate(gpu.ecc_errors):
            for counter in (0, 1):  # volatile, aggregate
                yield _ok("nvmlDeviceGetTotalEccErrors", f"{number}/{kind}/{counter}", count)


def _processes(number: int, gpu: ScenarioGpu) -> Iterator[Answer]:
    for kind, call in PROCESS_CALLS.items():
        mine = [process for process in gpu.processes if process.kind == kind]
        values = [value for process in mine for value in (process.pid, process.used_memory_bytes)]
        for version in ("_v2", "_v3"):
            yield _ok(f"{call}{version}", number, *values)


def _fabric(number: int, gpu: ScenarioGpu) -> Iterator[Answer]:
    if gpu.fabric is None:
        return
    it = gpu.fabric
    uuid = it.cluster_uuid.replace("-", "")
    for call in ("nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetGpuFabricInfoV"):
        yield _ok(call, number, uuid, it.status, it.clique_id, it.state, it.health_mask, it.health_summary)


def _link(number: int, gpu: ScenarioGpu, link: ScenarioLink) -> Iterator[Answer]:
    """What is wired where stays known while a link is down."""
    key = f"{number}/{link.link}"
    yield _ok("nvmlDeviceGetNvLinkState", key, int(link.is_up))
    yield _ok("nvmlDeviceGetNvLinkVersion", key, gpu.model.nvlink_version)
    yield _ok("nvmlDeviceGetNvLinkRemoteDeviceType", key, link.remote_type.value)
    # The subsystem id is undefined for a remote device.
    pci = _HIDDEN_PCI if link.peer is None else _pci_info(link.peer, _remote_device_id(gpu, link), 0)
    yield _ok("nvmlDeviceGetNvLinkRemotePciInfo_v2", key, pci)
    for counter, count in enumerate(link.errors):
        yield _ok("nvmlDeviceGetNvLinkErrorCounter", f"{key}/{counter}", count)
    for capability in range(6):
        yield _ok("nvmlDeviceGetNvLinkCapability", f"{key}/{capability}", 1)


def _remote_device_id(gpu: ScenarioGpu, link: ScenarioLink) -> int:
    nvswitch = 0x22A310DE  # third generation, of Hopper boards
    return nvswitch if link.remote_type is NvLinkRemote.SWITCH else gpu.model.pci_device_id


def _fields(host: ScenarioHost, gpu: ScenarioGpu) -> dict[int, FieldAnswer]:
    """Field values that are not a link's."""
    branch = branch_of(host.driver_version)
    fields = {
        91: FieldAnswer(OK, UNSIGNED, len(gpu.links)),
        94: FieldAnswer(OK, UNSIGNED, gpu.pcie_replays),
        **gpu.model.fields,
        **gpu.fields,
    }
    if branch >= RECOVERY_ACTION_SINCE:
        fields[RECOVERY_ACTION_FIELD] = FieldAnswer(OK, UNSIGNED, gpu.recovery_action)
    if branch >= LINK_FIELDS_SINCE:
        return fields
    return {field: answer for field, answer in fields.items() if field <= LAST_FIELD_BEFORE_LINK_FIELDS}


def _link_fields(number: int, gpu: ScenarioGpu, link: ScenarioLink) -> Iterator[Answer]:
    replay, recovery, crc, _, _ = link.errors
    counts = {161: replay, 162: recovery, 163: crc}
    values = {
        146: link.link,
        164: gpu.model.nvlink_speed_mbps if link.is_up else 0,
        165: int(link.is_up),
        166: gpu.model.nvlink_version,
    }
    for field, value in counts.items():
        yield _field(number, field, link.link, FieldAnswer(OK, UNSIGNED_LONG_LONG, value))
    for field, value in values.items():
        yield _field(number, field, link.link, FieldAnswer(OK, UNSIGNED, value))


def _field(number: int, field: int, scope: object, answer: FieldAnswer) -> Answer:
    """The status of the entry is part of the value: the call as a whole succeeds."""
    return _ok(
        "nvmlDeviceGetFieldValues", f"{number}/{field}/{scope}", answer.status, answer.type, answer.value
    )


def _pair(pair: ScenarioPair) -> Iterator[Answer]:
    key = f"{pair.gpu}/{pair.peer}"
    yield _ok("nvmlDeviceGetTopologyCommonAncestor", key, LEVEL_NUMBERS[pair.level])
    for capability, status in pair.p2p.items():
        yield _ok("nvmlDeviceGetP2PStatus", f"{key}/{P2P_INDEX[capability]}", P2P_STATUS_NUMBERS[status])
    # "Unknown" is a capability like the others, and the capture says OK.
    yield _ok("nvmlDeviceGetP2PStatus", f"{key}/{P2P_INDEX_UNKNOWN}", OK)
