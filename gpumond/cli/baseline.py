"""`gpumond baseline`: what is normal on this host, how far that is known, and what a person says of it."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gpumond import codec, log
from gpumond.assembly import daemon_lock_file
from gpumond.cli.daemon_request import ask_daemon
from gpumond.cli.options import add_config_option, load_config
from gpumond.clock import Clock, SystemClock
from gpumond.config.schema import Config
from gpumond.errors import ExitCode, UsageError
from gpumond.guards.lock import hold_lock, holder_of
from gpumond.judge.baseline import candidate_level, effective_sigma, state_of
from gpumond.model.baseline import BaselineState, Scope, Track, TrackKey
from gpumond.store.records import BaselineDecision
from gpumond.store.sqlite import Store
from gpumond.sweep.baselines import GPU_SET, REASON, RUNS, SWEEP, BaselineAction, decide

HELP = "show what is normal on this host; accept, reject or reset it"

_SHOW = "show"
_DECISIONS = 20
_ACTIONS = {
    "accept": BaselineAction.ACCEPT,
    "reject": BaselineAction.REJECT,
    "reset": BaselineAction.RESET,
    "undo": BaselineAction.UNDO,
}


@dataclass(frozen=True, slots=True)
class BaselineDocument:
    """One baseline, as `--json` prints it; busbw in bytes per second, by size."""

    sweep: str
    engine: str
    gpu_set: str
    collective: str
    state: BaselineState
    nights: int
    since: datetime | None
    sigma: float | None
    busbw: dict[int, float]
    candidate_changes: tuple[str, ...]
    candidate_level: float | None
    needs_person: bool


@dataclass(frozen=True, slots=True)
class ShowDocument:
    """What `gpumond baseline show --json` prints; decisions newest first."""

    baselines: tuple[BaselineDocument, ...]
    decisions: tuple[BaselineDecision, ...]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("word", choices=[_SHOW, *_ACTIONS], metavar="show|accept|reject|reset|undo")
    parser.add_argument("--sweep", default="", metavar="NAME", help="only this sweep")
    parser.add_argument("--gpu-set", default="", metavar="NAME", help="only this GPU set")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; kept with the decision")
    parser.add_argument(
        "--runs", type=int, default=0, metavar="N", help="with accept: take the newest N runs as normal"
    )
    parser.add_argument("--json", action="store_true", help="with show: print one JSON document")
    add_config_option(parser)


def run(arguments: argparse.Namespace) -> int:
    log.configure(level="warning", form="text")
    config, clock = load_config(arguments.config), SystemClock()
    if arguments.word == _SHOW:
        with Store.open(config.store.directory, clock=clock, read_only=True) as store:
            _show(store, arguments)
        return ExitCode.HEALTHY
    wanted = _arguments_of(arguments)
    with Store.open(config.store.directory, clock=clock) as store:
        print(decide_here(config, store, clock, _ACTIONS[arguments.word], wanted))
    return ExitCode.HEALTHY


def decide_here(
    config: Config, store: Store, clock: Clock, action: BaselineAction, wanted: dict[str, str]
) -> str:
    """Let the daemon decide, where one runs, or decide under its lock. The answer is a sentence."""
    lock_file = daemon_lock_file(config)
    if holder_of(lock_file) is not None:
        return ask_daemon(store, action, wanted, clock=clock)
    with hold_lock(lock_file, purpose=action.value, clock=clock):
        return decide(store, clock, action, wanted, by=getpass.getuser())


def _arguments_of(arguments: argparse.Namespace) -> dict[str, str]:
    reason = arguments.reason.strip()
    if not reason:
        raise UsageError("the reason is empty", hint="Say why with --reason, for whoever reads the history.")
    if arguments.runs < 0:
        raise UsageError(f"{arguments.runs} is no number of runs")
    return {
        SWEEP: arguments.sweep,
        GPU_SET: arguments.gpu_set,
        REASON: reason,
        RUNS: str(arguments.runs),
    }


def _show(store: Store, arguments: argparse.Namespace) -> None:
    found = [
        (scope, key, track)
        for scope in store.judged_scopes()
        if arguments.sweep in ("", scope.sweep) and arguments.gpu_set in ("", scope.gpu_set)
        for key, track in sorted(store.judge_record(scope).memory.tracks.items())
    ]
    if arguments.json:
        document = ShowDocument(
            tuple(_document(*item) for item in found),
            store.baseline_decisions(limit=_DECISIONS),
        )
        print(codec.encode(document, indent=2).decode())
        return
    for item in found:
        print("\n".join(_lines(_document(*item))))
    if not found:
        print("gpumond: nothing has been judged yet", file=sys.stderr)


def _document(scope: Scope, key: TrackKey, track: Track) -> BaselineDocument:
    baseline, candidate = track.baseline, track.candidate
    return BaselineDocument(
        sweep=scope.sweep,
        engine=scope.engine,
        gpu_set=scope.gpu_set,
        collective=key.collective,
        state=state_of(track),
        nights=baseline.night_count if baseline else 0,
        since=baseline.since if baseline else None,
        sigma=effective_sigma(baseline) if baseline else None,
        busbw=baseline.busbw if baseline else {},
        candidate_changes=tuple(str(change) for change in candidate.changes) if candidate else (),
        candidate_level=candidate_level(candidate) if candidate else None,
        needs_person=candidate.needs_person if candidate else False,
    )


def _lines(item: BaselineDocument) -> Iterator[str]:
    noise = f", noise {item.sigma:.2%}" if item.sigma is not None else ""
    yield (f"{item.sweep} {item.gpu_set} {item.collective}: {item.state.value}, {item.nights} nights{noise}")
    for size, busbw in item.busbw.items():
        yield f"  {size >> 20:>8} MiB {busbw / 1e9:8.2f} GB/s"
    if item.candidate_changes:
        level = f"{item.candidate_level - 1:+.1%}" if item.candidate_level is not None else "not measured yet"
        asks = "; waits for `gpumond baseline accept` or `reject`" if item.needs_person else ""
        yield f"  candidate ({', '.join(item.candidate_changes)}): {level}{asks}"
