"""A scenario as the snapshot that the probe would take of it. Pure.

Written from the scenario, not by running the probe: a test takes a real snapshot of the same scenario, through the fake
driver library and a sysfs tree, and holds the two equal. What is pure arithmetic over readings (counting links,
choosing a NUMA node, naming a status) is the probe's own.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from operator import itemgetter
from typing import TypeVar

from gpumond.model.identity import GpuUuid
from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import (
    Fabric,
    Gpu,
    GpuPair,
    GpuProcess,
    Host,
    Nic,
    NvLink,
    PathLevel,
    PcieLink,
    SilentGpu,
    Snapshot,
    Vendor,
)
from gpumond.probe.lists import list_of_mask, members_of_list
from gpumond.probe.numa import numa_node_of
from gpumond.probe.nvlink import nvlinks_between
from gpumond.probe.readings import mapped, or_else, then
from gpumond.probe.report import DriverReport
from gpumond.simulate import amd_snapshot
from gpumond.simulate.driver import Driver
from gpumond.simulate.hardware import POWER_LIMIT_MILLIWATTS, SM_CLOCK_LIMIT_MEGAHERTZ, struck
from gpumond.simulate.nvml_answers import PROCESS_CALLS, mask_words
from gpumond.simulate.wiring import path_level
from gpumond.simulate.world import (
    ERROR_COUNTERS,
    NUMA_UNKNOWN,
    Scenario,
    ScenarioGpu,
    ScenarioLink,
    ScenarioNic,
    ScenarioPair,
)

T = TypeVar("T")

_IDENTITY_CALLS = ("nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo", "nvmlDeviceGetIndex")

_FIELD_ERRORS = {"replay": "replay", "recovery": "recovery", "crc": "crc_flit"}
"""The probe's name of each error field, and the counter that it shows."""

_ENABLED = True

_NOT_ASKED = Unreadable(UnreadableReason.NOT_ASKED, "error counters are read in every Nth snapshot")


def render_snapshot(
    scenario: Scenario,
    *,
    taken_at: datetime,
    elapsed_seconds: float = 0.0,
    with_errors: bool = True,
    duration_seconds: float = 0.0,
) -> Snapshot:
    """What the probe would read on this host, `elapsed_seconds` after it began.

    Raises `gpumond.simulate.driver.CallDoesNotReturn` where the probe would hang or crash.
    """
    world = struck(scenario, elapsed_seconds)
    if world.vendor is Vendor.AMD:
        report = amd_snapshot.render_report(world)
    else:
        report = _render_report(world, with_errors=with_errors)
    return Snapshot(
        taken_at=taken_at,
        host=_host(world, report),
        vendor=world.vendor if world.gpus or isinstance(report.driver, Value) else None,
        driver=report.driver,
        gpus=report.gpus,
        silent_gpus=report.silent_gpus,
        pairs=report.pairs,
        nics=tuple(_nic(world, nic, report.gpus) for nic in world.nics),
        duration_seconds=duration_seconds,
        simulated=scenario.name,
    )


def _render_report(world: Scenario, *, with_errors: bool) -> DriverReport:
    """The NVIDIA part."""
    host, driver = world.host, Driver(world)
    cuda = f"{host.cuda_version // 1000}.{host.cuda_version % 1000 // 10}"
    failure = driver.failure_at_start()
    gpus, silent = ({}, []) if driver.failure() else _gpus(world, driver, with_errors=with_errors)
    return DriverReport(
        driver=driver.version(),
        library_version=failure or driver.ask("nvmlSystemGetNVMLVersion", None, host.nvml_version),
        cuda_version=failure or driver.ask("nvmlSystemGetCudaDriverVersion_v2", None, cuda),
        gpus=tuple(gpus.values()),
        silent_gpus=tuple(silent),
        pairs=tuple(_pair(world, driver, pair, gpus) for pair in _sorted_pairs(world, gpus)),
    )


def _host(world: Scenario, report: DriverReport) -> Host:
    host = world.host
    return Host(
        kernel=host.kernel,
        boot_id=host.boot_id,
        uptime_seconds=host.uptime_seconds,
        cpu_count=host.cpu_count,
        iommu=Value(host.iommu or "off") if world.gpus else NOT_SUPPORTED,
        driver_version=report.driver,
        driver_library_version=report.library_version,
        cuda_version=report.cuda_version,
        is_virtual=Value(host.is_virtual),
        rocm_version=report.rocm_version,
        container_devices=Value(""),
        acs_redirects=Value(()) if any(gpu.path[1:] for gpu in world.gpus) else NOT_SUPPORTED,
    )


def _gpus(world: Scenario, driver: Driver, *, with_errors: bool) -> tuple[dict[int, Gpu], list[SilentGpu]]:
    """Those that answer, by number, and those that do not: both in the order of their bus ids."""
    answering: dict[int, Gpu] = {}
    silent: list[SilentGpu] = []
    for number, gpu in sorted(enumerate(world.gpus), key=lambda it: it[1].pci_bus_id):
        cause = _silence_of(driver, number, gpu)
        if cause is None:
            read = _gpu(world, driver, number, with_errors=with_errors)
            cause = _loss_of(read)
            if cause is None:
                answering[number] = read
                continue
        silent.append(SilentGpu(None, gpu.pci_bus_id, cause))
    return answering, silent


def _silence_of(driver: Driver, number: int, gpu: ScenarioGpu) -> Unreadable | None:
    """Why this GPU cannot be opened, or does not say who it is."""
    if gpu.is_runtime_suspended:
        return Unreadable(UnreadableReason.ASLEEP, "in runtime suspend; reading it would wake it")
    door = driver.ask("nvmlDeviceGetHandleByPciBusId", number, gpu.pci_bus_id)
    if not isinstance(door, Value):
        unknown = Unreadable(UnreadableReason.ERROR, "the driver does not know this GPU")
        return door if isinstance(door, Unreadable) else unknown
    identity = [driver.ask(call, number, gpu.uuid) for call in _IDENTITY_CALLS]
    if all(isinstance(reading, Value) for reading in identity):
        return None
    causes = [reading for reading in identity if isinstance(reading, Unreadable)]
    return causes[0] if causes else Unreadable(UnreadableReason.DRIVER, "the driver gives GPUs no identity")


def _loss_of(gpu: Gpu) -> Unreadable | None:
    """A GPU whose live values say that it is lost counts as silent, whatever else the driver remembers of it."""
    live = (
        gpu.memory_used_bytes,
        gpu.utilisation_ratio,
        gpu.performance_state,
        gpu.pcie.replays,
        gpu.ecc_errors,
    )
    causes = [reading for reading in live if isinstance(reading, Unreadable)]
    return next((cause for cause in causes if cause.reason is UnreadableReason.GPU_LOST), None)


def _gpu(world: Scenario, driver: Driver, number: int, *, with_errors: bool) -> Gpu:
    gpu, model = world.gpus[number], world.gpus[number].model

    def ask(call: str, value: T | None) -> Reading[T]:
        return driver.ask(f"nvmlDeviceGet{call}", number, value)

    cpus = {node.id: members_of_list(node.cpus) for node in world.host.numa_nodes}
    memory = memory_of(driver, number, gpu)
    cpu_affinity = ask("CpuAffinity", list_of_mask(mask_words(cpus.get(gpu.memory_node, ()))))
    memory_affinity = ask("MemoryAffinity", str(gpu.memory_node))
    mig = ask("MigMode", not _ENABLED if model.has_mig else None)
    ecc = ask("EccMode", _ENABLED if model.has_ecc else None)
    rows = ask("RemappedRows", False if model.has_row_remapping else None)
    sysfs_node = None if gpu.numa_node == NUMA_UNKNOWN else gpu.numa_node
    return Gpu(
        pci_bus_id=gpu.pci_bus_id,
        uuid=gpu.uuid,
        index=number,
        name=ask("Name", model.name),
        vbios_version=ask("VbiosVersion", model.vbios_version),
        minor_number=ask("MinorNumber", gpu.minor),
        module_id=ask("ModuleId", gpu.module_id),
        memory_total_bytes=mapped(memory, itemgetter(0)),
        memory_used_bytes=mapped(memory, itemgetter(1)),
        utilisation_ratio=ask("UtilizationRates", gpu.utilisation_percent / 100),
        processes=processes_of(driver, number, gpu),
        pcie=_pcie(ask, gpu),
        nvlinks=_nvlinks(driver, number, gpu, with_errors=with_errors),
        fabric=_fabric(driver, number, gpu),
        numa_node=numa_node_of(sysfs_node, memory_affinity, cpu_affinity, cpus),
        gpu_numa_id=ask("NumaNodeId", gpu.gpu_numa_id),
        cpu_affinity=cpu_affinity,
        memory_affinity=memory_affinity,
        persistence_mode=ask("PersistenceMode", _ENABLED),
        mig_mode=mig,
        mig_mode_pending=mig,
        ecc_mode=ecc,
        ecc_mode_pending=ecc,
        ecc_errors=ask(
            "TotalEccErrors",
            {"corrected": gpu.ecc_errors[0], "uncorrected": gpu.ecc_errors[1]} if model.has_ecc else None,
        ),
        remapped_rows_pending=rows,
        remapped_rows_failure=rows,
        recovery_action=driver.ask_field(number, driver.recovery_action(number)),
        performance_state=ask("PerformanceState", 0),
        power_limit_watts=ask("EnforcedPowerLimit", POWER_LIMIT_MILLIWATTS / 1000),
        sm_clock_limit_hertz=ask("ApplicationsClock", SM_CLOCK_LIMIT_MEGAHERTZ * 1_000_000),
    )


def _pcie(ask: Callable[[str, int | None], Reading[int]], gpu: ScenarioGpu) -> PcieLink:
    """Sysfs stands in for NVML, except for the replays."""

    def with_sysfs(call: str, value: int) -> Reading[int]:
        return or_else(ask(call, value), Value(value))

    return PcieLink(
        generation=with_sysfs("CurrPcieLinkGeneration", gpu.pcie_generation),
        generation_max=with_sysfs("MaxPcieLinkGeneration", gpu.model.pcie_generation_max),
        width_lanes=with_sysfs("CurrPcieLinkWidth", gpu.pcie_width),
        width_lanes_max=with_sysfs("MaxPcieLinkWidth", gpu.model.pcie_width_max),
        replays=ask("PcieReplayCounter", gpu.pcie_replays),
    )


def memory_of(driver: Driver, number: int, gpu: ScenarioGpu) -> Reading[tuple[int, int]]:
    """Total and used. The older struct counts as used what the driver reserves for itself."""
    total, used = gpu.model.memory_total_bytes, gpu.memory_used_bytes
    call = "nvmlDeviceGetMemoryInfo"
    memory = driver.ask(call, number, (total, used), symbol=f"{call}_v2")
    if memory == NOT_SUPPORTED:
        return driver.ask(call, number, (total, used + gpu.model.memory_reserved_bytes))
    return memory


def processes_of(driver: Driver, number: int, gpu: ScenarioGpu) -> Reading[tuple[GpuProcess, ...]]:
    """One list that exists and cannot be read hides whether the GPU is idle."""
    lists = {kind: _process_list(driver, number, gpu, kind) for kind in PROCESS_CALLS}
    unreadable = next((some for some in lists.values() if isinstance(some, Unreadable)), None)
    if unreadable is not None or not isinstance(lists["compute"], Value):
        return unreadable or NOT_SUPPORTED
    return Value(tuple(entry for some in lists.values() if isinstance(some, Value) for entry in some.value))


def _process_list(
    driver: Driver, number: int, gpu: ScenarioGpu, kind: str
) -> Reading[tuple[GpuProcess, ...]]:
    found = tuple(GpuProcess(it.pid, kind, it.used_memory_bytes) for it in gpu.processes if it.kind == kind)
    newest = driver.ask(f"{PROCESS_CALLS[kind]}_v3", number, found)
    return driver.ask(f"{PROCESS_CALLS[kind]}_v2", number, found) if newest == NOT_SUPPORTED else newest


def _fabric(driver: Driver, number: int, gpu: ScenarioGpu) -> Reading[Fabric]:
    it = gpu.fabric
    fabric = it and Fabric(
        state=it.state,
        status=it.status,
        clique_id=it.clique_id,
        cluster_uuid=it.cluster_uuid,
        health_mask=it.health_mask,
        health_summary=it.health_summary if driver.has_newest_fabric_struct else None,
    )
    return driver.ask("nvmlDeviceGetGpuFabricInfoV", number, fabric or None)


def _nvlinks(
    driver: Driver, number: int, gpu: ScenarioGpu, *, with_errors: bool
) -> Reading[tuple[NvLink, ...]]:
    count = driver.ask_field(number, len(gpu.links))
    if count == NOT_SUPPORTED:
        count = driver.ask("nvmlDeviceGetNvLinkState", number, len(gpu.links))
    if count in (NOT_SUPPORTED, Value(0)):
        return NOT_SUPPORTED
    return then(
        count,
        lambda _: Value(
            tuple(_nvlink(driver, number, gpu, link, with_errors=with_errors) for link in gpu.links)
        ),
    )


def _nvlink(
    driver: Driver, number: int, gpu: ScenarioGpu, link: ScenarioLink, *, with_errors: bool
) -> NvLink:
    has_fields = driver.has_link_fields
    is_up: Reading[bool] = driver.ask_field(number, link.is_up if has_fields else None)
    if is_up == NOT_SUPPORTED:
        is_up = driver.ask("nvmlDeviceGetNvLinkState", number, link.is_up)
    speed = gpu.model.nvlink_speed_mbps * 10**6 if link.is_up else 0
    return NvLink(
        link=link.link,
        is_up=is_up,
        remote_type=driver.ask("nvmlDeviceGetNvLinkRemoteDeviceType", number, link.remote_type),
        remote_pci_bus_id=driver.ask("nvmlDeviceGetNvLinkRemotePciInfo", number, link.peer),
        version=driver.ask("nvmlDeviceGetNvLinkVersion", number, gpu.model.nvlink_version),
        speed_bytes_per_second=driver.ask_field(number, speed if has_fields else None),
        errors=_link_errors(driver, number, link) if with_errors else _NOT_ASKED,
    )


def _link_errors(driver: Driver, number: int, link: ScenarioLink) -> Reading[dict[str, int]]:
    counts = dict(zip(ERROR_COUNTERS, link.errors, strict=True))
    by_field = {name: counts[counter] for name, counter in _FIELD_ERRORS.items()}
    errors: Reading[dict[str, int]] = driver.ask_field(number, by_field if driver.has_link_fields else None)
    return (
        driver.ask("nvmlDeviceGetNvLinkErrorCounter", number, counts) if errors == NOT_SUPPORTED else errors
    )


def _sorted_pairs(world: Scenario, gpus: dict[int, Gpu]) -> list[ScenarioPair]:
    """Those between GPUs that answer, in the order of their bus ids."""
    order = {number: place for place, number in enumerate(gpus)}
    known = [pair for pair in world.pairs if pair.gpu in order and pair.peer in order]
    return sorted(known, key=lambda pair: (order[pair.gpu], order[pair.peer]))


def _pair(world: Scenario, driver: Driver, pair: ScenarioPair, gpus: dict[int, Gpu]) -> GpuPair:
    gpu, peer = gpus[pair.gpu], gpus[pair.peer]
    return GpuPair(
        gpu=gpu.uuid,
        peer=peer.uuid,
        level=driver.ask("nvmlDeviceGetTopologyCommonAncestor", pair.gpu, pair.level),
        nvlinks=nvlinks_between(gpu.nvlinks, peer.nvlinks, world.gpus[pair.peer].pci_bus_id),
        p2p={
            capability: driver.ask("nvmlDeviceGetP2PStatus", pair.gpu, status)
            for capability, status in pair.p2p.items()
        },
    )


def _nic(world: Scenario, nic: ScenarioNic, gpus: tuple[Gpu, ...]) -> Nic:
    rate: Reading[int] = (
        Value(nic.rate_gbps * 10**9) if nic.is_up else Unreadable(UnreadableReason.ERROR, "no port is up")
    )
    return Nic(
        name=nic.name,
        pci_bus_id=nic.pci_bus_id,
        node_guid=nic.node_guid,
        numa_node=NOT_SUPPORTED if nic.numa_node == NUMA_UNKNOWN else Value(nic.numa_node),
        ports_up={1: nic.is_up},
        rate_bits_per_second=rate,
        link_layer=nic.link_layer,
        levels=_levels_to_gpus(world, nic, gpus),
        nic_levels={
            peer.name: level
            for peer in world.nics
            if peer is not nic and (level := _known_level(nic, peer.path, peer.numa_node)) is not None
        },
    )


def _levels_to_gpus(world: Scenario, nic: ScenarioNic, gpus: tuple[Gpu, ...]) -> dict[GpuUuid, PathLevel]:
    paths = {gpu.uuid: gpu.path for gpu in world.gpus}
    levels = {}
    for gpu in gpus:
        node = gpu.numa_node.value if isinstance(gpu.numa_node, Value) else NUMA_UNKNOWN
        level = _known_level(nic, paths[gpu.uuid], node)
        if level is not None:
            levels[gpu.uuid] = level
    return levels


def _known_level(nic: ScenarioNic, path: tuple[str, ...], node: int) -> PathLevel | None:
    """None where two host bridges are involved and one of the NUMA nodes is unknown."""
    if nic.path[0] != path[0] and NUMA_UNKNOWN in (nic.numa_node, node):
        return None
    return path_level(nic.path, nic.numa_node, path, node)
