"""One benchmark process from its first row in the store to its verdict: supervised, watched, parsed, judged.

A run that was not alone, or is not proven to have been, ends here as tainted, whatever its numbers say.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from gpumond.guards.lock import HeldLock
from gpumond.judge.verdict import WRONG_RESULTS, judge_run, judge_sanity
from gpumond.log import get_logger
from gpumond.model.benchmark import ParsedOutput, Row, points_of_row
from gpumond.model.identity import GpuUuid, RunId
from gpumond.model.run import TAINTED, Cause, Engine, Purpose, Run, Sweep, SweepOutcome, Verdict
from gpumond.model.topology import Vendor
from gpumond.model.watch import RunWatch
from gpumond.parsers.nccl_tests import Reader
from gpumond.process.environment import benchmark_environment
from gpumond.process.ownership import OwnProcesses
from gpumond.process.supervisor import Cancellation, Command, Limits, ProcessResult
from gpumond.process.supervisor import run as supervise
from gpumond.sweep.context import RefusedError, SweepContext, new_run_id
from gpumond.sweep.engines.engine import EngineCommand
from gpumond.sweep.events import RowMeasured, RunFinished, RunStarted, SweepEvent
from gpumond.sweep.nccl_logs import read_nccl_logs
from gpumond.sweep.observation import PresenceFinder, RunObserver, taint_of
from gpumond.sweep.permission import UNWATCHED
from gpumond.sweep.plan import Step, debug_subsystems, limits_of, parameters_hash, sizes_of
from gpumond.sweep.watch import GpuWatch

log = get_logger("sweep")

LOST_SECONDS = 60.0
"""The kernel needs 0.15 s for each GiB that a killed process had mapped (measured), and a driver may take its time."""

CLEAR_SECONDS_MAX = 5.0
"""How long the driver's lists are watched after a preemption; it takes 0.24-0.31 s on two H200s."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step that can run today; `number` of `count`. `scope` is what must be idle for it."""

    step: Step
    engine: Engine
    command: EngineCommand
    vendor: Vendor
    scope: tuple[GpuUuid, ...]
    number: int
    count: int


class Executor:
    """Runs the steps of one sweep, which holds `lock` and is watched."""

    def __init__(
        self,
        context: SweepContext,
        sweep: Sweep,
        *,
        lock: HeldLock,
        watch: GpuWatch,
        own: OwnProcesses,
        find: PresenceFinder,
        on_event: Callable[[SweepEvent], None],
    ) -> None:
        self._context = context
        self._sweep = sweep
        self._lock = lock
        self._watch = watch
        self._own = own
        self._find = find
        self._on_event = on_event

    def run(self, planned: PlannedStep, cancellation: Cancellation) -> Run:
        """Run a step to its end and store it. Raises RefusedError where nobody watches any more."""
        context = self._context
        run_id = new_run_id(context.clock.now())
        directory = context.work_directory / run_id
        observer = self._new_observer(planned, cancellation)
        run = self._new_run(planned, run_id, directory)
        context.store.start_run(run)
        rows = len(sizes_of(planned.step.parameters))
        self._on_event(RunStarted(run, planned.number, planned.count, rows))
        with _work_directory(directory):
            run, output = self._supervise(run, planned.step, directory, observer, cancellation)
            logs = read_nccl_logs(directory)
        run, output = replace(run, transport=logs.transport), output + logs.raw
        context.store.finish_run(run, output=output)
        self._count_preemption(run)
        self._on_event(RunFinished(run))
        _log_end(run)
        return run

    def _new_observer(self, planned: PlannedStep, cancellation: Cancellation) -> RunObserver:
        before = self._watch.look_after(self._context.clock.monotonic())
        if before is None:
            raise RefusedError(SweepOutcome.SKIPPED, UNWATCHED, self._watch.ended or "no look came in time")
        return RunObserver(planned.scope, find=self._find, cancellation=cancellation, before=before)

    def _new_run(self, planned: PlannedStep, run_id: RunId, directory: Path) -> Run:
        context, step = self._context, planned.step
        return Run(
            id=run_id,
            sweep_id=self._sweep.id,
            sweep=self._sweep.name,
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
                debug_subsystems=debug_subsystems(step),
            ),
            started_at=context.clock.now(),
            purpose=step.purpose,
        )

    def _supervise(
        self, run: Run, step: Step, directory: Path, observer: RunObserver, cancellation: Cancellation
    ) -> tuple[Run, bytes]:
        context = self._context
        reader = Reader()

        def on_line(line: str) -> bool:
            rows = reader.feed(line + "\n")
            for row in rows:
                self._publish(run, row)
            return bool(rows)

        cgroup = context.runs_cgroup / run.id if context.runs_cgroup else None

        def on_start(pid: int, start_ticks: int) -> None:
            self._own.add(pid, start_ticks, cgroup)
            context.store.set_run_process(run.id, pid=pid, start_ticks=start_ticks)

        limits = limits_of(step)
        with self._watch.observed_by(observer):
            result = supervise(
                Command(run.command, run.environment, directory, pass_fds=(self._lock.fd,), cgroup=cgroup),
                Limits(
                    total_seconds=limits.total_seconds,
                    first_row_seconds=limits.first_row_seconds,
                    row_seconds=limits.row_seconds,
                    lost_seconds=LOST_SECONDS,
                ),
                clock=context.clock,
                on_start=on_start,
                on_line=on_line,
                cancellation=cancellation,
            )
            self._look_at_the_end(observer)
        context.lost.remember(result.leftovers)
        watched = observer.conclude(result, cpu_load_average=os.getloadavg()[0])
        result = _as_cancelled(result, cancellation)
        return finish(run, result, reader, context.clock.now(), watched), result.output

    def _look_at_the_end(self, observer: RunObserver) -> None:
        """A look that began after the end shows whoever was there before it; after a preemption, until all is clear."""
        clock = self._context.clock
        ended_at = clock.monotonic()
        observer.end(ended_at)
        if self._watch.look_after(ended_at) is None:
            observer.lose("there was no look after its end")
        while observer.has_foreign and not observer.is_clear:
            now = clock.monotonic()
            if now > ended_at + CLEAR_SECONDS_MAX or self._watch.look_after(now) is None:
                return

    def _publish(self, run: Run, row: Row) -> None:
        points = points_of_row(row, run.collective)
        if points:
            self._context.store.add_points(run.id, points)
            self._on_event(RowMeasured(run, points))

    def _count_preemption(self, run: Run) -> None:
        preemption = run.watch.preemption if run.watch else None
        if preemption is not None and preemption.gone_seconds is not None:
            self._context.store.record_preemption(preemption.gone_seconds)


@contextmanager
def _work_directory(directory: Path) -> Iterator[None]:
    """Removed at the end, whatever happened."""
    try:
        (directory / "home").mkdir(parents=True, mode=0o700)
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _as_cancelled(result: ProcessResult, cancellation: Cancellation) -> ProcessResult:
    """Who ends a whole job (Slurm, a terminal) signals the benchmark and us at once: its end is that, and no crash."""
    was_signalled = result.cause is Cause.EXITED and (result.exit_status or 0) < 0
    if not (was_signalled and cancellation.is_cancelled):
        return result
    return replace(result, cause=Cause.CANCELLED, detail=cancellation.reason or "cancelled")


def finish(run: Run, result: ProcessResult, reader: Reader, now: datetime, watched: RunWatch) -> Run:
    """The run with all that is known of it after its end."""
    parsed = reader.finish()
    cause = result.cause
    if cause is Cause.CANCELLED and watched.preemption is not None:
        cause = Cause.PREEMPTED
    judgement = judge_run(cause, result.exit_status, parsed, detail=result.detail)
    if run.purpose is Purpose.SANITY:
        judgement = judge_sanity(judgement)
    finished = replace(
        run,
        pid=result.pid,
        start_ticks=result.start_ticks,
        ended_at=now,
        duration_seconds=result.duration_seconds,
        cause=cause,
        exit_status=result.exit_status,
        outcome=_outcome_of(cause, parsed),
        verdict=judgement.verdict,
        reason=judgement.reason,
        detail=judgement.detail,
        tool_version=parsed.tool_version or "",
        library_version=parsed.library_version or "",
        points=tuple(point for row in parsed.rows for point in points_of_row(row, run.collective)),
        watch=watched,
    )
    taint = taint_of(watched)
    if not taint:
        return finished
    if judgement.reason == WRONG_RESULTS:
        taint += f"; and {judgement.detail}"  # sharing explains a low number, not this
    return replace(finished, verdict=Verdict.NOT_EVALUATED, reason=TAINTED, detail=taint)


def _outcome_of(cause: Cause, parsed: ParsedOutput) -> str:
    """A table with a row that does not add up was misread, or lies: its other rows are no results either."""
    is_nothing = cause is Cause.NOT_STARTED or bool(parsed.rejected)
    return "" if is_nothing else parsed.outcome.value


def _log_end(run: Run) -> None:
    log.info(
        "run_finished",
        run=run.id,
        collective=run.collective.value,
        gpu_set=run.gpu_set.name,
        purpose=run.purpose.value,
        cause=run.cause.value if run.cause else "",
        verdict=run.verdict.value,
        reason=run.reason,
        seconds=round(run.duration_seconds or 0, 3),
    )
