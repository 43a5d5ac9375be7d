"""`gpumond topology diff`: the accepted state against this host now, or one snapshot file against another.

This host is read once, so a difference shows at once; the daemon waits for a second reading before it tells.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpumond import codec
from gpumond.assembly import make_launcher
from gpumond.cli.options import load_config
from gpumond.cli.paste import STANDARD_INPUT, read_text, snapshot_in
from gpumond.cli.topology import problem_of, snapshot_by
from gpumond.clock import SystemClock
from gpumond.errors import ExitCode, NotEvaluatedError, UsageError
from gpumond.model.change import Change, is_of_hardware
from gpumond.model.reading import Unreadable
from gpumond.model.topology import Snapshot
from gpumond.store.sqlite import Store
from gpumond.topology.diff import diff
from gpumond.topology.printable import printable

_FILES = 2
_MATCH = "no difference"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two states, and where it comes from."""

    source: str
    taken_at: datetime
    simulated: str


@dataclass(frozen=True, slots=True)
class DiffDocument:
    """What `--json` prints."""

    accepted: Side
    current: Side
    changes: tuple[Change, ...]


def run(arguments: argparse.Namespace) -> int:
    document = _of_files(arguments.files) if arguments.files else _of_this_host(arguments)
    if arguments.json:
        print(codec.encode(document, indent=1).decode())
    else:
        print(printable("\n".join(_as_lines(document))))
    return _exit_code(document.changes) if arguments.fail_on_change else ExitCode.HEALTHY


def _exit_code(changes: Sequence[Change]) -> ExitCode:
    if any(is_of_hardware(change) for change in changes):
        return ExitCode.UNHEALTHY
    # Could-not-read is never a change and never green.
    return ExitCode.NOT_EVALUATED if changes else ExitCode.HEALTHY


def _of_files(paths: Sequence[str]) -> DiffDocument:
    if len(paths) != _FILES:
        raise UsageError(
            f"{len(paths)} snapshot given",
            hint="Name two files, or none to compare this host with its accepted state.",
        )
    if list(paths) == [STANDARD_INPUT] * _FILES:
        raise UsageError("standard input can be one of the two snapshots only")
    snapshots = [_read(path) for path in paths]
    for path, snapshot in zip(paths, snapshots, strict=True):
        if isinstance(snapshot.driver, Unreadable):
            raise NotEvaluatedError(
                f"{printable(path)}: nothing can be compared: {printable(snapshot.driver.detail)}"
            )
    sides = [_side(path, snapshot) for path, snapshot in zip(paths, snapshots, strict=True)]
    return DiffDocument(sides[0], sides[1], diff(*snapshots))


def _read(path: str) -> Snapshot:
    snapshot = snapshot_in(read_text(path), path)
    if snapshot is None:
        raise UsageError(f"{path}: no snapshot", hint="`gpumond topology --json` prints one.")
    return snapshot


def _of_this_host(arguments: argparse.Namespace) -> DiffDocument:
    config, clock = load_config(arguments.config), SystemClock()
    with Store.open(config.store.directory, clock=clock, read_only=True) as store:
        accepted = store.accepted_snapshot()
    if accepted is None:
        raise NotEvaluatedError(
            f"no state of this host is accepted in {config.store.directory}",
            hint="The daemon accepts the first one that it sees; `gpumond topology accept` does it by hand.",
        )
    now = snapshot_by(make_launcher(config, clock))
    problem = problem_of(now)
    if problem is not None and isinstance(now.driver, Unreadable):
        raise problem
    decision = accepted.decision
    source = f"accepted {_instant(decision.at)} by {decision.by}: {decision.reason}"
    return DiffDocument(
        _side(source, accepted.snapshot), _side("this host now", now), diff(accepted.snapshot, now)
    )


def _side(source: str, snapshot: Snapshot) -> Side:
    return Side(source, snapshot.taken_at, snapshot.simulated)


def _as_lines(document: DiffDocument) -> Iterator[str]:
    for side in (document.accepted, document.current):
        banner = f"  SIMULATED host {side.simulated}" if side.simulated else ""
        yield f"{_instant(side.taken_at)}  {_one_line(side.source)}{banner}"
    yield ""
    if not document.changes:
        yield _MATCH
    width = max((len(change.level.value) for change in document.changes), default=0)
    for change in document.changes:
        yield f"{change.level.value.ljust(width)}  {change.kind.value}  {_one_line(change.sentence)}"
        yield f"{' ' * width}  {_one_line(change.before)} -> {_one_line(change.after)}"


def _instant(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _one_line(text: str) -> str:
    """A name that holds a newline must not look like a line of ours."""
    return text.replace("\n", "?")
