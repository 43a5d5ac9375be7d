"""`gpumond sanity`: does every rank see the sum of all? The first question to a host, and to any part of its GPUs.

One small all_reduce with torch or nccl4py, under the same lock, guards and watch as a sweep, and kept in the history. It
runs beside a daemon: the lock keeps the two apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from gpumond import codec, log
from gpumond.assembly import make_launcher, make_sweep_context
from gpumond.cli.options import add_config_option, load_config
from gpumond.cli.progress import make_display
from gpumond.cli.sweep import cancel_on_signal, exit_code_of, fresh_snapshot
from gpumond.clock import SystemClock
from gpumond.config.schema import ALL_GPUS, Config
from gpumond.errors import UsageError
from gpumond.model.identity import GpuUuid
from gpumond.model.run import EngineChoice, Run, Trigger, Verdict
from gpumond.process.supervisor import Cancellation
from gpumond.store.sqlite import Store
from gpumond.sweep.context import SweepReport
from gpumond.sweep.plan import GpuSetRule, SweepSpec, sanity_parameters
from gpumond.sweep.runner import SweepRunner
from gpumond.sweep.specs import gpu_set_rules, shared_parameters

HELP = "check that every GPU sees the sum of all (torch or nccl4py)"

SANITY = "sanity"
"""The name of such a sweep, and of a GPU set that is given by UUIDs."""

_ENGINES = (EngineChoice.AUTO, EngineChoice.NCCL4PY, EngineChoice.TORCH)


def configure(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--gpu-set", action="append", metavar="NAME", help=f"may be repeated (default: {ALL_GPUS})"
    )
    group.add_argument("--gpu", action="append", metavar="UUID", help="these GPUs together; repeat it")
    parser.add_argument("--engine", type=EngineChoice, choices=_ENGINES, default=EngineChoice.AUTO)
    parser.add_argument("--json", action="store_true", help="print the report as JSON; no progress")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_config_option(parser)


def run(arguments: argparse.Namespace) -> int:
    log.configure(level="warning", form="text")
    config, clock = load_config(arguments.config), SystemClock()
    rules, names = _gpu_sets(config, arguments.gpu_set, arguments.gpu)
    spec = SweepSpec(
        name=SANITY,
        gpu_sets=names,
        collectives=(),
        parameters=sanity_parameters(shared_parameters(config)),
        engine=arguments.engine,
        has_sanity_check=True,
    )
    launcher, cancellation = make_launcher(config, clock), Cancellation()
    display = make_display(is_quiet=arguments.quiet or arguments.json)
    with Store.open(config.store.directory, clock=clock) as store:
        context = make_sweep_context(
            config, store=store, clock=clock, take_snapshot=lambda: fresh_snapshot(launcher)
        )
        with display, cancel_on_signal(cancellation):
            runner = SweepRunner(replace(context, gpu_sets=rules), on_event=display.show)
            report = runner.run(spec, trigger=Trigger.COMMAND, cancellation=cancellation)
    print(codec.encode(report, indent=2).decode() if arguments.json else "\n".join(_lines(report)))
    return int(exit_code_of(report))


def _gpu_sets(
    config: Config, names: Sequence[str] | None, uuids: Sequence[str] | None
) -> tuple[dict[str, GpuSetRule], tuple[str, ...]]:
    """(every GPU set by name, those that are meant)."""
    rules = gpu_set_rules(config)
    if uuids:
        return rules | {SANITY: GpuSetRule(SANITY, uuids=tuple(map(GpuUuid, uuids)))}, (SANITY,)
    wanted = tuple(names or (ALL_GPUS,))
    unknown = [name for name in wanted if name not in rules]
    if unknown:
        raise UsageError(f"no GPU set is called {', '.join(unknown)}", hint=f"There is {', '.join(rules)}.")
    return rules, wanted


def _lines(report: SweepReport) -> list[str]:
    lines = [_line(run) for run in report.runs]
    if report.sweep.reason and not report.runs:
        lines.append(f"not checked ({report.sweep.reason}): {report.sweep.detail}")
    return lines


def _line(run: Run) -> str:
    members = f"{run.gpu_set.name}: {len(run.gpu_set.uuids)} GPUs"
    if run.verdict is Verdict.OK:
        return f"{members}, ok: {run.detail} ({run.engine.value}, NCCL {run.library_version or 'unknown'})"
    return f"{members}, {run.verdict.value} ({run.reason}): {run.detail}"
