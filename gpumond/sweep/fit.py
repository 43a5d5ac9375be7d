"""Makes a planned step no larger than the host can bear: by time, and by memory. Pure.

What is worth measuring is an iteration of about a tenth of a second: 2 GiB behind NVSwitch, far less over PCIe. A series
keeps the sizes with which it began. If they followed what was measured last, a host that gets slower would lose its largest
sizes, which the judge looks at, on the very night that shows it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gpumond.model.reading import Value
from gpumond.model.status import LatestPoint
from gpumond.model.topology import Snapshot
from gpumond.sweep.estimate import expected_seconds
from gpumond.sweep.plan import Step, sizes_of

SIZE_SECONDS_MAX = 2.0
"""All iterations of one size."""

ITERATIONS_MIN = 5
"""Fewer read lower, and noisier (measured on two H200s)."""

BUFFERS = 3
"""What a benchmark holds on each GPU: sent, received, and what should have been received."""

MEMORY_RESERVE_BYTES = 2 << 30
"""CUDA and NCCL themselves take 0.5-1.5 GiB a GPU (measured on two H200s)."""


def fit(
    step: Step, snapshot: Snapshot, latest: Collection[LatestPoint], *, series_max_bytes: int | None
) -> Step:
    """The step with fewer sizes, or fewer iterations, where those asked for would take too long or do not fit.

    `series_max_bytes` is the largest size that the series of this step has; None where it begins now.
    """
    asked = step.parameters
    wanted = [size for size in sizes_of(asked) if _fits_memory(size, step, snapshot)] or [asked.min_bytes]
    if series_max_bytes is None:
        measured_seconds = expected_seconds(step, snapshot, latest)
        allowed = [size for size in wanted if measured_seconds(size) <= step.iteration_seconds_max]
    else:
        allowed = [size for size in wanted if size <= series_max_bytes]
    largest = (allowed or [asked.min_bytes])[-1]
    iterations = _iterations(asked.iterations, expected_seconds(step, snapshot, ())(largest))
    fitted = replace(asked, max_bytes=max(largest, asked.min_bytes), iterations=iterations)
    if sizes_of(fitted) == sizes_of(asked) and iterations == asked.iterations:
        return step
    return replace(step, parameters=fitted, asked=asked)


def _iterations(asked: int, seconds: float) -> int:
    """Halved until a size takes no longer than it may: a rule that does not follow every little change of a link."""
    iterations = asked
    while iterations // 2 >= ITERATIONS_MIN and iterations * seconds > SIZE_SECONDS_MAX:
        iterations //= 2
    return iterations


def _fits_memory(size: int, step: Step, snapshot: Snapshot) -> bool:
    """Whether each GPU of the set has room for it when it is idle; one that does not say is taken to have."""
    gpus = [gpu for uuid in step.gpu_set.uuids if (gpu := snapshot.gpu(uuid)) is not None]
    totals = [gpu.memory_total_bytes.value for gpu in gpus if isinstance(gpu.memory_total_bytes, Value)]
    return all(BUFFERS * size + MEMORY_RESERVE_BYTES <= total for total in totals)
