"""How often the judge cries wolf, and how soon it sees a loss: years of nights, replayed through the real judge.

Prints the section "Detection" of docs/results.md: `python bench/detection.py`; `--check` compares with what is committed
there (the seeds are fixed, so every number must be the same); `--processes N` sets how many cores it may use.

A host has 5 collectives x 4 sizes. A night's noise is half common to the host and half of each value (in standard
deviation). A disturbed night is 4-12 % low as a whole. A low night is run again up to 5 times, as the daemon does; a
disturbance outlasts each re-run with probability PERSISTENCE. Disturbed nights come in clusters: one is followed by
another with probability 0.5; they are 2 % of all. 3 % of nights are missing, and two weeks of each year; every 60 nights
the driver changes, which costs nothing.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpumond import __version__
from gpumond.judge.night import judge_night, worth_rerun
from gpumond.judge.observation import Observation
from gpumond.model.baseline import Scope, ScopeMemory, TrackKey
from gpumond.model.finding import Finding, FindingKind

SEED = 20261129
RESULTS = Path(__file__).parents[1] / "docs" / "results.md"
SECTION = "## Detection"

START = datetime(2026, 1, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)
RERUN_AFTER = timedelta(minutes=10)
RERUNS_MAX = 5
PERSISTENCE = 0.5
COMMON_SHARE = 0.5
SCOPE = Scope("nightly", "nccl-tests", "all")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast")
KEYS = tuple(TrackKey(name, "float", "sum", 8) for name in COLLECTIVES)
CURVE = {64 << 20: 362e9, 256 << 20: 423e9, 1 << 30: 466e9, 4 << 30: 476e9}
LEARNING_NIGHTS = 28
ALARMS = (FindingKind.STEP, FindingKind.DRIFT, FindingKind.FAILED)


@dataclass(frozen=True, slots=True)
class World:
    """What a host goes through. `loss(night)` is the true state of its hardware, as a factor."""

    noise: float
    disturbed: float = 0.0
    clustered: float = 0.0
    """The probability that a disturbed night is followed by another one."""
    missing: float = 0.03
    holiday_nights: int = 14
    update_every: int = 0
    """Nights between driver updates that cost nothing; 0 for none."""
    loss: Callable[[int], float] = field(default=lambda _night: 1.0)
    update_at: int = -1


class Host:
    """One host of a world, with its own luck."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.memory = ScopeMemory()
        self.is_disturbed = False

    def nights(self, count: int) -> Iterator[tuple[int, Sequence[Finding]]]:
        """Each night that was measured, with what the judge said of it."""
        for night in range(count):
            self._next_disturbance()
            if self._is_missing(night):
                continue
            yield night, self._night(night)

    def _is_missing(self, night: int) -> bool:
        if night < LEARNING_NIGHTS:
            return False
        if self.world.holiday_nights and 200 <= night % 365 < 200 + self.world.holiday_nights:
            return True
        return self.random.random() < self.world.missing

    def _next_disturbance(self) -> None:
        world = self.world
        if not world.disturbed:
            return
        # The rate of a cluster's first night, so that the share of disturbed nights is the same.
        first = world.disturbed * (1 - world.clustered) / (1 - world.disturbed)
        self.is_disturbed = self.random.random() < (world.clustered if self.is_disturbed else first)

    def _night(self, night: int) -> Sequence[Finding]:
        depth = self.random.uniform(0.04, 0.12) if self.is_disturbed else 0.0
        at = START + night * DAY
        runs = [self._run(key, night, at, depth, common) for common in (self._common(),) for key in KEYS]
        for number in range(1, RERUNS_MAX + 1):
            low = worth_rerun(self.memory, runs)
            if not low:
                break
            if self.random.random() >= PERSISTENCE:
                depth = 0.0
            common = self._common()
            runs += [
                self._run(key, night, at + number * RERUN_AFTER, depth, common, is_rerun=True) for key in low
            ]
        result = judge_night(self.memory, SCOPE, runs)
        self.memory = result.memory
        return result.findings

    def _common(self) -> float:
        return self.random.gauss(0.0, self.world.noise * COMMON_SHARE)

    def _run(
        self, key: TrackKey, night: int, at: datetime, depth: float, common: float, *, is_rerun: bool = False
    ) -> Observation:
        world = self.world
        factor = (1 + common) * (1 - depth) * world.loss(night)
        own = world.noise * math.sqrt(1 - COMMON_SHARE**2)
        gauss = self.random.gauss
        return Observation(
            at=at,
            scope=SCOPE,
            track=key,
            busbw={size: value * factor * (1 + gauss(0.0, own)) for size, value in CURVE.items()},
            fingerprint=self._fingerprint(night),
            rows=len(CURVE),
            is_rerun=is_rerun,
        )

    def _fingerprint(self, night: int) -> dict[str, str]:
        version = night // self.world.update_every if self.world.update_every else 0
        if self.world.update_at >= 0:
            version = int(night >= self.world.update_at)
        return _FINGERPRINTS[version]


_FINGERPRINTS = [{"driver": f"580.{number}", "nccl": "2.28.9"} for number in range(64)]


# What is counted


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """A healthy world, for a year a host."""

    name: str
    world: World
    hosts: int = 200


@dataclass(frozen=True, slots=True)
class Delay:
    """A loss from LEARNING_NIGHTS on, until the first alarm."""

    name: str
    noise: float
    loss: str
    hosts: int = 60
    nights: int = 30


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A software update that changes the level by `level`: is it accepted without a person?"""

    name: str
    level: float
    hosts: int = 30


Experiment = FalseAlarms | Delay | Acceptance

EXPERIMENTS: tuple[Experiment, ...] = (
    FalseAlarms("noise 1 %", World(0.01, disturbed=0.02, clustered=0.5, update_every=60)),
    FalseAlarms("noise 0.25 %", World(0.0025, disturbed=0.02, clustered=0.5, update_every=60), hosts=40),
    Delay("noise 1 %: step 3 %", 0.01, "step 0.03"),
    Delay("noise 1 %: step 5 %", 0.01, "step 0.05"),
    Delay("noise 1 %: step 10 %", 0.01, "step 0.10"),
    Delay("noise 1 %: drift 0.2 % a day", 0.01, "drift 0.002", hosts=100),
    Delay("noise 0.25 %: step 1 %", 0.0025, "step 0.01"),
    Acceptance("update that costs 3 %", 0.97, hosts=150),
    Acceptance("update that costs 1 %", 0.99),
    Acceptance("update that costs nothing", 1.0),
)
CHUNKS = 8
"""Parts of an experiment that are worked on apart; each has seeds of its own, so their number changes the numbers."""


@dataclass(slots=True)
class Counts:
    """Of one part of an experiment. `delays` in nights, counted from 1; None: not seen."""

    host_years: float = 0.0
    alarms: int = 0
    provisional: int = 0
    delays: list[int | None] = field(default_factory=list)
    provisional_at_once: int = 0
    accepted: int = 0
    hosts: int = 0


def run_chunk(task: tuple[int, int]) -> Counts:
    """Part `chunk` of experiment `number`."""
    gc.disable()  # values only, and no cycles among them: looking for some costs a fifth of the time
    number, chunk = task
    experiment = EXPERIMENTS[number]
    counts = Counts()
    for index in range(chunk, experiment.hosts, CHUNKS):
        seed = SEED + 1_000_003 * number + index
        counts.hosts += 1
        match experiment:
            case FalseAlarms():
                _count_false_alarms(experiment, seed, counts)
            case Delay():
                _count_delay(experiment, seed, counts)
            case Acceptance():
                _count_acceptance(experiment, seed, counts)
    return counts


def _count_false_alarms(experiment: FalseAlarms, seed: int, counts: Counts) -> None:
    seen: dict[str, Finding] = {}
    for _, findings in Host(experiment.world, seed).nights(365):
        seen.update({f"{finding.kind} {finding.subject}": finding for finding in findings})
    counts.host_years += 1
    counts.alarms += sum(finding.kind in ALARMS for finding in seen.values())
    counts.provisional += sum(
        finding.kind is FindingKind.PROVISIONAL and finding.confirmed_at is None for finding in seen.values()
    )


def _count_delay(experiment: Delay, seed: int, counts: Counts) -> None:
    world = World(
        experiment.noise, disturbed=0.02, missing=0, holiday_nights=0, loss=_loss_of(experiment.loss)
    )
    for night, findings in Host(world, seed).nights(LEARNING_NIGHTS + experiment.nights):
        since = night - LEARNING_NIGHTS + 1
        if since < 1:
            continue
        kinds = {finding.kind for finding in findings if finding.closed_at is None}
        counts.provisional_at_once += since == 1 and FindingKind.PROVISIONAL in kinds
        if kinds & set(ALARMS):
            counts.delays.append(since)
            return
    counts.delays.append(None)


def _count_acceptance(experiment: Acceptance, seed: int, counts: Counts) -> None:
    world = World(
        0.01,
        disturbed=0.02,
        missing=0,
        holiday_nights=0,
        loss=lambda night: experiment.level if night >= LEARNING_NIGHTS else 1.0,
        update_at=LEARNING_NIGHTS,
    )
    for _, findings in Host(world, seed).nights(LEARNING_NIGHTS + 22):
        if any(
            finding.kind is FindingKind.BASELINE_CANDIDATE and finding.confirmed_at for finding in findings
        ):
            counts.accepted += 1
            return


def _loss_of(text: str) -> Callable[[int], float]:
    kind, size = text.split()
    amount = float(size)
    if kind == "step":
        return lambda night: 1 - amount if night >= LEARNING_NIGHTS else 1.0
    return lambda night: 1 - amount * max(0, night - LEARNING_NIGHTS + 1)


def merged(parts: Sequence[Counts]) -> Counts:
    return Counts(
        host_years=sum(part.host_years for part in parts),
        alarms=sum(part.alarms for part in parts),
        provisional=sum(part.provisional for part in parts),
        delays=[delay for part in parts for delay in part.delays],
        provisional_at_once=sum(part.provisional_at_once for part in parts),
        accepted=sum(part.accepted for part in parts),
        hosts=sum(part.hosts for part in parts),
    )


def upper_bound(events: int, exposure: float, confidence: float = 0.95) -> float:
    """The highest rate under which so few events have still a probability of 1 - confidence (Poisson, exact)."""
    low, high = 0.0, 10.0 + 5.0 * events
    for _ in range(60):
        middle = (low + high) / 2
        term = total = math.exp(-middle)
        for count in range(1, events + 1):
            term *= middle / count
            total += term
        low, high = (middle, high) if total > 1 - confidence else (low, middle)
    return high / exposure


# What is printed


def table_of(results: Sequence[Counts]) -> list[str]:
    """The committed table, a line at a time; every number follows from the seed."""
    lines = [
        "| healthy hosts, 2 % of nights disturbed | host-years | false alarms a host-year | 95 % upper bound | false provisional ones |",
        "| --- | --- | --- | --- | --- |",
    ]
    pairs = list(zip(EXPERIMENTS, results, strict=True))
    for experiment, counts in pairs:
        if isinstance(experiment, FalseAlarms):
            lines.append(
                f"| {experiment.name} | {counts.host_years:.0f} | {counts.alarms / counts.host_years:.3f}"
                f" | {upper_bound(counts.alarms, counts.host_years):.3f}"
                f" | {counts.provisional / counts.host_years:.2f} |"
            )
    lines += ["", "| loss | hosts | nights until the alarm: median / 90 % | provisional on the first night |"]
    lines.append("| --- | --- | --- | --- |")
    for experiment, counts in pairs:
        if isinstance(experiment, Delay):
            at_once = counts.provisional_at_once / counts.hosts
            lines.append(f"| {experiment.name} | {counts.hosts} | {_delays(counts)} | {at_once:.0%} |")
    lines += ["", "| software update, noise 1 % | hosts | accepted without a person |", "| --- | --- | --- |"]
    for experiment, counts in pairs:
        if isinstance(experiment, Acceptance):
            lines.append(f"| {experiment.name} | {counts.hosts} | {counts.accepted / counts.hosts:.1%} |")
    return lines


def _delays(counts: Counts) -> str:
    ordered = sorted(math.inf if delay is None else delay for delay in counts.delays)
    middle = statistics.median_low(ordered)
    late = ordered[math.ceil(0.9 * len(ordered)) - 1]
    return f"{middle:.0f} / {late:.0f}"


def committed_table() -> list[str]:
    text = RESULTS.read_text(encoding="utf-8")
    section = text.partition(SECTION)[2].partition("\n## ")[0]
    lines = section.splitlines()
    rows = [number for number, line in enumerate(lines) if line.startswith("|")]
    return lines[rows[0] : rows[-1] + 1] if rows else []


def run_all(processes: int) -> list[Counts]:
    tasks = [(number, chunk) for number in range(len(EXPERIMENTS)) for chunk in range(CHUNKS)]
    if processes == 1:
        parts = [run_chunk(task) for task in tasks]
    else:
        with ProcessPoolExecutor(processes) as pool:
            parts = list(pool.map(run_chunk, tasks))
    return [merged(parts[first : first + CHUNKS]) for first in range(0, len(parts), CHUNKS)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help=f"fail where {RESULTS.name} has other numbers")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    began = time.perf_counter()
    table = table_of(run_all(arguments.processes))
    print(f"gpumond {__version__}, Python {platform.python_version()}, {platform.machine()}, seed {SEED}")
    print(f"{arguments.processes} processes, {time.perf_counter() - began:.1f} s\n")
    print("\n".join(table))
    if arguments.check and table != committed_table():
        print(f"\n{RESULTS} has other numbers", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
