"""`gpumond topology accept`, `reject` and `undo`: what an operator says about the state of this host.

A running daemon is asked through the store, takes a fresh snapshot and answers; without one the command does the same
itself, under the daemon's lock, so that none starts meanwhile.
"""

from __future__ import annotations

import argparse
import getpass

from gpumond import __version__, log
from gpumond.assembly import daemon_lock_file, make_launcher
from gpumond.board import StatusBoard
from gpumond.cli.options import load_config
from gpumond.cli.topology import problem_of, snapshot_by
from gpumond.clock import Clock, SystemClock
from gpumond.config.schema import Config
from gpumond.errors import ExitCode, HostError, NotEvaluatedError, UsageError
from gpumond.guards.lock import hold_lock, holder_of
from gpumond.model.status import HostStatus
from gpumond.model.topology import Snapshot
from gpumond.monitor.changes import ChangeWatch
from gpumond.monitor.decisions import REASON, DecisionKind, decide
from gpumond.store.records import RequestState
from gpumond.store.sqlite import Store
from gpumond.topology.printable import printable

_POLL_SECONDS = 0.2
_ANSWER_SECONDS_MIN = 10.0


def run(arguments: argparse.Namespace) -> int:
    kind, reason = DecisionKind(arguments.word), arguments.reason.strip()
    if not reason:
        raise UsageError("the reason is empty", hint="Say why, for whoever reads the history.")
    log.configure(level="warning", form="text")
    config, clock = load_config(arguments.config), SystemClock()
    is_asked = holder_of(daemon_lock_file(config)) is not None
    with Store.open(config.store.directory, clock=clock) as store:
        answer = (_ask_daemon if is_asked else _do_it)(config, store, clock, kind, reason)
    print(printable(answer))
    return ExitCode.HEALTHY


def _do_it(config: Config, store: Store, clock: Clock, kind: DecisionKind, reason: str) -> str:
    with hold_lock(daemon_lock_file(config), purpose=f"topology {kind.value}", clock=clock):
        board = StatusBoard(HostStatus(version=__version__, started_at=clock.now()))
        watch = ChangeWatch(store=store, board=board, clock=clock)
        watch.restore()
        snapshot = None if kind is DecisionKind.UNDO else _snapshot(config, clock)
        return decide(watch, kind, snapshot, by=getpass.getuser(), reason=reason)


def _snapshot(config: Config, clock: Clock) -> Snapshot:
    snapshot = snapshot_by(make_launcher(config, clock))
    problem = problem_of(snapshot)
    if problem is not None:
        raise problem
    return snapshot


def _ask_daemon(config: Config, store: Store, clock: Clock, kind: DecisionKind, reason: str) -> str:
    number = store.add_request(kind.value, {REASON: reason}, by=getpass.getuser())
    # It may be taking a snapshot already, and takes another one first.
    give_up = clock.monotonic() + _ANSWER_SECONDS_MIN + 2 * config.snapshot.deadline
    while True:
        request = store.request(number)
        if request is not None and request.state is RequestState.DONE:
            return request.answer
        if request is not None and request.state is RequestState.FAILED:
            raise NotEvaluatedError(f"the daemon refused: {request.answer}")
        if clock.monotonic() > give_up:
            store.withdraw_request(number)
            raise HostError("the daemon did not answer", hint="See its log: `journalctl -u gpumond`.")
        clock.sleep(_POLL_SECONDS)
