"""What one run makes of the looks of the watch: who came, whether it was alone for sure, how the GPUs worked.

Told by the thread that watches, asked by the one that runs the benchmark. Decides one thing: the run must end now.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from statistics import median

from gpumond.guards.processes import Presence
from gpumond.guards.report import ProcessLists
from gpumond.model.identity import GpuUuid
from gpumond.model.reading import Reading, Value
from gpumond.model.watch import ForeignProcess, GpuLoad, LoadSummary, Preemption, RunWatch, Spread, WatchLook
from gpumond.process.supervisor import Cancellation, ProcessResult

LOOK_GAP_SECONDS_MAX = 2.0
"""Looks come every 0.1 s. After so long without one nobody can say that the run was alone."""

PresenceFinder = Callable[[ProcessLists, Collection[GpuUuid]], Presence]


def lists_of(look: WatchLook) -> ProcessLists:
    return {gpu.uuid: gpu.processes for gpu in look.gpus}


class RunObserver:
    """`before` is a look from before the start: from it on nothing may go unseen.

    What ends the run goes to `cancellation`, with no grace: somebody waits for the GPUs, or nobody knows.
    """

    def __init__(
        self,
        scope: Collection[GpuUuid],
        *,
        find: PresenceFinder,
        cancellation: Cancellation,
        before: WatchLook,
    ) -> None:
        self._scope = tuple(scope)
        self._find = find
        self._cancellation = cancellation
        self._lock = threading.Lock()
        self._last_at = before.at_seconds
        self._longest_gap = 0.0
        self._looks = 0
        self._loads: dict[GpuUuid, list[GpuLoad]] = {uuid: [] for uuid in self._scope}
        self._doubt = ""
        self._foreign: tuple[ForeignProcess, ...] = ()
        self._foreign_at = 0.0
        self._ended_at: float | None = None
        self._clear_at: float | None = None

    @property
    def is_clear(self) -> bool:
        """After the end: the driver lists none of ours any more."""
        return self._clear_at is not None

    def end(self, at: float) -> None:
        """Nothing is left of the benchmark."""
        with self._lock:
            self._ended_at = at

    @property
    def has_foreign(self) -> bool:
        return bool(self._foreign)

    def see(self, look: WatchLook) -> None:
        with self._lock:
            self._looks += 1
            self._measure_gap(look.at_seconds)
            presence = self._find(lists_of(look), self._scope)
            if presence.foreign and not self._foreign:
                self._foreign, self._foreign_at = presence.foreign, look.at_seconds
                self._cancellation.cancel(grace_seconds=0, reason=f"preempted by {presence}")
            elif presence.doubts:
                self._lose("; ".join(presence.doubts[:4]))
            is_after_end = self._ended_at is not None and look.at_seconds >= self._ended_at
            if is_after_end and self._clear_at is None and not presence.own_pids:
                self._clear_at = look.at_seconds
            for gpu in look.gpus:
                if gpu.load is not None and gpu.uuid in self._loads:
                    self._loads[gpu.uuid].append(gpu.load)

    def lose(self, reason: str) -> None:
        """Nobody watches any more."""
        with self._lock:
            self._lose(reason)

    def conclude(self, result: ProcessResult, *, cpu_load_average: float) -> RunWatch:
        with self._lock:
            return RunWatch(
                looks=self._looks,
                longest_gap_seconds=self._longest_gap,
                cpu_load_average=cpu_load_average,
                doubt=self._doubt,
                preemption=self._preemption(result) if self._foreign else None,
                gpus=tuple(summarise(uuid, loads) for uuid, loads in self._loads.items()),
            )

    def _measure_gap(self, at: float) -> None:
        gap = at - self._last_at
        self._last_at = at
        self._longest_gap = max(self._longest_gap, gap)
        if gap > LOOK_GAP_SECONDS_MAX:
            self._lose(f"nobody looked for {gap:.1f} s")

    def _lose(self, reason: str) -> None:
        self._doubt = self._doubt or reason
        self._cancellation.cancel(grace_seconds=0, reason=f"not watched: {reason}")

    def _preemption(self, result: ProcessResult) -> Preemption:
        def since_first_sight(at: float | None) -> float | None:
            return None if at is None else max(0.0, at - self._foreign_at)

        sent, gone = result.signalled_at, None
        if sent is not None and result.clear_seconds is not None:
            gone = sent + result.clear_seconds
        # What it signalled before anybody came was for another reason.
        is_ours = sent is not None and sent >= self._foreign_at
        return Preemption(
            self._foreign,
            kill_sent_seconds=since_first_sight(sent) if is_ours else None,
            gone_seconds=since_first_sight(gone) if is_ours else None,
            clear_seconds=since_first_sight(self._clear_at) if is_ours else None,
        )


def taint_of(watch: RunWatch) -> str:
    """Why a run may not be judged, as a sentence; empty where it is proven to have been alone."""
    if watch.preemption is not None:
        return f"shared the GPUs with {'; '.join(map(str, watch.preemption.foreign))}"
    return f"not proven to have been alone: {watch.doubt}" if watch.doubt else ""


def summarise(uuid: GpuUuid, loads: Sequence[GpuLoad]) -> LoadSummary:
    reasons = 0
    for load in loads:
        if isinstance(load.event_reasons, Value):
            reasons |= load.event_reasons.value
    return LoadSummary(
        uuid=uuid,
        samples=len(loads),
        sm_clock_hertz=_spread(load.sm_clock_hertz for load in loads),
        power_watts=_spread(load.power_watts for load in loads),
        temperature_celsius=_spread(load.temperature_celsius for load in loads),
        memory_utilisation_ratio=_spread(load.memory_utilisation_ratio for load in loads),
        pcie_generation=_spread(load.pcie_generation for load in loads),
        pcie_width_lanes=_spread(load.pcie_width_lanes for load in loads),
        event_reasons=reasons,
        last=loads[-1] if loads else None,
    )


def _spread(readings: Iterable[Reading[float] | Reading[int]]) -> Spread | None:
    values = [float(reading.value) for reading in readings if isinstance(reading, Value)]
    return Spread(min(values), median(values), max(values)) if values else None
