"""A scenario as the answers of its amdsmi: the text from which the fake `libamd_smi.so` answers. Pure.

The lines are those of `nvml_answers`: `CALL KEY STATUS VALUE`. A function that fills a structure has one line for its
status and one `CALL.FIELD KEY 0 VALUE` for each field; fields without a line stay zero, and a field inside another
structure is named `outer__inner`. Statuses are amdsmi_status_t.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpumond.model.topology import P2pCapability, P2pStatus, XgmiLinkState
from gpumond.simulate.amd_calls import GPU_CALLS, HANDLES_CALL, INIT_CALL, PAIR_CALLS
from gpumond.simulate.amd_driver import AmdDriver, fault_status
from gpumond.simulate.faults import Fault
from gpumond.simulate.hardware import struck
from gpumond.simulate.nvml_answers import SYSTEM, Answer, answer_lines
from gpumond.simulate.world import NUMA_UNKNOWN, Scenario, ScenarioGpu, ScenarioPair

OK = 0

RENDER_MINOR_BASE = 128
"""/dev/dri/renderD128 is the first."""

BARE_METAL = 1
GUEST = 3

LINK_PCIE = 1
LINK_XGMI = 2
LINK_STATES = {XgmiLinkState.DOWN: 0, XgmiLinkState.UP: 1, XgmiLinkState.DISABLED: 2}
_HOPS_XGMI = 1
_HOPS_PCIE = 2
WEIGHT_PCIE = 40

_UNKNOWN_32 = 0xFFFFFFFF
_UNKNOWN_8 = 0xFF
_UNKNOWN_POWER = 0xFFFF

CLOCK = 1
"""Of the compute units, among the clocks of a model."""

_MTPS = {1: 2_500, 2: 5_000, 3: 8_000, 4: 16_000, 5: 32_000, 6: 64_000}
_ECC_BLOCKS = 0x1FFFF


def render_answers(scenario: Scenario, *, elapsed_seconds: float = 0.0) -> str:
    """The answer file of `scenario`, `elapsed_seconds` after it began."""
    return answer_lines(answers_of(struck(scenario, elapsed_seconds)))


def answers_of(world: Scenario) -> Iterator[Answer]:
    """Every answer of a host whose hardware faults have struck."""
    driver = AmdDriver(world)
    yield from _with_faults(_system(world, driver), world.faults)
    for number in driver.shown:
        yield from _with_faults(_gpu(world, number, world.gpus[number]), world.faults)
    for pair in world.pairs:
        if {pair.gpu, pair.peer} <= set(driver.shown):
            yield from _with_faults(_pair(pair), world.faults)
    yield from _struck(world, driver)


def _struck(world: Scenario, driver: AmdDriver) -> Iterator[Answer]:
    """A fault also makes functions fail that have no answer of their own."""
    for number in driver.shown:
        for call in (*GPU_CALLS, *PAIR_CALLS):
            status = fault_status(call, number, world.faults)
            if status is not None:
                yield Answer(call, str(number), status)


def _with_faults(answers: Iterable[Answer], faults: tuple[Fault, ...]) -> Iterator[Answer]:
    for answer in answers:
        first = answer.key.split("/")[0]
        call = answer.call.partition(".")[0]
        status = fault_status(call, None if first == SYSTEM else int(first), faults)
        yield answer if status is None else replace(answer, status=status)


def _ok(call: str, key: object, *values: object) -> Answer:
    return Answer(call, str(key), OK, " ".join(str(value) for value in values))


def _struct(call: str, key: object, **fields: object) -> Iterator[Answer]:
    yield _ok(call, key)
    for name, value in fields.items():
        yield _ok(f"{call}.{name}", key, value)


def _system(world: Scenario, driver: AmdDriver) -> Iterator[Answer]:
    major, minor, release = world.host.amdsmi_version.split(".")
    yield _ok(INIT_CALL, SYSTEM)
    yield _ok(HANDLES_CALL, SYSTEM, *driver.shown)
    yield from _struct("amdsmi_get_lib_version", SYSTEM, major=major, minor=minor, release=release)
    yield _ok("amdsmi_get_rocm_version", SYSTEM, *world.host.rocm_version.split("."))


def _gpu(world: Scenario, number: int, gpu: ScenarioGpu) -> Iterator[Answer]:
    yield from _identity(world, number, gpu)
    yield from _modes(world, number, gpu)
    yield from _load(number, gpu)
    node = _UNKNOWN_32 if gpu.numa_node == NUMA_UNKNOWN else gpu.numa_node
    yield _ok("amdsmi_topo_get_numa_node_number", number, node)
    yield from _struct(
        "amdsmi_get_pcie_info",
        number,
        pcie_static__max_pcie_width=gpu.model.pcie_width_max,
        pcie_static__max_pcie_speed=_MTPS[gpu.model.pcie_generation_max],
        pcie_metric__pcie_width=gpu.pcie_width,
        pcie_metric__pcie_speed=_MTPS[gpu.pcie_generation],
        pcie_metric__pcie_replay_count=gpu.pcie_replays,
    )
    if gpu.xgmi is not None:
        yield from _struct("amdsmi_get_xgmi_info", number, xgmi_hive_id=gpu.xgmi.hive_id)
        states = read_link_states(world, gpu)
        fields = {f"status__{link}": LINK_STATES[state] for link, state in enumerate(states)}
        yield from _struct("amdsmi_get_gpu_xgmi_link_status", number, total_links=len(states), **fields)


def read_link_states(world: Scenario, gpu: ScenarioGpu) -> tuple[XgmiLinkState, ...]:
    """What the driver shows of them: in a guest, every link that is wired is down."""
    links = gpu.xgmi.links if gpu.xgmi else ()
    if not world.host.is_virtual:
        return links
    return tuple(it if it is XgmiLinkState.DISABLED else XgmiLinkState.DOWN for it in links)


def _identity(world: Scenario, number: int, gpu: ScenarioGpu) -> Iterator[Answer]:
    model = gpu.model
    yield _ok("amdsmi_get_gpu_device_bdf", number, _bdf(gpu.pci_bus_id))
    yield _ok("amdsmi_get_gpu_device_uuid", number, amdsmi_uuid(gpu))
    yield from _struct(
        "amdsmi_get_gpu_asic_info",
        number,
        market_name=model.name,
        vendor_id=model.pci_device_id & 0xFFFF,
        device_id=model.pci_device_id >> 16,
        oam_id=_UNKNOWN_32 if gpu.module_id is None else gpu.module_id,
    )
    yield from _struct("amdsmi_get_gpu_vbios_info", number, version=model.vbios_version)
    yield from _struct("amdsmi_get_gpu_driver_info", number, driver_version=world.host.driver_version)
    yield from _struct(
        "amdsmi_get_gpu_enumeration_info",
        number,
        drm_render=RENDER_MINOR_BASE + gpu.minor,
        drm_card=gpu.minor,
    )
    mode = GUEST if world.host.is_virtual else BARE_METAL
    yield _ok("amdsmi_get_gpu_virtualization_mode", number, mode)


def amdsmi_uuid(gpu: ScenarioGpu) -> str:
    """The unique id that ROCr prints (GPU-1a2b3c4d5e6f0000), spread around device id and partition number."""
    unique_id = gpu.uuid.removeprefix("GPU-")
    device_id = gpu.model.pci_device_id >> 16
    return f"{unique_id[:2]}ff{device_id:04x}-0000-1000-80{unique_id[2:4]}-{unique_id[4:]}"


def _bdf(bus_id: str) -> int:
    """Domain, bus, device and function in one number, as amdsmi_bdf_t packs them."""
    domain, bus, rest = bus_id.split(":")
    device, function = rest.split(".")
    return int(domain, 16) << 16 | int(bus, 16) << 8 | int(device, 16) << 3 | int(function)


def _modes(world: Scenario, number: int, gpu: ScenarioGpu) -> Iterator[Answer]:
    yield _ok("amdsmi_get_gpu_ecc_enabled", number, _ECC_BLOCKS if gpu.model.has_ecc else 0)
    corrected, uncorrected = gpu.ecc_errors
    yield from _struct(
        "amdsmi_get_gpu_total_ecc_count",
        number,
        correctable_count=corrected,
        uncorrectable_count=uncorrected,
        deferred_count=0,
    )
    yield _ok("amdsmi_get_gpu_bad_page_info", number, 0)
    if not world.host.is_virtual:  # a guest has no say in it, and is not told
        yield _ok("amdsmi_get_gpu_compute_partition", number, gpu.compute_partition)
        yield _ok("amdsmi_get_gpu_memory_partition", number, gpu.memory_partition)


def memory_percent(gpu: ScenarioGpu) -> int:
    return gpu.utilisation_percent // 4


def power_watts(gpu: ScenarioGpu) -> int:
    """amdsmi knows whole watts."""
    return gpu.power_milliwatts // 1000


def _load(number: int, gpu: ScenarioGpu) -> Iterator[Answer]:
    yield _ok("amdsmi_get_gpu_memory_total", number, gpu.model.memory_total_bytes)
    yield _ok("amdsmi_get_gpu_memory_usage", number, gpu.memory_used_bytes)
    yield from _struct(
        "amdsmi_get_gpu_activity",
        number,
        gfx_activity=gpu.utilisation_percent,
        umc_activity=memory_percent(gpu),
    )
    yield from _struct(
        "amdsmi_get_power_info",
        number,
        current_socket_power=power_watts(gpu),
        average_socket_power=_UNKNOWN_POWER,
    )
    yield from _struct("amdsmi_get_clock_info", number, clk=gpu.model.clocks_mhz[CLOCK])
    yield _ok("amdsmi_get_temp_metric", number, gpu.model.temperature_celsius)
    yield from _struct("amdsmi_get_gpu_metrics_info", number, accumulation_counter=1)
    yield _ok("amdsmi_get_gpu_process_list", number, len(gpu.processes))
    for place, process in enumerate(gpu.processes):
        fields = {"pid": process.pid, "memory_usage__vram_mem": process.used_memory_bytes}
        for name, value in fields.items():
            yield _ok(f"amdsmi_get_gpu_process_list.{name}", f"{number}/{place}", value)


def _pair(pair: ScenarioPair) -> Iterator[Answer]:
    key = f"{pair.gpu}/{pair.peer}"
    is_accessible = pair.p2p[P2pCapability.READ] is P2pStatus.OK
    yield _ok("amdsmi_is_P2P_accessible", key, int(is_accessible))
    if pair.xgmi is None:
        yield _ok("amdsmi_topo_get_link_type", key, _HOPS_PCIE, LINK_PCIE)
        yield _ok("amdsmi_topo_get_link_weight", key, WEIGHT_PCIE)
        yield from _capabilities(key, LINK_PCIE, has_atomics=None)
        return
    yield _ok("amdsmi_topo_get_link_type", key, _HOPS_XGMI, LINK_XGMI)
    yield _ok("amdsmi_topo_get_link_weight", key, pair.xgmi.weight)
    rate = pair.xgmi.bandwidth_mbps
    yield _ok("amdsmi_get_minmax_bandwidth_between_processors", key, rate, rate)
    has_atomics = pair.p2p[P2pCapability.ATOMICS] is P2pStatus.OK
    yield from _capabilities(key, LINK_XGMI, has_atomics=has_atomics)


def _capabilities(key: str, link: int, *, has_atomics: bool | None) -> Iterator[Answer]:
    """All unknown for a link through the host."""
    known = _UNKNOWN_8 if has_atomics is None else 1
    atomics = _UNKNOWN_8 if has_atomics is None else int(has_atomics)
    call = "amdsmi_topo_get_p2p_status"
    yield _ok(call, key, link)
    for name in ("coherent", "dma", "bi_directional"):
        yield _ok(f"{call}.is_iolink_{name}", key, known)
    for name in ("atomics_32bit", "atomics_64bit"):
        yield _ok(f"{call}.is_iolink_{name}", key, atomics)
