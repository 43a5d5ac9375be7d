"""The AMD part of a simulated snapshot: what the probe would read through amdsmi on this host. Pure.

Written from the scenario, as `snapshot` is: a test holds it equal to a real probe on the fake library.
"""

from __future__ import annotations

from typing import TypeVar

from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import (
    Gpu,
    GpuPair,
    GpuProcess,
    IoLinkCapability,
    P2pCapability,
    P2pStatus,
    PathLevel,
    PcieLink,
    SilentGpu,
    XgmiLinkState,
    XgmiPath,
)
from gpumond.probe.amd_codes import hive
from gpumond.probe.readings import mapped, or_else
from gpumond.probe.report import DriverReport
from gpumond.simulate.amd_answers import GUEST, RENDER_MINOR_BASE, read_link_states
from gpumond.simulate.amd_driver import AmdDriver, is_in_kfd
from gpumond.simulate.wiring import path_level
from gpumond.simulate.world import NUMA_UNKNOWN, Scenario, ScenarioGpu, ScenarioPair

T = TypeVar("T")

BYTES_PER_MB = 10**6
PYTHON_MODULE = "7.0.2"
"""The release of amdsmi that the tests run with."""

_LOST = Unreadable(
    UnreadableReason.GPU_LOST,
    "no kernel driver is bound to it: its initialisation failed, or somebody unbound it",
)
_ASLEEP = Unreadable(UnreadableReason.ASLEEP, "in runtime suspend; reading it would wake it")


def render_report(world: Scenario) -> DriverReport:
    """Of a host whose hardware faults have struck. Raises CallDoesNotReturn where the probe would hang or crash."""
    driver = AmdDriver(world)
    failure = driver.failure_at_start()
    if failure is not None and failure.reason is UnreadableReason.DRIVER and not driver.shown:
        return DriverReport(_nothing_shown(world), library_version=failure, rocm_version=failure)
    if failure is not None:
        return DriverReport(failure, library_version=failure, rocm_version=failure)
    handles = driver.handles()
    library = driver.ask(
        "amdsmi_get_lib_version", None, f"{world.host.amdsmi_version} (Python module {PYTHON_MODULE})"
    )
    rocm = driver.ask("amdsmi_get_rocm_version", None, world.host.rocm_version)
    if not isinstance(handles, Value) or not handles.value:
        cause = handles if isinstance(handles, Unreadable) else _nothing_shown(world)
        return DriverReport(cause, library, rocm_version=rocm)
    gpus, silent = _gpus(driver, handles.value)
    return DriverReport(
        driver=_driver_version(driver, handles.value),
        library_version=library,
        rocm_version=rocm,
        gpus=tuple(gpus.values()),
        silent_gpus=tuple(silent),
        pairs=tuple(_pair(driver, pair, gpus) for pair in _sorted_pairs(world, gpus)),
    )


def _nothing_shown(world: Scenario) -> Unreadable:
    count = len(world.gpus)
    if not AmdDriver(world).shown:
        return Unreadable(
            UnreadableReason.DRIVER_NOT_LOADED,
            f"no kernel driver is bound to the {count} GPUs of this host",
        )
    return Unreadable(
        UnreadableReason.NO_PERMISSION,
        f"amdsmi shows none of the {count} GPUs of this host: /dev/kfd and /dev/dri may not be ours to open",
    )


def _driver_version(driver: AmdDriver, handles: list[int]) -> Reading[str]:
    """The first GPU that answers speaks for all."""
    version: Reading[str] = NOT_SUPPORTED
    for number in handles:
        version = or_else(
            version, driver.ask("amdsmi_get_gpu_driver_info", number, driver.world.host.driver_version)
        )
    return version


def _gpus(driver: AmdDriver, handles: list[int]) -> tuple[dict[int, Gpu], list[SilentGpu]]:
    """Those that answer, by number, and those that do not: both in the order of their bus ids."""
    world = driver.world
    answering: dict[int, Gpu] = {}
    silent: list[SilentGpu] = []
    for number, gpu in sorted(enumerate(world.gpus), key=lambda it: it[1].pci_bus_id):
        index = handles.index(number) if number in handles else None
        cause = _silence_of(driver, number, gpu, index)
        if cause is not None:
            silent.append(SilentGpu(index, gpu.pci_bus_id, cause))
        elif index is not None:
            answering[number] = _gpu(driver, number, gpu, index)
    return answering, silent


def _silence_of(driver: AmdDriver, number: int, gpu: ScenarioGpu, index: int | None) -> Unreadable | None:
    """Why this GPU is not listed, is not looked at, or does not say who it is."""
    if gpu.is_runtime_suspended:
        return _ASLEEP
    if index is None:
        return _LOST
    if is_in_kfd(number, driver.world.faults):
        return None
    uuid = driver.ask("amdsmi_get_gpu_device_uuid", number, gpu.uuid)
    return uuid if isinstance(uuid, Unreadable) else None


def _gpu(driver: AmdDriver, number: int, gpu: ScenarioGpu, index: int) -> Gpu:
    world, model = driver.world, gpu.model

    def ask(call: str, value: T | None) -> Reading[T]:
        return driver.ask(f"amdsmi_get_{call}", number, value)

    node: Reading[int] = NOT_SUPPORTED if gpu.numa_node == NUMA_UNKNOWN else Value(gpu.numa_node)
    cpus = next((it.cpus for it in world.host.numa_nodes if node == Value(it.id)), None)
    has_partitions = not world.host.is_virtual
    render_minor = RENDER_MINOR_BASE + gpu.minor
    has_node = is_in_kfd(number, world.faults)
    return Gpu(
        pci_bus_id=gpu.pci_bus_id,
        uuid=gpu.uuid,
        index=index,
        name=ask("gpu_asic_info", model.name),
        vbios_version=ask("gpu_vbios_info", model.vbios_version),
        minor_number=or_else(
            ask("gpu_enumeration_info", render_minor), Value(render_minor) if has_node else NOT_SUPPORTED
        ),
        module_id=ask("gpu_asic_info", gpu.module_id),
        memory_total_bytes=ask("gpu_memory_total", model.memory_total_bytes),
        memory_used_bytes=ask("gpu_memory_usage", gpu.memory_used_bytes),
        utilisation_ratio=ask("gpu_activity", gpu.utilisation_percent / 100),
        processes=ask(
            "gpu_process_list",
            tuple(GpuProcess(it.pid, "compute", it.used_memory_bytes) for it in gpu.processes),
        ),
        pcie=_pcie(driver, number, gpu),
        nvlinks=NOT_SUPPORTED,
        fabric=NOT_SUPPORTED,
        numa_node=node if isinstance(node, Value) else _driver_node(driver, number),
        gpu_numa_id=NOT_SUPPORTED,
        cpu_affinity=Value(cpus) if cpus else NOT_SUPPORTED,
        memory_affinity=mapped(node, str),
        persistence_mode=NOT_SUPPORTED,
        mig_mode=NOT_SUPPORTED,
        mig_mode_pending=NOT_SUPPORTED,
        ecc_mode=ask("gpu_ecc_enabled", model.has_ecc),
        ecc_mode_pending=NOT_SUPPORTED,
        ecc_errors=ask(
            "gpu_total_ecc_count",
            {"corrected": gpu.ecc_errors[0], "uncorrected": gpu.ecc_errors[1], "deferred": 0},
        ),
        remapped_rows_pending=ask("gpu_bad_page_info", value=False),
        remapped_rows_failure=ask("gpu_bad_page_info", value=False),
        recovery_action=NOT_SUPPORTED,
        performance_state=NOT_SUPPORTED,
        xgmi_links=_links(driver, number, gpu),
        xgmi_hive=ask("xgmi_info", _hive(gpu)),
        compute_partition=ask("gpu_compute_partition", gpu.compute_partition if has_partitions else None),
        memory_partition=ask("gpu_memory_partition", gpu.memory_partition if has_partitions else None),
    )


def _driver_node(driver: AmdDriver, number: int) -> Reading[int]:
    """Sysfs does not know; neither does the driver, which may also fail to say so."""
    return driver.ask("amdsmi_topo_get_numa_node_number", number, None)


def _pcie(driver: AmdDriver, number: int, gpu: ScenarioGpu) -> PcieLink:
    """Sysfs stands in for amdsmi, except for the replays."""

    def with_sysfs(value: int) -> Reading[int]:
        return or_else(driver.ask("amdsmi_get_pcie_info", number, value), Value(value))

    return PcieLink(
        generation=with_sysfs(gpu.pcie_generation),
        generation_max=with_sysfs(gpu.model.pcie_generation_max),
        width_lanes=with_sysfs(gpu.pcie_width),
        width_lanes_max=with_sysfs(gpu.model.pcie_width_max),
        replays=driver.ask("amdsmi_get_pcie_info", number, gpu.pcie_replays),
    )


def _links(driver: AmdDriver, number: int, gpu: ScenarioGpu) -> Reading[tuple[XgmiLinkState, ...]]:
    """All down is an answer only where the library says that the GPU is no virtual function."""
    states = read_link_states(driver.world, gpu)
    answer = driver.ask("amdsmi_get_gpu_xgmi_link_status", number, states or None)
    if not isinstance(answer, Value) or XgmiLinkState.UP in answer.value:
        return answer
    mode = driver.ask(
        "amdsmi_get_gpu_virtualization_mode", number, GUEST if driver.world.host.is_virtual else None
    )
    is_own = not driver.world.host.is_virtual and mode == NOT_SUPPORTED
    is_wired = XgmiLinkState.DOWN in answer.value
    return answer if is_own and is_wired else NOT_SUPPORTED


def _hive(gpu: ScenarioGpu) -> str | None:
    reading = hive(gpu.xgmi.hive_id if gpu.xgmi else 0)
    return reading.value if isinstance(reading, Value) else None


def _sorted_pairs(world: Scenario, gpus: dict[int, Gpu]) -> list[ScenarioPair]:
    """Those between GPUs that answer, in the order of their bus ids."""
    order = {number: place for place, number in enumerate(gpus)}
    known = [pair for pair in world.pairs if pair.gpu in order and pair.peer in order]
    return sorted(known, key=lambda pair: (order[pair.gpu], order[pair.peer]))


def _pair(driver: AmdDriver, pair: ScenarioPair, gpus: dict[int, Gpu]) -> GpuPair:
    access = driver.ask("amdsmi_is_P2P_accessible", pair.gpu, pair.p2p[P2pCapability.READ])
    found = driver.ask("amdsmi_topo_get_p2p_status", pair.gpu, _capabilities(pair))
    atomics = mapped(found, lambda it: P2pStatus.OK if IoLinkCapability.ATOMICS_64BIT in it else P2pStatus.NS)
    return GpuPair(
        gpu=gpus[pair.gpu].uuid,
        peer=gpus[pair.peer].uuid,
        level=_level(driver.world, pair),
        nvlinks=NOT_SUPPORTED,
        p2p={
            P2pCapability.READ: access,
            P2pCapability.WRITE: access,
            P2pCapability.NVLINK: NOT_SUPPORTED,
            P2pCapability.ATOMICS: atomics,
            P2pCapability.PCI: NOT_SUPPORTED,
        },
        xgmi=_path(driver, pair, found),
    )


def _capabilities(pair: ScenarioPair) -> tuple[IoLinkCapability, ...] | None:
    if pair.xgmi is None:
        return None
    atomics = (IoLinkCapability.ATOMICS_32BIT, IoLinkCapability.ATOMICS_64BIT)
    has_atomics = pair.p2p[P2pCapability.ATOMICS] is P2pStatus.OK
    return tuple(it for it in IoLinkCapability if has_atomics or it not in atomics)


def _level(world: Scenario, pair: ScenarioPair) -> Reading[PathLevel]:
    """From sysfs, which cannot place two host bridges where a NUMA node is unknown."""
    gpu, peer = world.gpus[pair.gpu], world.gpus[pair.peer]
    if gpu.path[0] != peer.path[0] and NUMA_UNKNOWN in (gpu.numa_node, peer.numa_node):
        return NOT_SUPPORTED
    return Value(path_level(gpu.path, gpu.numa_node, peer.path, peer.numa_node))


def _path(
    driver: AmdDriver, pair: ScenarioPair, found: Reading[tuple[IoLinkCapability, ...]]
) -> Reading[XgmiPath]:
    kind = driver.ask("amdsmi_topo_get_link_type", pair.gpu, pair.xgmi)
    if not isinstance(kind, Value):
        return kind
    rate = driver.ask(
        "amdsmi_get_minmax_bandwidth_between_processors",
        pair.gpu,
        kind.value.bandwidth_mbps * BYTES_PER_MB or None,
    )
    weight = driver.ask("amdsmi_topo_get_link_weight", pair.gpu, kind.value.weight or None)
    return Value(XgmiPath(weight, rate, rate, found))
