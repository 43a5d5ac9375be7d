"""Nobody has used the GPUs for a while: it bridges the pauses of a job, between epochs or steps, when no list shows it.

Samples come from the snapshots of the daemon and from the watch child. Between two of them nobody looked, so they must
stand close enough; a time in which gpumond itself held the GPUs under watch counts as quiet. Pure, but for the log that
keeps the samples.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from gpumond.guards.report import GuardName, GuardReport, GuardSubject
from gpumond.model.identity import GpuUuid
from gpumond.model.reading import NotSupported, Reading, Unreadable, Value
from gpumond.model.topology import Snapshot
from gpumond.model.watch import WatchLook

SAMPLES_KEPT_MAX = 10_000
"""An hour of the watch child's 2 Hz, or weeks of snapshots."""

LIVE_GAP_SECONDS_MAX = 2.0
"""Between two samples of the watch child, which come every 0.5 s."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """How busy a GPU looked."""

    utilisation_ratio: Reading[float]
    memory_used_bytes: Reading[int]


@dataclass(frozen=True, slots=True)
class QuietSample:
    """What was seen from `since` to `until` (monotonic seconds). `uses` None: gpumond held the GPUs, alone."""

    since: float
    until: float
    uses: Mapping[GpuUuid, GpuUse] | None


@dataclass(frozen=True, slots=True)
class QuietRule:
    """How long the GPUs must have been quiet, below what memory use, and how long nobody may have looked."""

    seconds: float
    memory_floor_bytes: int
    gap_seconds_max: float


class QuietLog:
    """The newest samples, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: deque[QuietSample] = deque(maxlen=SAMPLES_KEPT_MAX)

    def record_snapshot(self, snapshot: Snapshot, *, at: float) -> None:
        uses = {gpu.uuid: GpuUse(gpu.utilisation_ratio, gpu.memory_used_bytes) for gpu in snapshot.gpus}
        self._append(QuietSample(at, at, uses))

    def record_look(self, look: WatchLook) -> None:
        """A look without loads says nothing here."""
        uses = {
            gpu.uuid: GpuUse(gpu.load.utilisation_ratio, gpu.load.memory_used_bytes)
            for gpu in look.gpus
            if gpu.load is not None
        }
        if uses:
            self._append(QuietSample(look.at_seconds, look.at_seconds, uses))

    def record_own_use(self, *, since: float, until: float) -> None:
        self._append(QuietSample(since, until, None))

    def samples(self) -> tuple[QuietSample, ...]:
        with self._lock:
            return tuple(self._samples)

    def _append(self, sample: QuietSample) -> None:
        with self._lock:
            self._samples.append(sample)


class QuietGuard:
    """One rule for the timetable, one for a person who waits."""

    def __init__(
        self,
        samples: Callable[[], Iterable[QuietSample]],
        *,
        scheduled: QuietRule,
        by_hand: QuietRule,
        monotonic: Callable[[], float],
    ) -> None:
        self._samples = samples
        self._scheduled = scheduled
        self._by_hand = by_hand
        self._monotonic = monotonic

    @property
    def name(self) -> GuardName:
        return GuardName.NOT_QUIET

    def check(self, subject: GuardSubject) -> GuardReport:
        rule = self._scheduled if subject.is_scheduled else self._by_hand
        if rule.seconds <= 0:
            return GuardReport(self.name, is_clear=True, evidence="not asked for")
        noise = find_noise(self._samples(), subject.uuids, rule, now=self._monotonic())
        evidence = noise or f"{len(subject.uuids)} GPUs have been quiet for {rule.seconds:g} s"
        return GuardReport(self.name, is_clear=not noise, evidence=evidence)


def find_noise(
    samples: Iterable[QuietSample], uuids: Collection[GpuUuid], rule: QuietRule, *, now: float
) -> str:
    """Why `uuids` are not proven to have been quiet for as long as `rule` says; empty where they are."""
    begins = now - rule.seconds
    seen_from = now
    for sample in sorted(samples, key=lambda sample: sample.until, reverse=True):
        if seen_from - sample.until > rule.gap_seconds_max:
            break
        noise = "" if sample.uses is None else _noise_in(sample.uses, uuids, rule.memory_floor_bytes)
        # What was before the window is no matter; the sample only closes the gap to it.
        if noise and sample.until > begins:
            return f"{noise}, {now - sample.until:.0f} s ago"
        seen_from = min(seen_from, sample.since)
        if seen_from <= begins:
            return ""
    return f"known for {max(0.0, now - seen_from):.0f} s only, of {rule.seconds:g} s"


def _noise_in(uses: Mapping[GpuUuid, GpuUse], uuids: Collection[GpuUuid], memory_floor_bytes: int) -> str:
    for uuid in uuids:
        use = uses.get(uuid)
        if use is None:
            return f"{uuid} did not answer"
        if not isinstance(use.utilisation_ratio, Value):
            return f"the utilisation of {uuid} is {_why(use.utilisation_ratio)}"
        if not isinstance(use.memory_used_bytes, Value):
            return f"the memory use of {uuid} is {_why(use.memory_used_bytes)}"
        if use.utilisation_ratio.value > 0:
            return f"{uuid} was {use.utilisation_ratio.value:.0%} busy"
        if use.memory_used_bytes.value > memory_floor_bytes:
            return f"{uuid} had {use.memory_used_bytes.value >> 20} MiB in use"
    return ""


def _why(reading: NotSupported | Unreadable) -> str:
    return (
        "not supported here" if isinstance(reading, NotSupported) else f"unreadable ({reading.reason.value})"
    )
