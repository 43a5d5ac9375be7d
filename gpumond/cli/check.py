"""`gpumond check`: is this host fit for work? For schedulers, monitoring and scripts: quick, and from the history alone.

Needs no daemon and no GPU, and asks no driver. What it loads is chosen for its start: no pydantic where the
configuration is plainly right.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpumond import codec
from gpumond.cli.health import SNAPSHOTS_MISSED_MAX, HealthReport, HostRecord, assess, reaches
from gpumond.cli.nagios import NagiosState, render, render_unknown, state_of
from gpumond.clock import Clock, SystemClock
from gpumond.config.glance import DEFAULT_FILE, Glance, glance_at
from gpumond.errors import ExitCode, GpumondError
from gpumond.model.change import Level
from gpumond.store.sqlite import Store
from gpumond.topology.printable import printable

HELP = "whether this host is fit for work, from its history; for schedulers and monitoring"


@dataclass(frozen=True, slots=True)
class CheckDocument:
    """What `--json` prints."""

    exit_code: int
    fail_on: Level
    report: HealthReport


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fail-on",
        type=Level,
        choices=list(Level),
        default=Level.WARNING,
        metavar="LEVEL",
        help="the least serious confirmed finding that makes the exit status 1: info, warning (the default) or"
        " critical. What is not evaluated never does.",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    form.add_argument(
        "--nagios",
        action="store_true",
        help="speak as a Nagios plugin: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN, with performance data",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"configuration file (default: {DEFAULT_FILE}, if it exists)",
    )


def run(arguments: argparse.Namespace) -> int:
    fail_on = arguments.fail_on
    try:
        place = find_history(arguments.config)
        report = check(place, SystemClock(), fail_on=fail_on)
    except GpumondError as error:
        if not arguments.nagios:
            raise
        print(render_unknown(f"{error.message}. {error.hint}".rstrip()))
        return NagiosState.UNKNOWN
    if arguments.nagios:
        print(render(report, fail_on))
        return state_of(report)
    code = ExitCode.UNHEALTHY if report.is_failing else ExitCode.HEALTHY
    if arguments.json:
        print(codec.encode(CheckDocument(code, fail_on, report), indent=2).decode())
    else:
        print("\n".join(_lines(report, fail_on)))
    return code


def find_history(file: Path | None) -> Glance:
    """Raises ConfigError."""
    if file is None and not DEFAULT_FILE.exists():
        return Glance()
    file = file or DEFAULT_FILE
    glance = glance_at(file)
    if glance is not None:
        return glance
    from gpumond.config.load import load  # noqa: PLC0415 - 0.4 s, and only where something is wrong

    config = load(file)
    return Glance(config.store.directory, config.snapshot.interval, config.snapshot.deadline)


def check(place: Glance, clock: Clock, *, fail_on: Level) -> HealthReport:
    """Read the history and assess it. Raises StoreError."""
    with Store.open(place.state_directory, clock=clock, read_only=True) as store:
        periods = store.snapshot_periods(limit=1)
        record = HostRecord(
            at=clock.now(),
            findings=store.findings(),
            changes=store.open_changes(),
            verdicts=store.latest_verdicts(),
            scores=store.latest_scores(),
            inventory=store.accepted_inventory(),
            daemon_seen_at=store.last_write_check(),
            gpus_seen_at=periods[0].last_seen if periods else None,
            is_measuring=bool(store.open_sweeps()),
            is_paused=store.pause() is not None,
        )
    longest = SNAPSHOTS_MISSED_MAX * (place.interval_seconds + place.deadline_seconds)
    return assess(record, fail_on=fail_on, snapshot_seconds_max=longest)


def _lines(report: HealthReport, fail_on: Level) -> Iterator[str]:
    word = report.verdict.value + (f" ({report.reason})" if report.reason else "")
    yield printable(f"{word}: {report.detail}")
    for trouble in report.troubles:
        mark = "" if trouble.is_confirmed else ", unconfirmed"
        if trouble.is_confirmed and not reaches(trouble.level, fail_on):
            mark = f", below --fail-on {fail_on.value}"
        yield printable(
            f"  {trouble.level.value:<8} {trouble.kind:<18} since {trouble.since:%Y-%m-%d %H:%M}Z{mark}: {trouble.detail}"
        )
    if report.is_paused:
        yield "  sweeps are paused"
