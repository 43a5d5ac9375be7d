"""One sweep from lock to stored verdict: guard -> run -> watch -> parse -> judge -> store.

Everything that happens ends as a row in the store: a refusal with its evidence, a run with its cause. The runner never
retries and never decides when: that is the schedule's business.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from gpumond.clock import Clock
from gpumond.errors import HostError, LockedError, NotEvaluatedError, UsageError
from gpumond.guards.lock import HeldLock, hold_lock
from gpumond.guards.processes import check_processes
from gpumond.guards.report import GuardReport
from gpumond.judge.verdict import is_success, judge_run
from gpumond.log import get_logger
from gpumond.model.benchmark import Row, points_of_row
from gpumond.model.identity import RunId
from gpumond.model.run import Cause, Engine, Run, Sweep, SweepOutcome, Trigger
from gpumond.model.topology import Snapshot, Vendor
from gpumond.parsers.nccl_tests import Reader
from gpumond.process.environment import benchmark_environment
from gpumond.process.supervisor import Cancellation, Command, Limits, ProcessResult
from gpumond.process.supervisor import run as supervise
from gpumond.store.sqlite import Store
from gpumond.sweep.engines.engine import BenchmarkEngine, EngineCommand
from gpumond.sweep.events import (
    RowMeasured,
    RunFinished,
    RunStarted,
    SweepEvent,
    SweepFinished,
    SweepStarted,
)
from gpumond.sweep.plan import GpuSetRule, Step, SweepSpec, limits_of, parameters_hash, plan_sweep, sizes_of

log = get_logger("sweep")

KEPT_NCCL_LOG_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class SweepContext:
    """What a runner needs of the host; the same for every sweep."""

    store: Store
    clock: Clock
    take_snapshot: Callable[[], Snapshot]
    """A fresh look at the GPUs. Raises NotEvaluatedError where none can be had."""
    engine_for: Callable[[Snapshot], BenchmarkEngine]
    """What measures these GPUs."""
    gpu_sets: Mapping[str, GpuSetRule]
    lock_file: Path
    work_directory: Path
    """Gets one directory a run, removed when the run ends: the benchmark's HOME and NCCL's log files."""
    base_environment: Mapping[str, str]
    min_free_bytes: int


@dataclass(frozen=True, slots=True)
class SweepReport:
    sweep: Sweep
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class _Planned:
    """A step that can run today; `number` of `count`."""

    step: Step
    engine: Engine
    command: EngineCommand
    vendor: Vendor
    number: int
    count: int


class _RefusedError(Exception):
    """The sweep does not happen, or not as planned; becomes its outcome."""

    def __init__(self, outcome: SweepOutcome, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome, self.reason, self.detail = outcome, reason, detail


def new_run_id(now: datetime) -> RunId:
    return RunId(f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{uuid4().hex[:6]}")


class SweepRunner:
    """Runs sweeps, one at a time in the calling thread, which must live as long as the benchmark does."""

    def __init__(
        self, context: SweepContext, *, on_event: Callable[[SweepEvent], None] = lambda _event: None
    ) -> None:
        self._context = context
        self._on_event = on_event

    def run(
        self, spec: SweepSpec, *, trigger: Trigger, cancellation: Cancellation, sweep_id: RunId | None = None
    ) -> SweepReport:
        """Run a sweep and store it. Refusals are outcomes; only a store that cannot be written raises (StoreError)."""
        context = self._context
        started = context.clock.monotonic()
        now = context.clock.now()
        sweep = Sweep(
            id=sweep_id or new_run_id(now),
            name=spec.name,
            trigger=trigger,
            started_at=now,
            planned_runs=len(spec.gpu_sets) * len(spec.collectives),
        )
        context.store.start_sweep(sweep)
        self._on_event(SweepStarted(sweep))
        log.info("sweep_started", sweep=spec.name, id=sweep.id, trigger=trigger.value)
        runs: list[Run] = []
        try:
            self._run_steps(spec, sweep, cancellation, runs)
            outcome, reason, detail = _summarise(runs)
        except _RefusedError as refusal:
            outcome, reason, detail = refusal.outcome, refusal.reason, refusal.detail
        sweep = replace(
            sweep,
            ended_at=context.clock.now(),
            duration_seconds=context.clock.monotonic() - started,
            outcome=outcome,
            reason=reason,
            detail=detail,
        )
        context.store.finish_sweep(sweep)
        self._on_event(SweepFinished(sweep))
        log.info(
            "sweep_finished",
            sweep=spec.name,
            id=sweep.id,
            outcome=outcome.value,
            reason=reason,
            detail=detail,
        )
        return SweepReport(sweep, tuple(runs))

    def _run_steps(self, spec: SweepSpec, sweep: Sweep, cancellation: Cancellation, runs: list[Run]) -> None:
        context = self._context
        free = context.store.free_bytes()
        if free < context.min_free_bytes:
            raise _RefusedError(
                SweepOutcome.SKIPPED,
                "disk_full",
                f"{free} bytes are free for results, {context.min_free_bytes} are needed",
            )
        try:
            with hold_lock(context.lock_file, purpose=f"sweep {sweep.id}", clock=context.clock) as lock:
                for planned in self._plan(spec):
                    if cancellation.is_cancelled:
                        reason = cancellation.reason or "cancelled"
                        raise _RefusedError(SweepOutcome.SKIPPED, "cancelled", reason)
                    runs.append(self._run_step(sweep, planned, lock, cancellation))
        except LockedError as error:
            raise _RefusedError(SweepOutcome.SKIPPED, "locked", error.message) from error
        except HostError as error:
            raise _RefusedError(SweepOutcome.FAILURE, "environment", _with_hint(error)) from error
        except UsageError as error:
            raise _RefusedError(SweepOutcome.FAILURE, "gpu_set", _with_hint(error)) from error
        except NotEvaluatedError as error:
            raise _RefusedError(SweepOutcome.SKIPPED, "no_snapshot", _with_hint(error)) from error

    def _plan(self, spec: SweepSpec) -> Sequence[_Planned]:
        """Every step with its command, before the first one runs; raises what makes the sweep impossible today."""
        snapshot = self._context.take_snapshot()
        steps = plan_sweep(spec, self._context.gpu_sets, snapshot)
        engine = self._context.engine_for(snapshot)
        vendor = snapshot.vendor or Vendor.NVIDIA
        planned = [
            _Planned(step, engine.name, engine.command(step), vendor, number, len(steps))
            for number, step in enumerate(steps, start=1)
        ]
        for step in steps:
            _require(check_processes(snapshot, step.gpu_set.uuids))
        return planned

    def _run_step(self, sweep: Sweep, planned: _Planned, lock: HeldLock, cancellation: Cancellation) -> Run:
        context = self._context
        now = context.clock.now()
        run_id = new_run_id(now)
        directory = context.work_directory / run_id
        run = self._new_run(sweep, planned, run_id, directory)
        context.store.start_run(run)
        rows = len(sizes_of(planned.step.parameters))
        self._on_event(RunStarted(run, planned.number, planned.count, rows))
        try:
            (directory / "home").mkdir(parents=True, mode=0o700)
            run, output = self._supervise(run, planned.step, directory, lock, cancellation)
            output += _read_nccl_logs(directory)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        context.store.finish_run(run, output=output)
        self._on_event(RunFinished(run))
        log.info(
            "run_finished",
            run=run.id,
            collective=run.collective.value,
            gpu_set=run.gpu_set.name,
            cause=run.cause.value if run.cause else "",
            verdict=run.verdict.value,
            reason=run.reason,
            seconds=round(run.duration_seconds or 0, 3),
        )
        return run

    def _new_run(self, sweep: Sweep, planned: _Planned, run_id: RunId, directory: Path) -> Run:
        context, step = self._context, planned.step
        return Run(
            id=run_id,
            sweep_id=sweep.id,
            sweep=sweep.name,
            engine=planned.engine,
            gpu_set=step.gpu_set,
            collective=step.collective,
            parameters_hash=parameters_hash(planned.engine, step),
            command=planned.command.argv,
            environment=benchmark_environment(
                context.base_environment,
                gpu_uuids=step.gpu_set.uuids,
                extra=dict(step.parameters.environment),
                home=directory / "home",
                run_directory=directory,
                library_path=planned.command.library_path,
                vendor=planned.vendor,
            ),
            started_at=context.clock.now(),
        )

    def _supervise(
        self, run: Run, step: Step, directory: Path, lock: HeldLock, cancellation: Cancellation
    ) -> tuple[Run, bytes]:
        context = self._context
        reader = Reader()

        def on_line(line: str) -> bool:
            rows = reader.feed(line + "\n")
            for row in rows:
                self._publish(run, row)
            return bool(rows)

        limits = limits_of(step)
        result = supervise(
            Command(run.command, run.environment, directory, pass_fds=(lock.fd,)),
            Limits(
                total_seconds=limits.total_seconds,
                first_row_seconds=limits.first_row_seconds,
                row_seconds=limits.row_seconds,
            ),
            clock=context.clock,
            on_start=lambda pid, ticks: context.store.set_run_process(run.id, pid=pid, start_ticks=ticks),
            on_line=on_line,
            cancellation=cancellation,
        )
        return _finish(run, result, reader, context.clock.now()), result.output

    def _publish(self, run: Run, row: Row) -> None:
        points = points_of_row(row, run.collective)
        if points:
            self._context.store.add_points(run.id, points)
            self._on_event(RowMeasured(run, points))


def _require(report: GuardReport) -> None:
    if not report.is_clear:
        raise _RefusedError(SweepOutcome.SKIPPED, "busy", f"{report.guard}: {report.evidence}")


def _finish(run: Run, result: ProcessResult, reader: Reader, now: datetime) -> Run:
    parsed = reader.finish()
    judgement = judge_run(result.cause, result.exit_status, parsed, detail=result.detail)
    return replace(
        run,
        pid=result.pid,
        start_ticks=result.start_ticks,
        ended_at=now,
        duration_seconds=result.duration_seconds,
        cause=result.cause,
        exit_status=result.exit_status,
        outcome=parsed.outcome.value if result.cause is not Cause.NOT_STARTED else "",
        verdict=judgement.verdict,
        reason=judgement.reason,
        detail=judgement.detail,
        tool_version=parsed.tool_version or "",
        library_version=parsed.library_version or "",
        points=tuple(point for row in parsed.rows for point in points_of_row(row, run.collective)),
    )


def _summarise(runs: Sequence[Run]) -> tuple[SweepOutcome, str, str]:
    bad = [run for run in runs if not is_success(run.verdict, run.reason)]
    if not bad:
        return SweepOutcome.SUCCESS, "", ""
    worst = next((run for run in bad if run.reason == "wrong_results"), bad[0])
    if worst.cause is Cause.CANCELLED:
        return SweepOutcome.SKIPPED, "cancelled", worst.detail
    return (
        SweepOutcome.FAILURE,
        worst.reason,
        f"{worst.collective.value} on {worst.gpu_set.name}: {worst.detail}",
    )


def _with_hint(error: HostError | UsageError | NotEvaluatedError) -> str:
    return f"{error.message}. {error.hint}" if error.hint else error.message


def _read_nccl_logs(directory: Path) -> bytes:
    """What NCCL wrote to its own log files, behind a marker line: kept with the raw output."""
    parts = []
    for path in sorted(directory.glob("nccl.*.log"))[:16]:
        with path.open("rb") as file:
            text = file.read(KEPT_NCCL_LOG_BYTES)
        if text:
            parts.append(b"\n# gpumond: " + path.name.encode() + b"\n" + text)
    return b"".join(parts)
