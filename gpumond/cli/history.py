"""`gpumond history`: what was measured, when, and what was said of it. Reads the store, beside a daemon or without one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpumond import codec
from gpumond.cli import history_text
from gpumond.cli.options import add_config_option, load_config
from gpumond.clock import SystemClock
from gpumond.errors import ExitCode, UsageError
from gpumond.model.benchmark import Collective
from gpumond.model.identity import RunId
from gpumond.model.run import Engine, Run, Sweep
from gpumond.store.sqlite import Store

HELP = "show past sweeps and runs"

LIMIT = 20


@dataclass(frozen=True, slots=True)
class HistoryDocument:
    """What `--json` prints of several runs, newest first; `sweeps` are those that ran nothing, with their reason."""

    runs: tuple[Run, ...]
    sweeps: tuple[Sweep, ...]


@dataclass(frozen=True, slots=True)
class SweepDocument:
    """What `--json` prints of one sweep; `runs` in the order in which they ran."""

    sweep: Sweep
    runs: tuple[Run, ...]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="a run or a sweep to show in full")
    parser.add_argument("--sweep", metavar="NAME", help="only this configured sweep")
    parser.add_argument(
        "--collective", choices=[collective.value for collective in Collective], help="only this collective"
    )
    parser.add_argument(
        "--limit", type=_positive, default=LIMIT, metavar="N", help=f"the newest N lines (default {LIMIT})"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print JSON, in base units")
    output.add_argument(
        "--raw", action="store_true", help="with a run's ID: print what its benchmark printed, as kept"
    )
    add_config_option(parser)
    parser.add_argument(
        "--state-directory",
        type=Path,
        metavar="DIR",
        help="where the history is (default: what the configuration says)",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.raw and arguments.id is None:
        raise UsageError("--raw needs the id of a run", hint="`gpumond history` lists the ids.")
    with Store.open(_state_directory(arguments), clock=SystemClock(), read_only=True) as store:
        if arguments.id is None:
            _list(store, arguments)
        elif arguments.raw:
            _print_raw(store, RunId(arguments.id))
        else:
            _show(store, RunId(arguments.id), as_json=arguments.json)
    return ExitCode.HEALTHY


def _state_directory(arguments: argparse.Namespace) -> Path:
    if arguments.state_directory is not None:
        return Path(arguments.state_directory)
    return load_config(arguments.config).store.directory


def _list(store: Store, arguments: argparse.Namespace) -> None:
    collective = Collective(arguments.collective) if arguments.collective else None
    runs = store.runs(limit=arguments.limit, sweep=arguments.sweep, collective=collective)
    sweeps = store.sweeps(limit=arguments.limit, name=arguments.sweep)
    empty = [sweep for sweep in sweeps if sweep.ended_at is not None and not store.runs_of_sweep(sweep.id)]
    document = _newest(runs, empty, arguments.limit)
    if arguments.json:
        _print_json(document)
        return
    _note_simulated(document.runs)
    print(history_text.render_list(document.runs, document.sweeps), end="")
    if not document.runs and not document.sweeps:
        print("gpumond: nothing was measured yet", file=sys.stderr)


def _newest(runs: Iterable[Run], sweeps: Iterable[Sweep], limit: int) -> HistoryDocument:
    """The newest `limit` of both together."""
    everything: list[Run | Sweep] = [*runs, *sweeps]
    both = sorted(everything, key=lambda item: item.started_at, reverse=True)[:limit]
    return HistoryDocument(
        tuple(item for item in both if isinstance(item, Run)),
        tuple(item for item in both if isinstance(item, Sweep)),
    )


def _show(store: Store, wanted: RunId, *, as_json: bool) -> None:
    found = store.run(wanted)
    if found is not None:
        if as_json:
            _print_json(found)
            return
        _note_simulated([found])
        print(history_text.render_run(found), end="")
        return
    sweep = store.sweep(wanted)
    if sweep is None:
        raise _unknown(wanted)
    runs = store.runs_of_sweep(wanted)
    if as_json:
        _print_json(SweepDocument(sweep, runs))
        return
    _note_simulated(runs)
    print(history_text.render_sweep(sweep, runs), end="")


def _print_raw(store: Store, wanted: RunId) -> None:
    output = store.raw_output(wanted)
    if output is None:
        if store.run(wanted) is None:
            raise _unknown(wanted)
        raise UsageError(
            f"no output of run {wanted} is kept",
            hint="`keep_output` and `keep_failed_output` in the configuration say how long it is.",
        )
    sys.stdout.flush()
    sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()


def _print_json(value: object) -> None:
    print(codec.encode(value, indent=2).decode())


def _note_simulated(runs: Iterable[Run]) -> None:
    if any(run.engine is Engine.SIMULATED for run in runs):
        print("gpumond: SIMULATED numbers: no GPU has measured them", file=sys.stderr)


def _unknown(wanted: RunId) -> UsageError:
    return UsageError(
        f"no run and no sweep has the id {wanted}", hint="`gpumond history` lists the newest ids."
    )


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value
