"""`gpumond sweep --dry-run`: what would run, for how long, and what each guard says now. Starts no benchmark.

It looks as a sweep would, with a snapshot and the watch child, and leaves the machine-wide lock alone.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from gpumond.config.values import format_size
from gpumond.errors import ExitCode
from gpumond.guards.lock import holder_of
from gpumond.guards.report import GuardName, GuardReport
from gpumond.process.supervisor import Cancellation
from gpumond.sweep.context import RefusedError, SweepContext
from gpumond.sweep.estimate import estimate_seconds
from gpumond.sweep.plan import Step, SweepSpec, sizes_of
from gpumond.sweep.runner import Plan, ask_guards, make_plan

_NAMES = {
    GuardName.UNKILLABLE: "unkillable",
    GuardName.PAUSED: "pause",
    GuardName.INHIBITED: "inhibit file",
    GuardName.BUSY: "processes",
    GuardName.NOT_QUIET: "quiet",
    GuardName.SLURM: "Slurm",
    GuardName.COMMAND: "command",
}
"""What is asked; the guard's own name is what a refusal is counted under."""


@dataclass(frozen=True, slots=True)
class DryStep:
    """One benchmark that would run."""

    collective: str
    gpu_set: str
    gpus: int
    seconds: float
    command: str
    note: str = ""
    """Where less is measured than was asked for."""


@dataclass(frozen=True, slots=True)
class GuardAnswer:
    guard: str
    is_clear: bool
    evidence: str


@dataclass(frozen=True, slots=True)
class DryRun:
    """What `--json` prints."""

    sweep: str
    seconds: float
    steps: tuple[DryStep, ...]
    guards: tuple[GuardAnswer, ...]

    @property
    def is_clear(self) -> bool:
        return all(answer.is_clear for answer in self.guards)


def dry_run(spec: SweepSpec, context: SweepContext) -> DryRun:
    """Raises what would make the sweep fail: HostError, UsageError, NotEvaluatedError."""
    plan = make_plan(spec, context)
    latest = context.store.latest_points()
    steps = tuple(
        DryStep(
            collective=planned.step.collective.value,
            gpu_set=planned.step.gpu_set.name,
            gpus=len(planned.step.gpu_set.uuids),
            seconds=estimate_seconds(planned.step, plan.snapshot, latest),
            command=shlex.join(planned.command.argv),
            note=_note(planned.step),
        )
        for planned in plan.steps
    )
    answers = (_lock_answer(context), *_guard_answers(context, plan))
    return DryRun(spec.name, sum(step.seconds for step in steps), steps, answers)


def _note(step: Step) -> str:
    asked, told = step.asked, step.parameters
    if asked is None:
        return ""
    parts = []
    if sizes_of(told) != sizes_of(asked):
        parts.append(f"sizes up to {format_size(sizes_of(told)[-1])} of {format_size(sizes_of(asked)[-1])}")
    if told.iterations != asked.iterations:
        parts.append(f"{told.iterations} of {asked.iterations} iterations")
    return f"{' and '.join(parts)}: more would take too long, or does not fit the memory"


def _lock_answer(context: SweepContext) -> GuardAnswer:
    holder = holder_of(context.lock_file)
    evidence = f"{context.lock_file} is free" if holder is None else f"held by {holder}"
    return GuardAnswer("lock", holder is None, evidence)


def _guard_answers(context: SweepContext, plan: Plan) -> tuple[GuardAnswer, ...]:
    try:
        reports: tuple[GuardReport, ...] = ask_guards(plan, context, Cancellation())
    except RefusedError as refusal:
        return (GuardAnswer(refusal.reason, is_clear=False, evidence=refusal.detail),)
    return tuple(GuardAnswer(_NAMES[report.guard], report.is_clear, report.evidence) for report in reports)


def print_dry_run(run: DryRun) -> None:
    for number, step in enumerate(run.steps, start=1):
        print(
            f"[{number}/{len(run.steps)}] {step.collective} on {step.gpu_set} ({step.gpus} GPUs), about {step.seconds:.0f} s"
        )
        print(f"    {step.command}")
        if step.note:
            print(f"    {step.note}")
    print(f"about {run.seconds:.0f} s in all")
    width = max(len(answer.guard) for answer in run.guards)
    for answer in run.guards:
        print(f"{'clear' if answer.is_clear else 'NO   '}  {answer.guard:{width}}  {answer.evidence}")


def exit_code_of(run: DryRun) -> ExitCode:
    """3 where a guard says no: the sweep would be skipped."""
    return ExitCode.HEALTHY if run.is_clear else ExitCode.NOT_EVALUATED
