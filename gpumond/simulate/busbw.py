"""How fast a collective runs on a made-up host. Pure: the noise comes from a generator that the caller seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from gpumond.model.benchmark import Collective, busbw_factor
from gpumond.model.topology import XgmiLinkState
from gpumond.simulate.faults import BenchmarkFault, BusbwSlow
from gpumond.simulate.world import BusbwCurve, Scenario, ScenarioGpu

LATENCY_NOISE_CV = 0.04
"""Small operations scatter more: what is measured there is the launch."""

SHARED_FACTOR = 0.52
"""What a run reaches beside a computing process: 155-179 of 299-329 GB/s (captures busy1-3)."""

US_PER_SECOND = 1e6
BYTES_PER_GB = 1e9


@dataclass(frozen=True, slots=True)
class Timed:
    """One placement of one size, exact: rounding is for whoever prints it."""

    time_us: float
    algbw_gbps: float
    busbw_gbps: float


@dataclass(frozen=True, slots=True)
class BenchmarkModel:
    """One collective on some GPUs of a host whose hardware faults have struck."""

    world: Scenario
    gpus: tuple[ScenarioGpu, ...]
    collective: Collective

    @property
    def ranks(self) -> int:
        return len(self.gpus)

    @property
    def curve(self) -> BusbwCurve:
        """The curve for the most ranks that these GPUs reach."""
        fitting = [
            curve
            for curve in self.world.curves
            if curve.collective is self.collective and curve.min_ranks <= max(self.ranks, 2)
        ]
        return max(fitting, key=lambda curve: curve.min_ranks)

    def faults(self) -> tuple[BenchmarkFault, ...]:
        """Those that strike this collective, first in the scenario first."""
        return tuple(
            fault
            for fault in self.world.faults
            if isinstance(fault, BenchmarkFault) and fault.collective in (None, self.collective)
        )

    def run(self, size_bytes: int, random: Random) -> Timed:
        """One measurement of one size."""
        curve = self.curve
        latency_us = curve.latency_us * _scatter(random, LATENCY_NOISE_CV)
        if size_bytes == 0 or self.ranks == 1:
            return self._timed(size_bytes, latency_us)
        busbw = self._busbw_gbps(size_bytes) * _scatter(random, curve.noise_cv)
        moved = size_bytes * self._algbw_scale() * busbw_factor(self.collective, self.ranks)
        return self._timed(size_bytes, math.hypot(latency_us, moved / (busbw * BYTES_PER_GB) * US_PER_SECOND))

    def _timed(self, size_bytes: int, time_us: float) -> Timed:
        algbw = size_bytes * self._algbw_scale() / (time_us / US_PER_SECOND) / BYTES_PER_GB
        return Timed(time_us, algbw, algbw * busbw_factor(self.collective, self.ranks))

    def _algbw_scale(self) -> float:
        """Hypercube counts only what leaves a rank."""
        return (self.ranks - 1) / self.ranks if self.collective is Collective.HYPERCUBE else 1.0

    def _busbw_gbps(self, size_bytes: int) -> float:
        curve = self.curve
        ideal = curve.peak_gbps / (1 + math.pow(curve.half_size_bytes / size_bytes, curve.steepness))
        return ideal * self._health()

    def _health(self) -> float:
        """The share of the bandwidth that is left: links down, GPUs shared, faults that slow."""
        links = min((_share_of_links_up(gpu) for gpu in self.gpus), default=1.0)
        shared = SHARED_FACTOR if any(gpu.utilisation_percent for gpu in self.gpus) else 1.0
        slow = math.prod(fault.factor for fault in self.faults() if isinstance(fault, BusbwSlow))
        return links * shared * slow


def _share_of_links_up(gpu: ScenarioGpu) -> float:
    ends = [link.is_up for link in gpu.links]
    if gpu.xgmi is not None:
        wired = [state for state in gpu.xgmi.links if state is not XgmiLinkState.DISABLED]
        ends = [state is XgmiLinkState.UP for state in wired]
    return sum(ends) / len(ends) if ends else 1.0


def _scatter(random: Random, cv: float) -> float:
    """Around 1, and never so far off that a time would be negative."""
    return max(0.5, random.gauss(1.0, cv))
