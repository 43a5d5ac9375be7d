"""A made-up AMD host, watched: what the watch child would see through amdsmi and KFD. Pure.

Written from the scenario; a test holds it equal to the real child on the fake library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TypeVar

from gpumond.model.reading import Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import GpuProcess
from gpumond.model.watch import GpuLoad, WatchedGpu, WatchLook, WatchTarget
from gpumond.probe.readings import or_else
from gpumond.simulate.amd_answers import CLOCK, memory_percent, power_watts
from gpumond.simulate.amd_driver import AmdDriver, is_in_kfd, is_shown
from gpumond.simulate.world import Scenario, ScenarioGpu

T = TypeVar("T")

_HERTZ_PER_MEGAHERTZ = 1_000_000


def render_look(world: Scenario, targets: Sequence[WatchTarget], at: float, *, with_load: bool) -> WatchLook:
    """Of a host whose hardware faults have struck. Raises CallDoesNotReturn where the child would hang or crash."""
    driver = AmdDriver(world)
    failure = driver.failure_at_start()
    render = _Library(driver) if failure is None else _KfdAlone(world, failure)
    return WatchLook(at, tuple(render.gpu(target, with_load=with_load) for target in targets))


class _Library:
    """Through amdsmi."""

    def __init__(self, driver: AmdDriver) -> None:
        self._driver = driver
        handles = driver.handles()
        listed = handles.value if isinstance(handles, Value) else []
        answers = {number: driver.ask("amdsmi_get_gpu_device_bdf", number, number) for number in listed}
        self._listed = [number for number, answer in answers.items() if isinstance(answer, Value)]

    def gpu(self, target: WatchTarget, *, with_load: bool) -> WatchedGpu:
        number = _number_of(self._driver.world, target)
        if number is None or number not in self._listed:
            return _lost(target, "amdsmi")
        gpu = self._driver.world.gpus[number]
        cause = self._identity_problem(number, gpu)
        if cause is not None:
            return WatchedGpu(target.uuid, cause)
        load = self._load(number, gpu) if with_load else None
        return WatchedGpu(target.uuid, self._processes(number, gpu), load)

    def _identity_problem(self, number: int, gpu: ScenarioGpu) -> Unreadable | None:
        if is_in_kfd(number, self._driver.world.faults):
            return None
        uuid = self._driver.ask("amdsmi_get_gpu_device_uuid", number, gpu.uuid)
        return uuid if isinstance(uuid, Unreadable) else None

    def _processes(self, number: int, gpu: ScenarioGpu) -> Reading[tuple[GpuProcess, ...]]:
        told = self._driver.ask("amdsmi_get_gpu_process_list", number, _processes_of(gpu))
        listed = is_in_kfd(number, self._driver.world.faults)
        return or_else(told, Value(_processes_of(gpu))) if listed else told

    def _load(self, number: int, gpu: ScenarioGpu) -> GpuLoad:
        def ask(call: str, value: T) -> Reading[T]:
            return self._driver.ask(f"amdsmi_get_{call}", number, value)

        return GpuLoad(
            utilisation_ratio=ask("gpu_activity", gpu.utilisation_percent / 100),
            memory_utilisation_ratio=ask("gpu_activity", memory_percent(gpu) / 100),
            memory_used_bytes=ask("gpu_memory_usage", gpu.memory_used_bytes),
            sm_clock_hertz=ask("clock_info", gpu.model.clocks_mhz[CLOCK] * _HERTZ_PER_MEGAHERTZ),
            power_watts=ask("power_info", float(power_watts(gpu))),
            temperature_celsius=ask("temp_metric", gpu.model.temperature_celsius),
            event_reasons=ask("gpu_metrics_info", 0),
            pcie_generation=ask("pcie_info", gpu.pcie_generation),
            pcie_width_lanes=ask("pcie_info", gpu.pcie_width),
        )


class _KfdAlone:
    """Without amdsmi, for the reason that `failure` is."""

    def __init__(self, world: Scenario, failure: Unreadable) -> None:
        self._world = world
        self._failure = failure

    def gpu(self, target: WatchTarget, *, with_load: bool) -> WatchedGpu:
        number = _number_of(self._world, target)
        if number is None or not is_in_kfd(number, self._world.faults):
            return _lost(target, "KFD")
        load = GpuLoad(*[self._failure] * len(fields(GpuLoad))) if with_load else None
        return WatchedGpu(target.uuid, Value(_processes_of(self._world.gpus[number])), load)


def _number_of(world: Scenario, target: WatchTarget) -> int | None:
    """Of the GPU in that place, where the host shows it and it is the one that is meant."""
    for number, gpu in enumerate(world.gpus):
        if gpu.pci_bus_id == target.pci_bus_id and gpu.uuid == target.uuid and is_shown(number, world.faults):
            return number
    return None


def _lost(target: WatchTarget, by: str) -> WatchedGpu:
    return WatchedGpu(target.uuid, Unreadable(UnreadableReason.GPU_LOST, f"{by} does not show {target}"))


def _processes_of(gpu: ScenarioGpu) -> tuple[GpuProcess, ...]:
    processes = (GpuProcess(it.pid, "compute", it.used_memory_bytes) for it in gpu.processes)
    return tuple(sorted(processes, key=lambda it: it.pid))
