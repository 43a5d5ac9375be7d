"""`gpumond sweep`: measure now. Where a daemon runs, it does the work and this command follows; else the command does
it itself, under the same lock, guards, environment and limits.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import FrameType

from gpumond import codec, log
from gpumond.assembly import daemon_lock_file, make_launcher, make_runner, make_sweep_context
from gpumond.cli import dry_run
from gpumond.cli.baseline import decide_here
from gpumond.cli.daemon_request import ask_daemon
from gpumond.cli.options import add_config_option, load_config
from gpumond.cli.progress import SweepDisplay, format_bytes, make_display
from gpumond.clock import Clock, SystemClock
from gpumond.config.schema import ALL_GPUS, Config, SweepConfig
from gpumond.config.values import parse_size
from gpumond.errors import ExitCode, HostError, NotEvaluatedError, UsageError
from gpumond.guards.lock import LockHolder, holder_of
from gpumond.judge.policy import PROVISIONAL_NIGHTS
from gpumond.model.benchmark import Collective
from gpumond.model.identity import RunId
from gpumond.model.run import Engine, Run, SweepOutcome, Trigger, Verdict
from gpumond.model.topology import Snapshot
from gpumond.probe.launcher import ProbeLauncher
from gpumond.process.supervisor import Cancellation
from gpumond.store.sqlite import Store
from gpumond.sweep.baselines import REASON, RUNS, SWEEP, BaselineAction
from gpumond.sweep.context import SweepReport
from gpumond.sweep.events import SweepEvent
from gpumond.sweep.follow import follow
from gpumond.sweep.judging import Judging
from gpumond.sweep.recovery import end_abandoned
from gpumond.sweep.runner import SweepRunner
from gpumond.sweep.specs import sweep_specs

HELP = "measure now: run a configured sweep, or one given by options"

MANUAL = "manual"
"""The name of a sweep that is given by options; its results are series of their own."""

_EXIT_CODES = {
    "locked": ExitCode.LOCKED,
    "disk_full": ExitCode.STORE,
    "environment": ExitCode.ENVIRONMENT,
    "gpu_set": ExitCode.USAGE,
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="a configured sweep (default: the first one)")
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON; no progress")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print commands, seconds and what each guard says; measure nothing",
    )
    normal = parser.add_argument_group("commissioning: what is normal on this host, in one evening")
    normal.add_argument("--repeat", type=int, default=1, metavar="N", help="measure N times")
    normal.add_argument("--accept", action="store_true", help="take these N results as the baseline")
    normal.add_argument("--reason", default="", metavar="TEXT", help="why; kept with the baseline")
    job = parser.add_argument_group("inside a Slurm job (guards.slurm)")
    job.add_argument(
        "--inside-job",
        action="store_true",
        help="this process is an exclusive job: measure here, beside a daemon",
    )
    # What the daemon that submitted the job wants it to be called.
    job.add_argument("--sweep-id", type=RunId, help=argparse.SUPPRESS)
    job.add_argument("--trigger", type=Trigger, default=Trigger.COMMAND, help=argparse.SUPPRESS)
    own = parser.add_argument_group("a sweep of your own, instead of a configured one")
    own.add_argument(
        "--collective",
        action="append",
        choices=[collective.value for collective in Collective],
        help="may be repeated",
    )
    own.add_argument(
        "--gpu-set", action="append", metavar="NAME", help=f"may be repeated (default: {ALL_GPUS})"
    )
    own.add_argument("--min-size", metavar="SIZE", help="such as 8 or 64MiB")
    own.add_argument("--max-size", metavar="SIZE", help="such as 2GiB")
    own.add_argument("--iterations", type=int, metavar="N", help="timed iterations of each size")


def run(arguments: argparse.Namespace) -> int:
    log.configure(level="warning", form="text")
    clock = SystemClock()
    _check_commissioning(arguments)
    config, name = _choose(load_config(arguments.config), arguments)
    daemon = holder_of(daemon_lock_file(config))
    display = make_display(is_quiet=arguments.quiet or arguments.json)
    with Store.open(config.store.directory, clock=clock) as store:
        if arguments.dry_run:
            return _dry_run(config, name, store, clock, as_json=arguments.json)
        if name == MANUAL and daemon is not None and not arguments.inside_job:
            raise UsageError(
                f"a daemon runs here (pid {daemon.pid}), and it measures configured sweeps only",
                hint="Leave the options out, or stop the daemon first.",
            )
        run_once = partial(
            _run_once, config, name, store, clock, display=display, arguments=arguments, daemon=daemon
        )
        report = run_once()
        for _ in range(arguments.repeat - 1):
            if report.sweep.outcome is not SweepOutcome.SUCCESS:
                break
            report = run_once()
        if not arguments.accept or report.sweep.outcome is not SweepOutcome.SUCCESS:
            return int(exit_code_of(report))
        wanted = {SWEEP: name, REASON: arguments.reason, RUNS: str(arguments.repeat)}
        print(decide_here(config, store, clock, BaselineAction.ACCEPT, wanted), file=sys.stderr)
        return ExitCode.HEALTHY


def _run_once(
    config: Config,
    name: str,
    store: Store,
    clock: Clock,
    *,
    display: SweepDisplay,
    arguments: argparse.Namespace,
    daemon: LockHolder | None,
) -> SweepReport:
    """Measure, here or by the daemon, and print what came out."""
    if daemon is None or arguments.inside_job:
        report = _measure(config, name, store, clock, display=display, arguments=arguments)
    else:
        print(f"the daemon (pid {daemon.pid}) measures; Ctrl-C stops watching only", file=sys.stderr)
        report = _ask_daemon(name, store, clock, display)
    if arguments.json:
        print(codec.encode(report, indent=2).decode())
    else:
        _print_summary(report)
    return report


def exit_code_of(report: SweepReport) -> ExitCode:
    """0 healthy or learning, 1 degraded or failed, 3 not evaluated; what stopped a sweep has codes of its own."""
    verdicts = {run.verdict for run in report.runs}
    if verdicts & {Verdict.FAILED, Verdict.DEGRADED}:
        return ExitCode.UNHEALTHY
    if report.sweep.outcome is SweepOutcome.SUCCESS:
        return ExitCode.HEALTHY
    return _EXIT_CODES.get(report.sweep.reason, ExitCode.NOT_EVALUATED)


def _check_commissioning(arguments: argparse.Namespace) -> None:
    if arguments.repeat < 1:
        raise UsageError(f"--repeat {arguments.repeat} is no number of sweeps")
    if arguments.repeat > 1 and (arguments.json or arguments.inside_job):
        raise UsageError(
            "--repeat prints text, and is not for one Slurm job", hint="Leave the other option out."
        )
    if not arguments.accept:
        return
    if arguments.repeat < PROVISIONAL_NIGHTS:
        raise UsageError(
            f"--accept needs at least {PROVISIONAL_NIGHTS} results",
            hint=f"Say --repeat {PROVISIONAL_NIGHTS}.",
        )
    if not arguments.reason.strip():
        raise UsageError("the reason is empty", hint="Say why with --reason, for whoever reads the history.")


def _choose(config: Config, arguments: argparse.Namespace) -> tuple[Config, str]:
    """The configuration with the sweep that is meant, and its name."""
    options = {
        "collectives": arguments.collective and tuple(Collective(each) for each in arguments.collective),
        "gpu_sets": arguments.gpu_set and tuple(arguments.gpu_set),
        "min_size": arguments.min_size and _size("--min-size", arguments.min_size),
        "max_size": arguments.max_size and _size("--max-size", arguments.max_size),
        "iterations": arguments.iterations,
    }
    given = {key: value for key, value in options.items() if value is not None}
    names = [sweep.name for sweep in config.sweeps]
    if given or (arguments.name is None and not names):
        if arguments.name is not None:
            raise UsageError("a configured sweep cannot be changed by options", hint="Leave its name out.")
        return _with_manual_sweep(config, given), MANUAL
    name = arguments.name or names[0]
    if name not in names:
        raise UsageError(
            f"no sweep is called {name!r}", hint=f"Configured are: {', '.join(names) or 'none'}."
        )
    return config, name


def _size(option: str, text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}") from error


def _with_manual_sweep(config: Config, given: dict[str, object]) -> Config:
    if "min_size" in given and "max_size" not in given:
        given["max_size"] = max(int(str(given["min_size"])), SweepConfig(name=MANUAL).max_size)
    if "max_size" in given and "min_size" not in given:
        given["min_size"] = min(int(str(given["max_size"])), SweepConfig(name=MANUAL).min_size)
    try:
        sweep = SweepConfig.model_validate({"name": MANUAL, **given})
    except ValueError as error:
        raise UsageError(f"that is no sweep: {error}") from error
    unknown = set(sweep.gpu_sets) - {ALL_GPUS, *config.gpu_sets}
    if unknown:
        raise UsageError(
            f"no GPU set is called {', '.join(sorted(unknown))}", hint="They are named in [gpu_sets]."
        )
    return config.model_copy(update={"sweeps": (sweep,)})


def _dry_run(config: Config, name: str, store: Store, clock: Clock, *, as_json: bool) -> ExitCode:
    launcher = make_launcher(config, clock)
    context = make_sweep_context(
        config, store=store, clock=clock, take_snapshot=lambda: fresh_snapshot(launcher)
    )
    run = dry_run.dry_run(sweep_specs(config)[name], context)
    if as_json:
        print(codec.encode(run, indent=2).decode())
    else:
        dry_run.print_dry_run(run)
    return dry_run.exit_code_of(run)


def _measure(
    config: Config,
    name: str,
    store: Store,
    clock: Clock,
    *,
    display: SweepDisplay,
    arguments: argparse.Namespace,
) -> SweepReport:
    own_job = _own_job(arguments)
    launcher = make_launcher(config, clock)
    snapshots: list[Snapshot] = []

    def take_snapshot() -> Snapshot:
        snapshots[:] = [fresh_snapshot(launcher)]
        return snapshots[0]

    def on_event(event: SweepEvent) -> None:
        judging.follow(event)
        display.show(event)

    judging = Judging(store, snapshot=lambda: snapshots[0] if snapshots else None)
    context = make_sweep_context(
        config, store=store, clock=clock, take_snapshot=take_snapshot, own_job=own_job
    )
    end_abandoned(store, config.benchmark.lock_file, clock, context.lost)
    runner = make_runner(
        config,
        context,
        on_event=on_event,
        config_file=arguments.config,
        count_gpus=lambda: len(context.take_snapshot().gpus),
    )
    if name == MANUAL and not isinstance(runner, SweepRunner):
        raise UsageError(
            "Slurm gives out the GPUs of this host, and a sweep given by options cannot be submitted",
            hint="Configure it as [[sweep]], or run it with --inside-job in an exclusive job of your own.",
        )
    cancellation = Cancellation()
    with display, cancel_on_signal(cancellation):
        report = runner.run(
            sweep_specs(config)[name],
            trigger=arguments.trigger,
            cancellation=cancellation,
            sweep_id=arguments.sweep_id,
        )
    if own_job:
        return report  # the daemon that submitted it judges it, and may want re-runs first
    judging.judge_new(name)
    return replace(report, runs=store.runs_of_sweep(report.sweep.id))


def _own_job(arguments: argparse.Namespace) -> str:
    if not arguments.inside_job:
        return ""
    job = os.environ.get("SLURM_JOB_ID", "")
    if not job:
        raise UsageError(
            "--inside-job, but SLURM_JOB_ID is not set",
            hint="Start it with sbatch, or with srun in an allocation.",
        )
    return job


def fresh_snapshot(launcher: ProbeLauncher) -> Snapshot:
    result = launcher.take()
    if result.snapshot is None:
        raise NotEvaluatedError(f"no topology snapshot: {result.detail}")
    if result.snapshot.driver.state == "unreadable":
        raise HostError(
            result.snapshot.driver.detail or "the GPU driver cannot be asked", hint="See `gpumond doctor`."
        )
    return result.snapshot


@contextlib.contextmanager
def cancel_on_signal(cancellation: Cancellation) -> Iterator[None]:
    def on_signal(number: int, _frame: FrameType | None) -> None:
        cancellation.cancel(reason=f"interrupted by {signal.Signals(number).name}")

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ask_daemon(name: str, store: Store, clock: Clock, display: SweepDisplay) -> SweepReport:
    sweep_id = ask_daemon(store, "sweep", {"sweep": name}, clock=clock)
    with display:
        return follow(store, RunId(sweep_id), clock=clock, on_event=display.show)


def _print_summary(report: SweepReport) -> None:
    rows = [_summary_of(run) for run in report.runs]
    if rows:
        header = ("collective", "gpu set", "largest size", "busbw GB/s", "#wrong", "verdict")
        widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
        for row in [header, *rows]:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    sweep = report.sweep
    outcome = sweep.outcome.value if sweep.outcome else "unfinished"
    reason = f" ({sweep.reason}): {sweep.detail}" if sweep.reason else ""
    simulated = ", SIMULATED" if any(run.engine is Engine.SIMULATED for run in report.runs) else ""
    print(f"sweep {sweep.name}: {outcome}{reason} in {sweep.duration_seconds or 0:.1f} s{simulated}")


def _summary_of(run: Run) -> tuple[str, ...]:
    verdict = f"{run.verdict.value} ({run.reason})" if run.reason else run.verdict.value
    if not run.points:
        return (run.collective.value, run.gpu_set.name, "-", "-", "-", verdict)
    largest = max(run.points, key=lambda point: point.size_bytes)
    best = next(point for point in run.points if point.size_bytes == largest.size_bytes)
    wrong = [point.wrong_elements for point in run.points if point.wrong_elements is not None]
    return (
        run.collective.value,
        run.gpu_set.name,
        format_bytes(best.size_bytes),
        f"{best.busbw_bytes_per_second / 1e9:.2f}",
        str(sum(wrong)) if wrong else "-",
        verdict,
    )
