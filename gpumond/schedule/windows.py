"""Quiet hours in local time ("02:00-05:00 Europe/Berlin") turned into UTC instants.

Owns every conversion between wall clock times and instants. Knows no clock, no scheduler and no sweep.

One rule makes both ends of a window: **a wall clock time means the first instant at which the zone's clock reads it or
has passed it.** From it follows, on the two nights of the year that matter:

- a start that does not exist becomes the first instant after the gap (Vixie cron does the same);
- a start that comes twice is its first pass only;
- an end that does not exist is the first instant after the gap, an end that comes twice is its first pass: the earlier
  reading, because the end is when the users get their GPUs back;
- a window that lies wholly inside a gap has no length, so that night has none;
- windows never overlap and come in order, since the rule is monotone in the wall clock time.

A window belongs to the local date on which it is written to start and comes at most once for it. A date that a zone
skipped (Samoa, 2011-12-30) has none. Where a gap swallows the rest of a date (Nuuk, the Saturday in March on which
23:00 is midnight) the window opens with the first instant of the next day and still belongs to its own date.

All sums are done in UTC. Adding a timedelta to a local datetime resets `fold`, which is how APScheduler's jitter hangs
for ever in the repeated hour (measured; docs/architecture.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

EVERY_DAY: Final = frozenset(range(7))
"""Weekdays as `date.weekday` counts them: Monday is 0."""

_ONE_DAY = timedelta(days=1)
# A window is at most 24 h of wall clock, and no zone is further than 26 h from UTC in any change of the date line.
_DATES_BEFORE = 3


@dataclass(frozen=True, slots=True)
class Window:
    """Quiet hours. An `end` not after `start` is on the next day; equal means the whole day from `start`.

    Raises ValueError for a zone that the host's tz database does not have, or without any weekday.
    """

    start: time
    end: time
    zone: str
    weekdays: frozenset[int] = EVERY_DAY

    def __post_init__(self) -> None:
        load_zone(self.zone)
        if not self.weekdays or not self.weekdays <= EVERY_DAY:
            raise ValueError(f"no weekdays, or not all of them within 0-6: {sorted(self.weekdays)}")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One night's window: `start` <= t < `end` in UTC, and the local date that it belongs to."""

    local_date: date
    start: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        return self.end - self.start


class PlannedStart(NamedTuple):
    """When to start, in UTC, and the window in which that is."""

    at: datetime
    occurrence: Occurrence


def load_zone(name: str) -> ZoneInfo:
    """The zone with an IANA name. Raises ValueError for every kind of name that is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:  # unknown; a directory such as `Europe`; `../x`
        raise ValueError(f"unknown time zone: {name!r}") from error


def occurrences(window: Window, after: datetime) -> Iterator[Occurrence]:
    """Every occurrence that ends after the instant `after`, in order; the first may be open already."""
    zone = load_zone(window.zone)
    first = max(after.astimezone(UTC).date().toordinal() - _DATES_BEFORE, 1)
    for ordinal in range(first, date.max.toordinal() - 1):
        day = date.fromordinal(ordinal)
        if day.weekday() not in window.weekdays:
            continue
        occurrence = _occurrence_on(window, zone, day)
        if occurrence is not None and occurrence.end > after:
            yield occurrence


def date_at(window: Window, instant: datetime) -> date | None:
    """The local date to which an instant inside a window belongs; None outside.

    How the daemon learns from the times of stored sweeps which dates are done, also after a restart.
    """
    occurrence = next(occurrences(window, instant), None)
    return occurrence.local_date if occurrence is not None and occurrence.start <= instant else None


def host_offset(machine_id: str, spread_seconds: float) -> float:
    """Seconds in [0, `spread_seconds`) that are the same for a machine for ever.

    A hash, not a random number: a series of results keeps its hour, and a fleet still does not start at once.
    """
    digest = hashlib.sha256(b"gpumond window offset\0" + machine_id.strip().encode()).digest()
    # 53 bits: what a float holds exactly, so that the share stays below 1.
    share = (int.from_bytes(digest[:8], "big") >> 11) / float(1 << 53)
    return share * spread_seconds


def next_start(
    window: Window, now: datetime, *, offset_seconds: float = 0.0, done_dates: Collection[date] = ()
) -> PlannedStart | None:
    """The next moment to start, never before `now`: at once where a window is open, past the offset and not done.

    So a daemon that was down catches up inside the window and only there. None where no date is left before year
    9999. An offset beyond a window (one shortened by DST, or a spread longer than it) wraps around inside it, which
    keeps the fleet spread and every host within its quiet hours.
    """
    for occurrence in occurrences(window, now):
        if occurrence.local_date in done_dates:
            continue
        offset = timedelta(seconds=offset_seconds) % occurrence.length
        at = max(occurrence.start + offset, now.astimezone(UTC))
        # `at` can be past `end` only for an occurrence that ended, and `occurrences` yields none of those.
        return PlannedStart(at, occurrence)
    return None


def _occurrence_on(window: Window, zone: ZoneInfo, day: date) -> Occurrence | None:
    """The window of one date, None where the date does not exist in the zone or the window has no length."""
    end_day = day if window.end > window.start else day + _ONE_DAY
    start = _first_instant(datetime.combine(day, window.start), zone)
    end = _first_instant(datetime.combine(end_day, window.end), zone)
    return Occurrence(day, start, end) if start < end and _exists(day, zone) else None


def _exists(day: date, zone: ZoneInfo) -> bool:
    midnight, next_midnight = (datetime.combine(d, time(0)) for d in (day, day + _ONE_DAY))
    return _first_instant(midnight, zone) < _first_instant(next_midnight, zone)


def _first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first instant at which the zone's clock reads `wall` (naive) or has passed it."""
    # fold=0 is the first pass of a repeated time. For a time in a gap it counts with the offset before the gap, so
    # it lands after the change, and fold=1 lands before it (PEP 495).
    instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if _reads(instant, zone) == wall:
        return instant
    return _end_of_gap(wall, zone, wall.replace(tzinfo=zone, fold=1).astimezone(UTC), instant)


def _end_of_gap(wall: datetime, zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The change of offset in (`before`, `after`], by halving: zoneinfo does not tell where its changes are."""
    low, high = 0, round((after - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if _reads(before + timedelta(seconds=middle), zone) >= wall:
            high = middle
        else:
            low = middle
    return before + timedelta(seconds=high)


def _reads(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None)
