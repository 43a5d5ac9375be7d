"""A sweep (one night's set of runs), its runs (one benchmark process each) and the verdict on them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gpumond.model.benchmark import Collective, Placement, Point
from gpumond.model.identity import GpuUuid, RunId
from gpumond.model.transport import TransportReport
from gpumond.model.watch import RunWatch


class Engine(StrEnum):
    """What measured."""

    NCCL_TESTS = "nccl-tests"
    RCCL_TESTS = "rccl-tests"
    NCCL4PY = "nccl4py"
    TORCH = "torch"
    SIMULATED = "simulated"


class EngineChoice(StrEnum):
    """What a sweep may ask for. On AMD hosts nccl-tests means rccl-tests."""

    AUTO = "auto"
    NCCL_TESTS = "nccl-tests"
    NCCL4PY = "nccl4py"
    TORCH = "torch"


class Cause(StrEnum):
    """Why a supervised child is no longer running."""

    EXITED = "exited"
    NO_FIRST_ROW = "no_first_row"
    ROW_STALLED = "row_stalled"
    TOTAL_TIMEOUT = "total_timeout"
    OUTPUT_LIMIT = "output_limit"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"  # killed, because somebody else came to the GPUs
    LOST = "lost"  # still there after SIGKILL
    NOT_STARTED = "not_started"  # missing, not executable, or no process could be made
    ABORTED = "aborted"  # the daemon died; found at the next start


class Verdict(StrEnum):
    """The four verdicts (DESIGN rule 7)."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILED = "failed"
    NOT_EVALUATED = "not_evaluated"


TAINTED = "tainted"
"""Run.reason of a run that shared a GPU, or that is not proven to have been alone: kept for the record, never judged,
never a baseline (DESIGN rule 8)."""

PREEMPTED = "preempted"
"""Sweep.reason of a sweep that gave the GPUs back."""


class SweepOutcome(StrEnum):
    """How a sweep as a whole ended. A skip is not a failure: nothing was measured, and the reason says why."""

    SUCCESS = "success"
    FAILURE = "failure"
    SKIPPED = "skipped"


class Trigger(StrEnum):
    """Who asked for a sweep."""

    WINDOW = "window"
    EVENT = "event"  # a boot, or a change of the host
    COMMAND = "command"
    REQUEST = "request"  # the command line, through a running daemon
    START = "start"  # demo: once, right after start-up
    CONFIRMATION = "confirmation"  # a low night is measured again
    IMPORT = "import"  # nobody: a log of an earlier benchmark was read


class Purpose(StrEnum):
    """Why a benchmark ran. Only a measurement is ever a value of a series."""

    MEASUREMENT = "measurement"
    HANG_CHECK = "hang_check"  # the one re-run after a hang, without P2P
    SANITY = "sanity"  # does every rank see the sum of all?
    IMPORTED = "imported"  # somebody's log; never judged


@dataclass(frozen=True, slots=True)
class GpuSet:
    """A configured name and the GPUs behind it today, ordered by PCI bus id."""

    name: str
    uuids: tuple[GpuUuid, ...]


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """What makes two results comparable (DESIGN 5). `parameters_hash` covers the members of the GPU set too."""

    sweep: str
    engine: Engine
    gpu_set: str
    collective: Collective
    datatype: str
    redop: str
    size_bytes: int
    placement: Placement
    parameters_hash: str


@dataclass(frozen=True, slots=True)
class Run:
    """One benchmark process, finished or not. Environment values of secrets never get here: it is an allow-list.

    `ended_at` None means that it is still running, or that the daemon died under it. `pid` and `start_ticks`
    (field 22 of /proc/PID/stat) identify the process without doubt.
    """

    id: RunId
    sweep_id: RunId
    sweep: str
    engine: Engine
    gpu_set: GpuSet
    collective: Collective
    parameters_hash: str
    command: tuple[str, ...]
    environment: dict[str, str]
    started_at: datetime
    pid: int | None = None
    start_ticks: int | None = None
    ended_at: datetime | None = None
    duration_seconds: float | None = None
    cause: Cause | None = None
    exit_status: int | None = None
    outcome: str = ""
    """The parser's TextOutcome; empty where the text is no result: nothing was parsed, or rows do not add up."""
    verdict: Verdict = Verdict.NOT_EVALUATED
    reason: str = ""
    detail: str = ""
    tool_version: str = ""
    library_version: str = ""
    points: tuple[Point, ...] = ()
    purpose: Purpose = Purpose.MEASUREMENT
    watch: RunWatch | None = None
    """None where nothing watched: a run of an older gpumond, or one that a dead daemon left."""
    transport: TransportReport | None = None
    """None where NCCL left no log."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """One execution of a configured sweep; its runs are stored beside it. `reason` is empty for a success."""

    id: RunId
    name: str
    trigger: Trigger
    started_at: datetime
    planned_runs: int
    ended_at: datetime | None = None
    duration_seconds: float | None = None
    outcome: SweepOutcome | None = None
    reason: str = ""
    detail: str = ""


def series_of(run: Run, point: Point) -> SeriesKey:
    return SeriesKey(
        sweep=run.sweep,
        engine=run.engine,
        gpu_set=run.gpu_set.name,
        collective=point.collective,
        datatype=point.datatype,
        redop=point.redop,
        size_bytes=point.size_bytes,
        placement=point.placement,
        parameters_hash=run.parameters_hash,
    )
