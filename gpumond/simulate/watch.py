"""`python -m gpumond.simulate.watch SCENARIO GPU-...@0000:0f:00.0 ...`: a made-up host, watched.

The same contract as `python -m gpumond.probe.watch` and, on a host of AMD's, `gpumond.probe.amd_watch`. The host is rendered anew for every look, so that a process
arrives (`--fault gpu_busy,gpu=0,pid=4711,after_seconds=3`) while somebody watches.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from gpumond.clock import Clock, SystemClock
from gpumond.errors import GpumondError
from gpumond.model.reading import Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import Vendor
from gpumond.model.watch import GpuLoad, WatchedGpu, WatchLook, WatchTarget
from gpumond.probe.looks import add_watch_options, print_looks
from gpumond.probe.pipe import take_standard_output
from gpumond.simulate import amd_watch
from gpumond.simulate.command_line import add_fault_options, elapsed_seconds, hang, scenario_of
from gpumond.simulate.driver import CallDoesNotReturn, Driver
from gpumond.simulate.hardware import struck
from gpumond.simulate.snapshot import memory_of, processes_of
from gpumond.simulate.world import Scenario, ScenarioGpu

T = TypeVar("T")

REASON_IDLE = 0x1
REASON_POWER_CAP = 0x4


def render_look(world: Scenario, targets: Sequence[WatchTarget], at: float, *, with_load: bool) -> WatchLook:
    """What the watch child would see of a host whose hardware faults have struck. Raises CallDoesNotReturn."""
    if world.vendor is Vendor.AMD:
        return amd_watch.render_look(world, targets, at, with_load=with_load)
    numbers = {gpu.pci_bus_id: number for number, gpu in enumerate(world.gpus)}
    return WatchLook(
        at,
        tuple(
            _watched(world, target, numbers.get(target.pci_bus_id), with_load=with_load) for target in targets
        ),
    )


def _watched(world: Scenario, target: WatchTarget, number: int | None, *, with_load: bool) -> WatchedGpu:
    if number is None or world.gpus[number].uuid != target.uuid:
        return WatchedGpu(target.uuid, Unreadable(UnreadableReason.GPU_LOST, f"{target} is not there"))
    driver, gpu = Driver(world), world.gpus[number]
    door: Reading[str] = driver.ask("nvmlDeviceGetHandleByPciBusId", number, str(gpu.uuid))
    if isinstance(door, Unreadable):
        return WatchedGpu(target.uuid, door)
    load = _load(driver, number, gpu) if with_load else None
    return WatchedGpu(target.uuid, processes_of(driver, number, gpu), load)


def _load(driver: Driver, number: int, gpu: ScenarioGpu) -> GpuLoad:
    def ask(call: str, value: T) -> Reading[T]:
        return driver.ask(f"nvmlDeviceGet{call}", number, value)

    memory = memory_of(driver, number, gpu)
    is_busy = gpu.utilisation_percent > 0
    return GpuLoad(
        utilisation_ratio=ask("UtilizationRates", gpu.utilisation_percent / 100),
        memory_utilisation_ratio=ask("UtilizationRates", gpu.utilisation_percent // 4 / 100),
        memory_used_bytes=Value(memory.value[1]) if isinstance(memory, Value) else memory,
        sm_clock_hertz=ask("ClockInfo", gpu.model.clocks_mhz[1] * 1_000_000),
        power_watts=ask("PowerUsage", gpu.power_milliwatts / 1000),
        temperature_celsius=ask("Temperature", gpu.model.temperature_celsius),
        event_reasons=ask("CurrentClocksEventReasons", REASON_POWER_CAP if is_busy else REASON_IDLE),
        pcie_generation=ask("CurrPcieLinkGeneration", gpu.pcie_generation),
        pcie_width_lanes=ask("CurrPcieLinkWidth", gpu.pcie_width),
    )


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    clock = SystemClock()
    try:
        scenario = scenario_of(options.scenario, options)
    except GpumondError as error:
        sys.stderr.write("\n".join(filter(None, (error.message, error.hint))) + "\n")
        return int(error.exit_code)
    with os.fdopen(take_standard_output(), "wb", buffering=0) as stream:
        try:
            look = _looker(scenario, options, clock)
            print_looks(look, stream, clock, interval_seconds=options.interval_seconds)
        except CallDoesNotReturn as call:
            if call.is_crash:
                os.abort()
            hang(clock)
    return 0


def _looker(scenario: Scenario, options: argparse.Namespace, clock: Clock) -> Callable[[bool], WatchLook]:
    def look(with_load: bool) -> WatchLook:  # noqa: FBT001 - print_looks calls it
        world = struck(scenario, elapsed_seconds(options, clock))
        return render_look(world, options.targets, clock.monotonic(), with_load=with_load)

    return look


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpumond.simulate.watch",
        description="print a look at GPUs of a made-up host as JSON, a line each",
    )
    parser.add_argument("scenario", metavar="SCENARIO", help="a name or a file")
    add_watch_options(parser)
    add_fault_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
