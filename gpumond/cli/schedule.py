"""`gpumond schedule`: when each configured sweep runs next, in its own zone and in UTC.

Answers from the configuration and, where there is a history, from the dates on which a sweep ran already; with a
daemon or without one. It shows plans: busy GPUs move a start inside its window.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from gpumond.cli.options import add_config_option, load_config
from gpumond.clock import Clock, SystemClock
from gpumond.config.schema import Config, SweepConfig
from gpumond.config.sweep_schema import When
from gpumond.errors import ExitCode, StoreError, StoreErrorKind
from gpumond.schedule.sweeps import read_boot_at, read_machine_id, window_of
from gpumond.schedule.windows import (
    Occurrence,
    PlannedStart,
    Window,
    host_offset,
    next_start,
    occurrences,
)
from gpumond.store.sqlite import Store
from gpumond.timetable import Occasions, appointment_of

HELP = "show when the configured sweeps run next, in local time and UTC"

DEFAULT_COUNT = 5
MAX_COUNT = 1000

_NO_SWEEP_HINT = "Nothing is ever measured without a [[sweep]] table; config.example.toml has a nightly one."


@dataclass(frozen=True, slots=True)
class Plan:
    """The next starts of one sweep on this host."""

    sweep: SweepConfig
    window: Window
    offset_seconds: float
    starts: tuple[PlannedStart, ...]


def configure(parser: argparse.ArgumentParser) -> None:
    add_config_option(parser)
    parser.add_argument(
        "-n",
        type=_count,
        default=DEFAULT_COUNT,
        metavar="COUNT",
        help=f"how many runs of each sweep (default: {DEFAULT_COUNT})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    config = load_config(arguments.config)
    clock = SystemClock()
    now = clock.now()
    plans = plan_sweeps(config, clock, now, machine_id=read_machine_id(), count=arguments.n)
    if not plans:
        print(f"gpumond: no sweep is configured\nhint: {_NO_SWEEP_HINT}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"now": _utc(now), "sweeps": [_as_document(plan) for plan in plans]}, indent=1))
    elif plans:
        print("\n\n".join("\n".join(_as_lines(plan, now)) for plan in plans))
    return ExitCode.HEALTHY


def plan_sweeps(config: Config, clock: Clock, now: datetime, *, machine_id: str, count: int) -> list[Plan]:
    """The next `count` starts of each sweep, from the history where there is one. Raises StoreError."""
    if not config.sweeps:
        return []
    with ExitStack() as stack:
        store = _open_history(config, clock)
        if store is not None:
            stack.enter_context(store)
        return [_plan(sweep, store, now, machine_id, count) for sweep in config.sweeps]


def _open_history(config: Config, clock: Clock) -> Store | None:
    """None where nothing was ever stored: then no date is done."""
    try:
        return Store.open(config.store.directory, clock=clock, read_only=True)
    except StoreError as error:
        if error.kind is not StoreErrorKind.UNAVAILABLE:
            raise
        print(f"gpumond: {error.message}: no date counts as done", file=sys.stderr)
        return None


def _plan(sweep: SweepConfig, store: Store | None, now: datetime, machine_id: str, count: int) -> Plan:
    window = window_of(sweep)
    offset = host_offset(machine_id, sweep.spread)
    if sweep.after:
        return Plan(sweep, window, offset, tuple(_after_occasion(sweep, store, now, machine_id)))
    first = (
        next_start(window, now, offset_seconds=offset)
        if store is None
        else _first_of_history(sweep, store, now, machine_id)
    )
    starts = tuple(_following(window, first, offset, count)) if first is not None else ()
    return Plan(sweep, window, offset, starts)


def _after_occasion(
    sweep: SweepConfig, store: Store | None, now: datetime, machine_id: str
) -> Iterator[PlannedStart]:
    """The one start that something has asked for by now. Changed inputs are seen by the daemon only."""
    if store is None:
        return
    occasions = Occasions(boot_at=read_boot_at(now), change_at=store.last_change_at())
    at = appointment_of(
        sweep, store, now, machine_id=machine_id, known_since=now, occasions=occasions
    ).starts_at
    if at is not None:
        yield PlannedStart(at, next(occurrences(window_of(sweep), at)))


def _first_of_history(
    sweep: SweepConfig, store: Store, now: datetime, machine_id: str
) -> PlannedStart | None:
    """What the daemon would arm now: the same function answers."""
    at = appointment_of(sweep, store, now, machine_id=machine_id, known_since=now).starts_at
    if at is None:
        return None
    return PlannedStart(at, next(occurrences(window_of(sweep), at)))


def _following(window: Window, first: PlannedStart, offset: float, count: int) -> Iterator[PlannedStart]:
    start: PlannedStart | None = first
    done: set[date] = set()
    for _ in range(count):
        if start is None:
            return
        yield start
        done.add(start.occurrence.local_date)
        start = next_start(window, start.at, offset_seconds=offset, done_dates=done)


def _as_lines(plan: Plan, now: datetime) -> Iterator[str]:
    sweep, zone = plan.sweep, ZoneInfo(plan.window.zone)
    asks = " or ".join(sweep.after)
    if sweep.after and sweep.when is When.IDLE:
        yield f"{sweep.name}: once after each {asks}, at any hour at which the GPUs are idle"
        yield from _start_lines(plan, now, zone)
        return
    days = "every day" if len(plan.window.weekdays) == len(type(sweep.days[0])) else ", ".join(sweep.days)
    yield (
        f"{sweep.name}: {sweep.window} {plan.window.zone}, {days}"
        f"{f', once after each {asks}' if asks else ''}; "
        f"this host starts {_minutes(plan.offset_seconds)} after the window opens"
    )
    yield from _start_lines(plan, now, zone)


def _start_lines(plan: Plan, now: datetime, zone: ZoneInfo) -> Iterator[str]:
    if plan.sweep.after and not plan.starts:
        yield "  nothing has asked for it"
    for start in plan.starts:
        local = start.at.astimezone(zone)
        reason = "the window is open" if plan.sweep.when is When.WINDOW else "idle GPUs are all it needs"
        note = f"  at once: {reason}" if start.at <= now else ""
        yield f"  {local:%a %Y-%m-%d %H:%M:%S %Z}  {_utc(start.at)}{note}"


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def _as_document(plan: Plan) -> dict[str, Any]:
    zone = ZoneInfo(plan.window.zone)
    return {
        "sweep": plan.sweep.name,
        "window": str(plan.sweep.window),
        "timezone": plan.window.zone,
        "days": [day.value for day in plan.sweep.days],
        "offset_seconds": plan.offset_seconds,
        "after": [occasion.value for occasion in plan.sweep.after],
        "when": plan.sweep.when.value,
        "starts": [_start_as_document(start, zone) for start in plan.starts],
    }


def _start_as_document(start: PlannedStart, zone: ZoneInfo) -> dict[str, str]:
    occurrence: Occurrence = start.occurrence
    return {
        "date": occurrence.local_date.isoformat(),
        "local": start.at.astimezone(zone).isoformat(timespec="seconds"),
        "utc": _utc(start.at),
        "window_opens": _utc(occurrence.start),
        "window_closes": _utc(occurrence.end),
    }


def _utc(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MAX_COUNT:
        raise argparse.ArgumentTypeError(f"not within 1-{MAX_COUNT}: {text}")
    return number
