"""How long a step will take, before it runs: from what was measured last, else from what the links should give. Pure.

Good for planning a window, within a factor of two; deadlines come from gpumond.sweep.plan and assume far worse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from gpumond.model.benchmark import busbw_factor
from gpumond.model.reading import Value
from gpumond.model.run import GpuSet
from gpumond.model.status import LatestPoint
from gpumond.model.topology import Snapshot
from gpumond.sweep.plan import Step, sizes_of
from gpumond.topology.expected import expected_ring_busbw

START_SECONDS = 1.75
"""CUDA and NCCL on two H200s, whatever is measured then."""

ROW_SECONDS = 0.04
"""Each placement of each size, besides its operations: 29 sizes take 2.3 s more than none (captures of 2 x H200)."""

NVLINK_BUSBW_PER_LINK = 18e9
"""What a ring makes of one NVLink of Hopper (338 GB/s of 18 links on two H200s)."""

PCIE_BUSBW = 12e9
"""Eight L40S reach 10-20 GB/s (operators.md 2.2), by how the slots are wired."""

BANDWIDTH_BYTES = 64 << 20
"""From here on time is nearly proportional to size."""

LATENCY_SECONDS = 30e-6
"""The least that an operation takes."""


def estimate_seconds(step: Step, snapshot: Snapshot, latest: Collection[LatestPoint]) -> float:
    """From the start of the process to its end."""
    parameters = step.parameters
    passes = 2 * (parameters.warmup_iterations + parameters.iterations + parameters.check)
    operation_seconds = expected_seconds(step, snapshot, latest)
    seconds = START_SECONDS
    for size in sizes_of(parameters):
        seconds += 2 * ROW_SECONDS + passes * operation_seconds(size)
    return seconds


def expected_seconds(
    step: Step, snapshot: Snapshot, latest: Collection[LatestPoint]
) -> Callable[[int], float]:
    """The time of one operation by its size in bytes. Beyond the largest measured size, it grows as the size does."""
    known = _known(step, latest)
    largest = max(known, default=0)
    factor = busbw_factor(step.collective, max(2, len(step.gpu_set.uuids)))
    busbw = _expected_busbw(step.gpu_set, snapshot)

    def operation_seconds(size: int) -> float:
        if size in known:
            return known[size]
        if largest and size > largest >= BANDWIDTH_BYTES:
            return known[largest] * size / largest
        return LATENCY_SECONDS + size * factor / busbw

    return operation_seconds


def _known(step: Step, latest: Collection[LatestPoint]) -> dict[int, float]:
    """Seconds of one operation by size, as last measured on this set, whichever sweep it was."""
    return {
        point.size_bytes: point.time_seconds
        for point in sorted(latest, key=lambda point: point.measured_at)
        if point.gpu_set == step.gpu_set.name and point.collective is step.collective
    }


def _expected_busbw(gpu_set: GpuSet, snapshot: Snapshot) -> float:
    expected = expected_ring_busbw(snapshot, gpu_set.uuids)
    if expected is not None:
        return expected
    links = [
        pair.nvlinks.value
        for pair in snapshot.pairs
        if pair.gpu in gpu_set.uuids and pair.peer in gpu_set.uuids and isinstance(pair.nvlinks, Value)
    ]
    is_joined = bool(links) and min(links) > 0
    return min(links) * NVLINK_BUSBW_PER_LINK if is_joined else PCIE_BUSBW
