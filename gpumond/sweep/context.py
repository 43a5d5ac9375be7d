"""What a sweep needs of the host, and what comes out of it. Values only; gpumond.assembly puts them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from gpumond.clock import Clock
from gpumond.guards.quiet import QuietLog, QuietRule
from gpumond.guards.report import Guard
from gpumond.model.identity import RunId
from gpumond.model.run import Run, Sweep, SweepOutcome
from gpumond.model.topology import Snapshot, Vendor
from gpumond.process.lost import LostProcesses
from gpumond.store.sqlite import Store
from gpumond.sweep.engines.engine import BenchmarkEngine
from gpumond.sweep.plan import GpuSetRule, Step
from gpumond.sweep.watch import WatchCommand


@dataclass(frozen=True, slots=True)
class QuietPolicy:
    """How long GPUs must have been quiet, for the timetable and for a person who waits; and where that is known from."""

    scheduled: QuietRule
    by_hand: QuietRule
    log: QuietLog


@dataclass(frozen=True, slots=True)
class SweepContext:
    """What a runner needs of the host; the same for every sweep."""

    store: Store
    clock: Clock
    take_snapshot: Callable[[], Snapshot]
    """A fresh look at the GPUs. Raises NotEvaluatedError where none can be had."""
    engine_for: Callable[[Step, Snapshot], BenchmarkEngine]
    """What measures a step on these GPUs. Raises HostError where it is not on this host."""
    gpu_sets: Mapping[str, GpuSetRule]
    lock_file: Path
    work_directory: Path
    """Gets one directory a run, removed when the run ends: the benchmark's HOME and NCCL's log files."""
    base_environment: Mapping[str, str]
    min_free_bytes: int
    watch_for: Callable[[Vendor], WatchCommand]
    """What watches GPUs of a vendor."""
    quiet: QuietPolicy
    guards: tuple[Guard, ...] = ()
    """Besides the lock, the process lists and the quiet, which are not a matter of configuration."""
    runs_cgroup: Path | None = None
    """Where each benchmark gets a cgroup of its own; None where no cgroup is ours."""
    lost: LostProcesses = field(default_factory=LostProcesses)
    """What of a sweep has survived SIGKILL: nothing is started beside one that is still there."""
    own_job: str = ""
    """The Slurm job that this process is, empty where it is none. A job has nobody's memory of the last minutes."""
    allowed_processes: frozenset[str] = field(default=frozenset())
    """Names of processes that may be on the GPUs: a display server, a monitor."""


@dataclass(frozen=True, slots=True)
class SweepReport:
    """`runs` holds the re-run after a hang too."""

    sweep: Sweep
    runs: tuple[Run, ...]


class RefusedError(Exception):
    """The sweep does not happen, or does not go on; becomes its outcome."""

    def __init__(self, outcome: SweepOutcome, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome, self.reason, self.detail = outcome, reason, detail


def new_run_id(now: datetime) -> RunId:
    return RunId(f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{uuid4().hex[:6]}")
