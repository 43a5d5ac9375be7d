"""`gpumond topology history`: what changed, and what was said about it, newest first. Reads the store only."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gpumond import codec
from gpumond.cli.options import load_config
from gpumond.clock import SystemClock
from gpumond.errors import ExitCode, UsageError
from gpumond.store.records import ChangeRecord, Decision
from gpumond.store.sqlite import Store
from gpumond.topology.printable import printable

_STILL_OPEN = "open"


@dataclass(frozen=True, slots=True)
class TopologyHistory:
    """What `--json` prints; both newest first."""

    changes: tuple[ChangeRecord, ...]
    decisions: tuple[Decision, ...]


def run(arguments: argparse.Namespace) -> int:
    if arguments.limit < 1:
        raise UsageError(f"--limit {arguments.limit} is not a positive number")
    directory = load_config(arguments.config).store.directory
    with Store.open(directory, clock=SystemClock(), read_only=True) as store:
        history = TopologyHistory(
            store.changes(limit=arguments.limit), store.decisions(limit=arguments.limit)
        )
    if arguments.json:
        print(codec.encode(history, indent=1).decode())
        return ExitCode.HEALTHY
    lines = sorted(
        (*_change_lines(history.changes), *_decision_lines(history.decisions)), key=lambda line: line[0]
    )
    for at, text in reversed(lines[-arguments.limit :]):
        print(printable(f"{at:%Y-%m-%d %H:%M:%S}  {text}".replace("\n", "?")))
    return ExitCode.HEALTHY


def _change_lines(changes: tuple[ChangeRecord, ...]) -> Iterator[tuple[datetime, str]]:
    for record in changes:
        change = record.change
        ended = (
            f"until {record.closed_at:%Y-%m-%d %H:%M:%S} ({record.ending.value})"
            if record.closed_at is not None and record.ending is not None
            else _STILL_OPEN
        )
        yield record.opened_at, f"{change.level.value}  {change.kind.value}  {change.sentence}  [{ended}]"


def _decision_lines(decisions: tuple[Decision, ...]) -> Iterator[tuple[datetime, str]]:
    for decision in decisions:
        yield decision.at, f"{decision.verdict.value} by {decision.by}: {decision.reason}"
        if decision.undone_at is not None:
            what = f"what {decision.by} {decision.verdict.value} at {decision.at:%Y-%m-%d %H:%M:%S}"
            yield decision.undone_at, f"undone by {decision.undone_by}: {what}: {decision.undone_reason}"
