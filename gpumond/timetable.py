"""When each configured sweep runs next and since when it is due, from its window and from what the store remembers.

The arithmetic of windows is schedule.windows; this module only asks it with the right dates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from gpumond.config.schema import SweepConfig
from gpumond.config.sweep_schema import Occasion, When
from gpumond.model.run import Sweep, SweepOutcome, Trigger
from gpumond.schedule.sweeps import window_of
from gpumond.schedule.windows import Window, date_at, host_offset, next_start
from gpumond.store.sqlite import Store
from gpumond.sweep.service import Cadence

RETRY_SECONDS = 600.0
"""A refused sweep (busy GPUs) is tried again inside its window; a window of three hours has room for many tries."""

RERUNS_MAX = 5
RERUN_AFTER_SECONDS = 600.0
"""A low night is measured again up to so often: what disturbed it has mostly gone after ten minutes."""

REMEMBERED_SWEEPS = 50
"""Looked at to learn which dates are done; a window sees a try every RETRY_SECONDS at most."""

_DAY_SECONDS = 86_400.0
_WEEK_DAYS = 7


@dataclass(frozen=True, slots=True)
class Appointment:
    """`starts_at` is the next try; `due_at` is when a success was due, and stays in the past until there is one."""

    starts_at: datetime | None
    due_at: datetime | None
    window_ends_at: datetime | None = None
    """Of the window in which the next try falls, unless it was refused only just now and has to wait for another."""


@dataclass(frozen=True, slots=True)
class Occasions:
    """When what may ask for a sweep happened last; None where it never did, or nobody knows."""

    boot_at: datetime | None = None
    change_at: datetime | None = None

    def of(self, sweep: SweepConfig) -> datetime | None:
        """The newest one that the sweep is meant for."""
        known = {Occasion.BOOT: self.boot_at, Occasion.CHANGE: self.change_at}
        return max((at for occasion in sweep.after if (at := known[occasion]) is not None), default=None)


def cadence_of(sweep: SweepConfig) -> Cadence:
    """A sweep is overdue when its window has passed; its interval is the longest gap between two of its days."""
    weekdays = sorted(day.weekday for day in sweep.days)
    following = [*weekdays[1:], weekdays[0] + _WEEK_DAYS]
    gap = max(later - earlier for earlier, later in zip(weekdays, following, strict=True))
    return Cadence(
        interval_seconds=gap * _DAY_SECONDS, overdue_grace_seconds=float(sweep.window.length_seconds)
    )


def appointment_of(
    sweep: SweepConfig,
    store: Store,
    now: datetime,
    *,
    machine_id: str,
    known_since: datetime,
    occasions: Occasions = Occasions(),
) -> Appointment:
    """`known_since` is what a sweep that has never succeeded is measured against."""
    past_sweeps = store.sweeps(limit=REMEMBERED_SWEEPS, name=sweep.name)
    if sweep.after:
        asked_at = occasions.of(sweep)
        return _after_occasion(sweep, past_sweeps, now, asked_at=asked_at, machine_id=machine_id)
    window = window_of(sweep)
    offset = host_offset(machine_id, sweep.spread)
    tries = [past for past in past_sweeps if past.trigger is Trigger.WINDOW]
    done = done_dates(window, tries)
    planned = next_start(window, now, offset_seconds=offset, done_dates=done)
    last_success = store.sweep_history(sweep.name).last_success_at
    due = next_start(window, last_success or known_since, offset_seconds=offset, done_dates=done)
    return Appointment(
        starts_at=None
        if planned is None
        else _not_too_soon(planned.at, planned.occurrence.end, tries, window, offset),
        due_at=due.at if due else None,
        window_ends_at=planned.occurrence.end if planned else None,
    )


def _after_occasion(
    sweep: SweepConfig,
    past_sweeps: Sequence[Sweep],
    now: datetime,
    *,
    asked_at: datetime | None,
    machine_id: str,
) -> Appointment:
    """Once after each occasion; whoever else has run the sweep since then has done it."""
    if asked_at is None or any(_is_done(past) and past.started_at >= asked_at for past in past_sweeps):
        return Appointment(starts_at=None, due_at=None)
    tries = [it for it in past_sweeps if it.trigger is Trigger.EVENT and it.started_at >= asked_at]
    if sweep.when is When.IDLE:
        last = max((past.started_at for past in tries), default=None)
        retry_at = now if last is None else last + timedelta(seconds=RETRY_SECONDS)
        return Appointment(starts_at=max(now, retry_at), due_at=asked_at)
    window, offset = window_of(sweep), host_offset(machine_id, sweep.spread)
    planned = next_start(window, now, offset_seconds=offset)
    due = next_start(window, asked_at, offset_seconds=offset)
    if planned is None:
        return Appointment(starts_at=None, due_at=due.at if due else None)
    return Appointment(
        starts_at=_not_too_soon(planned.at, planned.occurrence.end, tries, window, offset),
        due_at=due.at if due else None,
        window_ends_at=planned.occurrence.end,
    )


def _is_done(past: Sweep) -> bool:
    """A refusal is no run."""
    return past.outcome in (SweepOutcome.SUCCESS, SweepOutcome.FAILURE)


def done_dates(window: Window, tries: Iterable[Sweep]) -> frozenset[date]:
    """The local dates on which a sweep of this window ran to its end. A refusal is no run."""
    dates = {date_at(window, past.started_at) for past in tries if _is_done(past)}
    return frozenset(found for found in dates if found is not None)


def _not_too_soon(
    at: datetime, end: datetime, tries: Iterable[Sweep], window: Window, offset: float
) -> datetime | None:
    """`at`, or later when a try was refused only just now; the next window when this one has no room for a retry."""
    last = max((past.started_at for past in tries), default=None)
    if last is None:
        return at
    earliest = max(at, last + timedelta(seconds=RETRY_SECONDS))
    if earliest < end:
        return earliest
    following = next_start(window, end, offset_seconds=offset)
    return following.at if following else None


def confirmation_at(now: datetime, window_ends_at: datetime | None, *, reruns_left: int) -> datetime | None:
    """When a low night is measured again; None where its window has no room for that, or it has been often enough."""
    at = now + timedelta(seconds=RERUN_AFTER_SECONDS)
    return at if reruns_left > 0 and window_ends_at is not None and at < window_ends_at else None
