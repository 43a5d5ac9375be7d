"""`python -m gpumond.probe.amd_watch GPU-...@0000:0c:00.0 ...`: `gpumond.probe.watch` for AMD's GPUs.

The process list of a GPU is amdsmi's together with the kernel's own (KFD): who is in either is there. Without amdsmi
KFD's is enough, and only the load is missing. Never tried on hardware.

What holds clocks back is read from counters that grow while something does. amdsmi's own question for it
(`amdsmi_get_violation_status`) waits between two samples, GPU by GPU: with eight of them nobody would look meanwhile.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gpumond.clock import Clock, SystemClock
from gpumond.model.identity import GpuUuid, PciBusId
from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import GpuProcess
from gpumond.model.watch import GpuLoad, WatchedGpu, WatchLook, WatchTarget
from gpumond.probe import amd, amd_codes, kfd
from gpumond.probe.amd import AmdSmiLibrary, Handle
from gpumond.probe.amd_gpu import read_bus_id, read_uuid
from gpumond.probe.kfd import KfdGpu
from gpumond.probe.kfd_processes import ProcessesOfGpu, read_processes
from gpumond.probe.looks import add_watch_options, print_looks
from gpumond.probe.pipe import take_standard_output
from gpumond.probe.readings import mapped, or_else, then

_POWER_KEYS = ("current_socket_power", "average_socket_power")
"""MI300 has the first, MI200 the second."""


class _SmiGpu:
    """A GPU that amdsmi shows. It keeps the counters of the look before, and before that those of the opening."""

    def __init__(self, library: AmdSmiLibrary, handle: Handle, node: KfdGpu | None) -> None:
        self._library = library
        self._handle = handle
        self._node = node
        self._residencies: dict[str, int] = {}
        self._event_reasons()

    def processes(self, kernel: Reading[ProcessesOfGpu]) -> Reading[tuple[GpuProcess, ...]]:
        return merged(self._library.processes(self._handle), _listed(self._node, kernel))

    def load(self) -> GpuLoad:
        ask, handle = self._library.ask, self._handle
        activity = ask("amdsmi_get_gpu_activity", handle, convert=dict)
        pcie = ask("amdsmi_get_pcie_info", handle, convert=lambda it: dict(it["pcie_metric"]))
        return GpuLoad(
            utilisation_ratio=_ratio(activity, "gfx_activity"),
            memory_utilisation_ratio=_ratio(activity, "umc_activity"),
            memory_used_bytes=self._library.memory_bytes("usage", handle),
            sm_clock_hertz=self._library.clock_hertz(handle),
            power_watts=then(ask("amdsmi_get_power_info", handle, convert=dict), _watts),
            temperature_celsius=self._library.temperature_celsius(handle),
            event_reasons=self._event_reasons(),
            pcie_generation=then(pcie, lambda it: amd_codes.pcie_generation(it["pcie_speed"])),
            pcie_width_lanes=then(pcie, lambda it: amd_codes.lanes(it["pcie_width"])),
        )

    def _event_reasons(self) -> Reading[int]:
        """What held the GPU back at any time since the sample before."""
        reading = self._library.ask("amdsmi_get_gpu_metrics_info", self._handle, convert=dict)
        if not isinstance(reading, Value):
            return reading
        before, self._residencies = self._residencies, amd_codes.residencies(reading.value)
        return amd_codes.event_reasons(before, self._residencies)


@dataclass(frozen=True, slots=True)
class _KfdGpu:
    """A GPU of a host without amdsmi; `library` is why."""

    node: KfdGpu
    library: Unreadable

    def processes(self, kernel: Reading[ProcessesOfGpu]) -> Reading[tuple[GpuProcess, ...]]:
        return _listed(self.node, kernel)

    def load(self) -> GpuLoad:
        return GpuLoad(*[self.library] * len(fields(GpuLoad)))


class Watcher:
    """GPUs behind an open amdsmi, or behind KFD alone where `library` says why there is none."""

    def __init__(
        self,
        library: AmdSmiLibrary | Unreadable,
        targets: Sequence[WatchTarget],
        *,
        sysfs: Path,
        clock: Clock,
    ) -> None:
        self._sysfs = sysfs
        self._clock = clock
        nodes = kfd.read_gpus(sysfs)
        handles = {} if isinstance(library, Unreadable) else _handles_by_bus_id(library)
        self._gpus = {
            target.uuid: _open_without(library, target, nodes)
            if isinstance(library, Unreadable)
            else _open(library, handles, target, nodes)
            for target in targets
        }

    def look(self, with_load: bool) -> WatchLook:  # noqa: FBT001 - print_looks calls it
        at = self._clock.monotonic()
        kernel = read_processes(self._sysfs)
        return WatchLook(
            at,
            tuple(
                WatchedGpu(uuid, gpu)
                if isinstance(gpu, Unreadable)
                else WatchedGpu(uuid, gpu.processes(kernel), gpu.load() if with_load else None)
                for uuid, gpu in self._gpus.items()
            ),
        )


def _listed(node: KfdGpu | None, kernel: Reading[ProcessesOfGpu]) -> Reading[tuple[GpuProcess, ...]]:
    if node is None or not node.gpu_id:
        return NOT_SUPPORTED
    return mapped(kernel, lambda it: it.get(node.gpu_id, ()))


def merged(
    told: Reading[tuple[GpuProcess, ...]], listed: Reading[tuple[GpuProcess, ...]]
) -> Reading[tuple[GpuProcess, ...]]:
    """`told` by amdsmi and `listed` by the kernel: whoever is in either. Only amdsmi knows what uses the GPU for video;
    but it tells of processes that have ended too (ROCm/legacy-rocm-build#4411), and of those the kernel knows nothing.
    """
    if not isinstance(told, Value) or not isinstance(listed, Value):
        return or_else(told, listed)
    by_pid = {process.pid: process for process in listed.value}
    by_pid |= {it.pid: it for it in told.value if it.pid in by_pid or _exists(it.pid)}
    return Value(tuple(by_pid[pid] for pid in sorted(by_pid)))


def _exists(pid: int) -> bool:
    """Asked by signal 0 and not in /proc, which may hide other users' processes."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _ratio(reading: Reading[dict[str, Any]], key: str) -> Reading[float]:
    return mapped(then(reading, lambda it: amd_codes.number(it[key])), lambda percent: percent / 100)


def _watts(answer: dict[str, Any]) -> Reading[float]:
    power: Reading[int] = NOT_SUPPORTED
    for key in _POWER_KEYS:
        power = or_else(power, amd_codes.number_not_zero(answer.get(key, "N/A")))
    return mapped(power, float)


def _handles_by_bus_id(library: AmdSmiLibrary) -> dict[PciBusId, Handle]:
    handles = library.handles()
    found: dict[PciBusId, Handle] = {}
    for handle in handles.value if isinstance(handles, Value) else ():
        bus_id = read_bus_id(library, handle)
        if isinstance(bus_id, Value):
            found[bus_id.value] = handle
    return found


def _open(
    library: AmdSmiLibrary,
    handles: Mapping[PciBusId, Handle],
    target: WatchTarget,
    nodes: Mapping[PciBusId, KfdGpu],
) -> _SmiGpu | Unreadable:
    handle, node = handles.get(target.pci_bus_id), nodes.get(target.pci_bus_id)
    if handle is None:
        return Unreadable(UnreadableReason.GPU_LOST, f"amdsmi does not show {target}")
    uuid = read_uuid(library, handle, node)
    if isinstance(uuid, Unreadable):
        return uuid
    return _wrong_gpu(uuid, target) or _SmiGpu(library, handle, node)


def _open_without(
    library: Unreadable, target: WatchTarget, nodes: Mapping[PciBusId, KfdGpu]
) -> _KfdGpu | Unreadable:
    node = nodes.get(target.pci_bus_id)
    if node is None:
        return Unreadable(UnreadableReason.GPU_LOST, f"KFD does not show {target}")
    return _wrong_gpu(node.uuid, target) or _KfdGpu(node, library)


def _wrong_gpu(uuid: GpuUuid | None, target: WatchTarget) -> Unreadable | None:
    """Another one in its place. One without a unique id (None) is known by its place alone."""
    if uuid is None or uuid == target.uuid:
        return None
    return Unreadable(UnreadableReason.MALFORMED, f"{target.pci_bus_id} is {uuid} now")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="gpumond.probe.amd_watch", description="print a look at these GPUs as JSON, a line each"
    )
    add_watch_options(parser)
    parser.add_argument("--sysfs", type=Path, default=Path("/sys"), metavar="DIR")
    options = parser.parse_args(arguments)
    clock = SystemClock()
    with os.fdopen(take_standard_output(), "wb", buffering=0) as stream, amd.opened() as library:
        if isinstance(library, Unreadable) and not isinstance(read_processes(options.sysfs), Value):
            sys.stderr.write(f"{library.detail or library.reason.value}\n")
            return 1
        watcher = Watcher(library, options.targets, sysfs=options.sysfs, clock=clock)
        print_looks(watcher.look, stream, clock, interval_seconds=options.interval_seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
