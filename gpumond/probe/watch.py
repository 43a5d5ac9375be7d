"""`python -m gpumond.probe.watch GPU-...@0000:0f:00.0 ...`: one look at these GPUs a line, until somebody ends it.

Lives as long as a sweep. Every look holds the process lists, which cost 0.03 ms for two GPUs; every few looks hold the
load too. One GPU that does not answer is unreadable in its own entry: whether that is good enough is decided by whoever
reads the lines (gpumond.guards.foreign). An open NVML blocks GPU resets, so this is no daemon: it ends with its reader.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from gpumond.clock import Clock, SystemClock
from gpumond.model.identity import GpuUuid
from gpumond.model.reading import NOT_SUPPORTED, NotSupported, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.watch import GpuLoad, WatchedGpu, WatchLook, WatchTarget
from gpumond.probe.looks import add_watch_options, print_looks
from gpumond.probe.nvml import Handle, NvmlLibrary, opened
from gpumond.probe.pipe import take_standard_output

_CLOCK_SM = 1
_SENSOR_GPU = 0
_MEMORY_INFO_V2 = 0x02000028
_HERTZ_PER_MEGAHERTZ = 1_000_000
_MILLIWATTS_PER_WATT = 1000
_REASON_CALLS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""The second is the first one's name before driver 535."""


class Watcher:
    """GPUs behind an open NVML."""

    def __init__(self, library: NvmlLibrary, targets: Sequence[WatchTarget], clock: Clock) -> None:
        self._library = library
        self._clock = clock
        self._handles = {target.uuid: _open(library, target) for target in targets}

    def look(self, with_load: bool) -> WatchLook:  # noqa: FBT001 - print_looks calls it
        at = self._clock.monotonic()
        return WatchLook(
            at, tuple(self._gpu(uuid, handle, with_load) for uuid, handle in self._handles.items())
        )

    def _gpu(self, uuid: GpuUuid, handle: Reading[Handle], with_load: bool) -> WatchedGpu:  # noqa: FBT001 - passed on
        if not isinstance(handle, Value):
            return WatchedGpu(uuid, handle)
        processes = self._library.processes(handle.value)
        return WatchedGpu(uuid, processes, self._load(handle.value) if with_load else None)

    def _load(self, handle: Handle) -> GpuLoad:
        ask = self._library.ask
        return GpuLoad(
            utilisation_ratio=ask("nvmlDeviceGetUtilizationRates", handle, convert=lambda it: it.gpu / 100),
            memory_utilisation_ratio=ask(
                "nvmlDeviceGetUtilizationRates", handle, convert=lambda it: it.memory / 100
            ),
            memory_used_bytes=self._memory_used(handle),
            sm_clock_hertz=ask(
                "nvmlDeviceGetClockInfo",
                handle,
                _CLOCK_SM,
                convert=lambda megahertz: int(megahertz) * _HERTZ_PER_MEGAHERTZ,
            ),
            power_watts=ask(
                "nvmlDeviceGetPowerUsage",
                handle,
                convert=lambda milliwatts: milliwatts / _MILLIWATTS_PER_WATT,
            ),
            temperature_celsius=ask("nvmlDeviceGetTemperature", handle, _SENSOR_GPU, convert=int),
            event_reasons=self._event_reasons(handle),
            pcie_generation=ask("nvmlDeviceGetCurrPcieLinkGeneration", handle, convert=int),
            pcie_width_lanes=ask("nvmlDeviceGetCurrPcieLinkWidth", handle, convert=int),
        )

    def _memory_used(self, handle: Handle) -> Reading[int]:
        """Without what the driver reserves for itself, where the driver can tell."""
        reading = self._library.ask(
            "nvmlDeviceGetMemoryInfo", handle, _MEMORY_INFO_V2, convert=lambda it: int(it.used)
        )
        if isinstance(reading, NotSupported):
            return self._library.ask("nvmlDeviceGetMemoryInfo", handle, convert=lambda it: int(it.used))
        return reading

    def _event_reasons(self, handle: Handle) -> Reading[int]:
        reading: Reading[int] = NOT_SUPPORTED
        for call in _REASON_CALLS:
            reading = self._library.ask(call, handle, convert=int)
            if not isinstance(reading, NotSupported):
                break
        return reading


def _open(library: NvmlLibrary, target: WatchTarget) -> Reading[Handle]:
    handle = library.open_gpu(target.pci_bus_id)
    if not isinstance(handle, Value):
        return handle
    uuid = library.ask("nvmlDeviceGetUUID", handle.value, convert=str)
    if isinstance(uuid, Value) and uuid.value != target.uuid:
        return Unreadable(UnreadableReason.MALFORMED, f"{target.pci_bus_id} is {uuid.value} now")
    return handle if isinstance(uuid, Value) else uuid


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="gpumond.probe.watch", description="print a look at these GPUs as JSON, a line each"
    )
    add_watch_options(parser)
    options = parser.parse_args(arguments)
    clock = SystemClock()
    with os.fdopen(take_standard_output(), "wb", buffering=0) as stream, opened() as library:
        if isinstance(library, Unreadable):
            sys.stderr.write(f"{library.detail or library.reason.value}\n")
            return 1
        watcher = Watcher(library, options.targets, clock)
        print_looks(watcher.look, stream, clock, interval_seconds=options.interval_seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
