"""One sweep from lock to stored outcome: plan, guards, watch, then a run for each step, and what follows a hang.

Everything that happens ends as a row in the store: a refusal with its evidence, a run with its cause. The runner never
decides when: that is the schedule's business. It tries again in one case only, after a hang, without P2P.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from gpumond.errors import HostError, LockedError, NotEvaluatedError, UsageError
from gpumond.guards.lock import hold_lock
from gpumond.guards.processes import find_foreign
from gpumond.guards.report import GuardReport
from gpumond.guards.scope import guard_scope
from gpumond.judge.verdict import WRONG_RESULTS, is_success
from gpumond.log import get_logger
from gpumond.model.finding import FindingKind
from gpumond.model.identity import RunId
from gpumond.model.run import PREEMPTED, TAINTED, Cause, Engine, Purpose, Run, Sweep, SweepOutcome, Trigger
from gpumond.model.topology import Snapshot, Vendor
from gpumond.model.watch import WatchLook, WatchTarget
from gpumond.process.ownership import OwnProcesses, name_of
from gpumond.process.supervisor import Cancellation
from gpumond.sweep import hang
from gpumond.sweep.context import RefusedError, SweepContext, SweepReport, new_run_id
from gpumond.sweep.ending import end_sweep
from gpumond.sweep.events import SweepEvent, SweepStarted
from gpumond.sweep.execution import Executor, PlannedStep
from gpumond.sweep.fit import fit
from gpumond.sweep.observation import PresenceFinder
from gpumond.sweep.permission import UNWATCHED, Permission, ask_unkillable, require
from gpumond.sweep.plan import Step, SweepSpec, count_steps, parameters_hash, plan_sweep
from gpumond.sweep.watch import GpuWatch

log = get_logger("sweep")

BY_HAND = frozenset({Trigger.COMMAND, Trigger.REQUEST, Trigger.START})
"""Somebody waits for these sweeps."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sweep would do on the host as `snapshot` shows it."""

    snapshot: Snapshot
    steps: tuple[PlannedStep, ...]

    @property
    def targets(self) -> tuple[WatchTarget, ...]:
        """Every GPU that must be idle for any of the steps, by PCI bus id."""
        wanted = {uuid for step in self.steps for uuid in step.scope}
        gpus = sorted(self.snapshot.gpus, key=lambda gpu: gpu.pci_bus_id)
        return tuple(WatchTarget(gpu.uuid, gpu.pci_bus_id) for gpu in gpus if gpu.uuid in wanted)


def make_plan(spec: SweepSpec, context: SweepContext) -> Plan:
    """Every step with its command, before the first one runs; raises what makes the sweep impossible today."""
    snapshot = context.take_snapshot()
    planned_steps = plan_sweep(spec, context.gpu_sets, snapshot)
    engines = [context.engine_for(step, snapshot) for step in planned_steps]
    steps = _fitted(planned_steps, [engine.name for engine in engines], snapshot, context)
    planned = tuple(
        PlannedStep(
            step=step,
            engine=engine.name,
            command=engine.command(step),
            vendor=snapshot.vendor or Vendor.NVIDIA,
            scope=guard_scope(snapshot, step.gpu_set.uuids, beside_jobs=step.parameters.beside_jobs),
            number=number,
            count=len(steps),
        )
        for number, (step, engine) in enumerate(zip(steps, engines, strict=True), start=1)
    )
    return Plan(snapshot, planned)


def _fitted(
    steps: Sequence[Step], engines: Sequence[Engine], snapshot: Snapshot, context: SweepContext
) -> tuple[Step, ...]:
    latest = context.store.latest_points()
    return tuple(
        fit(
            step,
            snapshot,
            latest,
            series_max_bytes=context.store.largest_size(
                sweep=step.sweep,
                engine=engine,
                gpu_set=step.gpu_set.name,
                collective=step.collective,
                parameters_hash=parameters_hash(engine, step),
            ),
        )
        for step, engine in zip(steps, engines, strict=True)
    )


def ask_guards(plan: Plan, context: SweepContext, cancellation: Cancellation) -> tuple[GuardReport, ...]:
    """What each guard says of a sweep by hand, now. Raises RefusedError where nobody can watch."""
    own = OwnProcesses()
    uuids = tuple(target.uuid for target in plan.targets)
    with _watching(plan, context, own) as watch:
        permission = Permission(
            context, snapshot=plan.snapshot, watch=watch, find=_finder(context, own), is_scheduled=False
        )
        return (
            ask_unkillable(context),
            *permission.ask(uuids),
            permission.ask_quiet(uuids, cancellation),
        )


class SweepRunner:
    """Runs sweeps, one at a time in the calling thread, which must live as long as the benchmark does."""

    def __init__(
        self, context: SweepContext, *, on_event: Callable[[SweepEvent], None] = lambda _event: None
    ) -> None:
        self._context = context
        self._on_event = on_event
        self._own = OwnProcesses()
        self._find = _finder(context, self._own)

    def run(
        self,
        spec: SweepSpec,
        *,
        trigger: Trigger,
        cancellation: Cancellation,
        sweep_id: RunId | None = None,
        latest_start: datetime | None = None,  # noqa: ARG002 - it starts now; a job of Slurm's may have to wait
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
            planned_runs=count_steps(spec),
        )
        context.store.start_sweep(sweep)
        self._on_event(SweepStarted(sweep))
        log.info("sweep_started", sweep=spec.name, id=sweep.id, trigger=trigger.value)
        runs: list[Run] = []
        try:
            with _refusals():
                self._run_all(spec, sweep, cancellation, runs)
            outcome, reason, detail = summarise(runs)
        except RefusedError as refusal:
            outcome, reason, detail = refusal.outcome, refusal.reason, refusal.detail
        sweep = replace(
            sweep,
            ended_at=context.clock.now(),
            duration_seconds=context.clock.monotonic() - started,
            outcome=outcome,
            reason=reason,
            detail=detail,
        )
        end_sweep(sweep, store=context.store, on_event=self._on_event, log=log)
        return SweepReport(sweep, tuple(runs))

    def _run_all(self, spec: SweepSpec, sweep: Sweep, cancellation: Cancellation, runs: list[Run]) -> None:
        context = self._context
        require([ask_unkillable(context)])
        _require_disk(context)
        with hold_lock(context.lock_file, purpose=f"sweep {sweep.id}", clock=context.clock) as lock:
            plan = make_plan(spec, context)
            with _watching(plan, context, self._own) as watch:
                permission = Permission(
                    context,
                    snapshot=plan.snapshot,
                    watch=watch,
                    find=self._find,
                    is_scheduled=sweep.trigger not in BY_HAND and not context.own_job,
                )
                permission.require_first(tuple(target.uuid for target in plan.targets), cancellation)
                executor = Executor(
                    context,
                    sweep,
                    lock=lock,
                    watch=watch,
                    own=self._own,
                    find=self._find,
                    on_event=self._on_event,
                )
                began = context.clock.monotonic()
                self._run_steps(plan, executor, permission, cancellation, runs)
                context.quiet.log.record_own_use(since=began, until=context.clock.monotonic())

    def _run_steps(
        self,
        plan: Plan,
        executor: Executor,
        permission: Permission,
        cancellation: Cancellation,
        runs: list[Run],
    ) -> None:
        for planned in plan.steps:
            if cancellation.is_cancelled:
                raise RefusedError(SweepOutcome.SKIPPED, "cancelled", cancellation.reason or "cancelled")
            if runs:
                permission.require_again(planned.scope)
            run = executor.run(planned, cancellation)
            runs.append(run)
            _require_alone(run)
            if hang.is_hang(run) and not cancellation.is_cancelled:
                runs.append(self._check_hang(run, planned, plan, executor, cancellation))
                return  # every further collective would hang on the same path
            if run.cause is Cause.LOST:
                return  # the next one would join it in the driver
            if is_success(run.verdict, run.reason):
                self._close_findings(run)

    def _check_hang(
        self, hung: Run, planned: PlannedStep, plan: Plan, executor: Executor, cancellation: Cancellation
    ) -> Run:
        step = hang.without_p2p(planned.step)
        again = executor.run(replace(planned, step=step), cancellation)
        finding = hang.finding_of(hung, again, plan.snapshot.host, self._context.clock.now())
        if finding is not None:
            self._context.store.record_finding(finding)
            log.error(
                "finding_opened", kind=finding.kind.value, subject=finding.subject, detail=finding.detail
            )
        return again

    def _close_findings(self, run: Run) -> None:
        for kind in (FindingKind.HANG, FindingKind.P2P_PATH):
            if self._context.store.close_finding(kind, run.gpu_set.name):
                log.info("finding_closed", kind=kind.value, subject=run.gpu_set.name)


def _finder(context: SweepContext, own: OwnProcesses) -> PresenceFinder:
    return partial(find_foreign, owns=own.owns, name_of=name_of, allowed=context.allowed_processes)


@contextmanager
def _watching(plan: Plan, context: SweepContext, own: OwnProcesses) -> Iterator[GpuWatch]:
    """Watch all GPUs of a plan, and remember how quiet they are until our own work begins."""
    command = context.watch_for(plan.snapshot.vendor or Vendor.NVIDIA)

    def on_look(look: WatchLook) -> None:
        if own.is_unused:
            context.quiet.log.record_look(look)

    with GpuWatch(
        command, plan.targets, clock=context.clock, on_look=on_look, on_lost=context.lost.remember
    ) as watch:
        yield watch


@contextmanager
def _refusals() -> Iterator[None]:
    """What stops a sweep before or between its runs, as its outcome."""
    try:
        yield
    except LockedError as error:
        raise RefusedError(SweepOutcome.SKIPPED, "locked", error.message) from error
    except HostError as error:
        raise RefusedError(SweepOutcome.FAILURE, "environment", _with_hint(error)) from error
    except UsageError as error:
        raise RefusedError(SweepOutcome.FAILURE, "gpu_set", _with_hint(error)) from error
    except NotEvaluatedError as error:
        raise RefusedError(SweepOutcome.SKIPPED, "no_snapshot", _with_hint(error)) from error


def _require_disk(context: SweepContext) -> None:
    free = context.store.free_bytes()
    if free < context.min_free_bytes:
        raise RefusedError(
            SweepOutcome.SKIPPED,
            "disk_full",
            f"{free} bytes are free for results, {context.min_free_bytes} are needed",
        )


def _require_alone(run: Run) -> None:
    """After a run that was not alone nothing more is started; the next window, or the next try in it, measures again."""
    if run.reason != TAINTED:
        return
    is_preempted = run.watch is not None and run.watch.preemption is not None
    raise RefusedError(SweepOutcome.SKIPPED, PREEMPTED if is_preempted else UNWATCHED, run.detail)


def summarise(runs: Sequence[Run]) -> tuple[SweepOutcome, str, str]:
    """Outcome, reason and detail of a sweep that ran; a re-run after a hang has no say in it."""
    measured = [run for run in runs if run.purpose is not Purpose.HANG_CHECK]
    bad = [run for run in measured if not is_success(run.verdict, run.reason)]
    if not bad:
        return SweepOutcome.SUCCESS, "", ""
    worst = next((run for run in bad if run.reason == WRONG_RESULTS), bad[0])
    if worst.cause is Cause.CANCELLED:
        return SweepOutcome.SKIPPED, "cancelled", worst.detail
    return (
        SweepOutcome.FAILURE,
        worst.reason,
        f"{worst.collective.value} on {worst.gpu_set.name}: {worst.detail}",
    )


def _with_hint(error: HostError | UsageError | NotEvaluatedError) -> str:
    return f"{error.message}. {error.hint}" if error.hint else error.message
