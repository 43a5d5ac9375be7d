"""What a sweep tells whoever watches it: the daemon's status board, or a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gpumond.model.benchmark import Point
from gpumond.model.run import Run, Sweep


@dataclass(frozen=True, slots=True)
class SweepStarted:
    sweep: Sweep


@dataclass(frozen=True, slots=True)
class RunStarted:
    """`expected_rows` is what the plan asks for; the benchmark may clamp it to the memory."""

    run: Run
    number: int
    planned_runs: int
    expected_rows: int


@dataclass(frozen=True, slots=True)
class RowMeasured:
    """One row of the running benchmark: a point for each placement."""

    run: Run
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class RunFinished:
    run: Run


@dataclass(frozen=True, slots=True)
class SweepFinished:
    sweep: Sweep


SweepEvent: TypeAlias = SweepStarted | RunStarted | RowMeasured | RunFinished | SweepFinished
