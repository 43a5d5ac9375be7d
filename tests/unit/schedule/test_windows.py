"""Windows across every rule that a zone of the tz database can have."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpumond.schedule.windows import (
    EVERY_DAY,
    Window,
    date_at,
    host_offset,
    next_start,
    occurrences,
)

ZONES = sorted(available_timezones())

zones = st.sampled_from(ZONES)
minutes_of_day = st.integers(0, 24 * 60 - 1).map(lambda minute: time(*divmod(minute, 60)))
seconds_from_1970_to_2100 = st.integers(4 * 86_400, 4_102_444_800)
instants = seconds_from_1970_to_2100.map(lambda second: datetime.fromtimestamp(second, UTC))
weekday_sets = st.frozensets(st.integers(0, 6), min_size=1)
windows = st.builds(Window, minutes_of_day, minutes_of_day, zones, weekday_sets)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def window_of(text: str, zone: str, weekdays=EVERY_DAY) -> Window:
    start, end = text.split("-")
    end = "00:00" if end == "24:00" else end
    return Window(time.fromisoformat(start), time.fromisoformat(end), zone, frozenset(weekdays))


def on(window: Window, day: date) -> list[tuple[datetime, datetime]]:
    """The occurrences that belong to one date."""
    noon = datetime.combine(day, time(12), tzinfo=UTC) - timedelta(days=3)
    return [(o.start, o.end) for o in islice(occurrences(window, noon), 8) if o.local_date == day]


@pytest.mark.parametrize(
    ("text", "zone", "day", "expected"),
    [
        # engineering.md 1.2: New York, spring: 02:00 becomes 03:00.
        ("02:30-05:00", "America/New_York", "2026-03-08", ("2026-03-08T07:00", "2026-03-08T09:00")),
        ("02:00-05:00", "America/New_York", "2026-03-08", ("2026-03-08T07:00", "2026-03-08T09:00")),
        ("01:00-02:30", "America/New_York", "2026-03-08", ("2026-03-08T06:00", "2026-03-08T07:00")),
        ("02:00-03:00", "America/New_York", "2026-03-08", None),
        ("02:10-02:50", "America/New_York", "2026-03-08", None),
        # Autumn: 02:00 becomes 01:00, so 01:30 comes twice.
        ("01:30-05:00", "America/New_York", "2026-11-01", ("2026-11-01T05:30", "2026-11-01T10:00")),
        ("01:00-01:30", "America/New_York", "2026-11-01", ("2026-11-01T05:00", "2026-11-01T05:30")),
        ("00:30-01:30", "America/New_York", "2026-11-01", ("2026-11-01T04:30", "2026-11-01T05:30")),
        ("02:00-05:00", "America/New_York", "2026-11-01", ("2026-11-01T07:00", "2026-11-01T10:00")),
        ("02:30-05:00", "Europe/Berlin", "2026-03-29", ("2026-03-29T01:00", "2026-03-29T03:00")),
        ("02:30-05:00", "Europe/Berlin", "2026-10-25", ("2026-10-25T00:30", "2026-10-25T04:00")),
        ("22:00-04:00", "Europe/Berlin", "2026-03-28", ("2026-03-28T21:00", "2026-03-29T02:00")),
        ("22:00-04:00", "Europe/Berlin", "2026-10-24", ("2026-10-24T20:00", "2026-10-25T03:00")),
        # Lord Howe shifts by 30 minutes: 02:00 -> 02:30 in October, 02:00 -> 01:30 in April.
        ("02:15-05:00", "Australia/Lord_Howe", "2026-10-04", ("2026-10-03T15:30", "2026-10-03T18:00")),
        ("02:00-02:30", "Australia/Lord_Howe", "2026-10-04", None),
        ("01:45-05:00", "Australia/Lord_Howe", "2026-04-05", ("2026-04-04T14:45", "2026-04-04T18:30")),
        # Midnight itself does not exist in Beirut in spring and comes twice in Havana in autumn.
        ("00:00-03:00", "Asia/Beirut", "2026-03-29", ("2026-03-28T22:00", "2026-03-29T00:00")),
        ("00:30-03:00", "America/Havana", "2026-11-01", ("2026-11-01T04:30", "2026-11-01T08:00")),
        # Dublin's winter time is the one with the "daylight saving" flag, and it is negative.
        ("01:30-05:00", "Europe/Dublin", "2026-03-29", ("2026-03-29T01:00", "2026-03-29T04:00")),
        ("01:30-05:00", "Europe/Dublin", "2026-10-25", ("2026-10-25T00:30", "2026-10-25T05:00")),
        # Nuuk: 23:00 is midnight; the window belongs to the Saturday still.
        ("23:15-03:00", "America/Nuuk", "2026-03-28", ("2026-03-29T01:00", "2026-03-29T04:00")),
        # Samoa crossed the date line and had no 30 December 2011.
        ("02:00-05:00", "Pacific/Apia", "2011-12-29", ("2011-12-29T12:00", "2011-12-29T15:00")),
        ("02:00-05:00", "Pacific/Apia", "2011-12-30", None),
        ("22:00-04:00", "Pacific/Apia", "2011-12-30", None),
        ("02:00-05:00", "Pacific/Apia", "2011-12-31", ("2011-12-30T12:00", "2011-12-30T15:00")),
        ("22:00-04:00", "Pacific/Apia", "2011-12-29", ("2011-12-30T08:00", "2011-12-30T10:00")),
        ("00:00-24:00", "UTC", "2026-11-29", ("2026-11-29T00:00", "2026-11-30T00:00")),
        ("00:00-24:00", "Europe/Berlin", "2026-10-25", ("2026-10-24T22:00", "2026-10-25T23:00")),
    ],
)
def test_change_of_offset(text, zone, day, expected):
    found = on(window_of(text, zone), date.fromisoformat(day))
    assert found == ([] if expected is None else [(utc(expected[0]), utc(expected[1]))])


@given(windows, instants)
@example(Window(time(22), time(4), "Pacific/Apia"), utc("2011-12-28T00:00"))
@example(Window(time(23), time(1), "Pacific/Kwajalein"), utc("1993-08-19T00:00"))
def test_in_order_apart_and_once_a_date(window, after):
    found = list(islice(occurrences(window, after), 12))
    for earlier, later in pairwise(found):
        assert earlier.start < earlier.end <= later.start
        assert earlier.local_date < later.local_date
    for one in found:
        assert one.end > after
        assert one.local_date.weekday() in window.weekdays


@given(windows, instants)
def test_each_end_is_the_first_instant_that_reads_it(window, after):
    """The rule itself, checked against the zone minute by minute instead of by `fold`."""
    zone = ZoneInfo(window.zone)
    one = next(occurrences(window, after))
    end_date = one.local_date + timedelta(days=window.end <= window.start)
    for instant, wall in (
        (one.start, datetime.combine(one.local_date, window.start)),
        (one.end, datetime.combine(end_date, window.end)),
    ):
        assert instant.astimezone(zone).replace(tzinfo=None) >= wall
        for minutes in (1 / 60, 1, 5, 29, 30, 31, 59, 60, 61, 119, 121, 24 * 60 - 1):
            before = instant - timedelta(minutes=minutes)
            assert before.astimezone(zone).replace(tzinfo=None) < wall


@given(windows, instants)
def test_starts_inside_the_local_window_wherever_the_clock_is_regular(window, after):
    zone = ZoneInfo(window.zone)
    for one in islice(occurrences(window, after), 4):
        local = one.start.astimezone(zone)
        if local.replace(tzinfo=None) != datetime.combine(one.local_date, window.start):
            # Only a gap moves a start, and then to its very end.
            just_before = (one.start - timedelta(seconds=1)).astimezone(zone)
            assert just_before.utcoffset() < local.utcoffset()


@given(windows, instants, st.floats(0, 200_000), st.integers(0, 3))
def test_next_start_is_inside_an_open_window_and_never_past(window, now, offset, done_count):
    done = frozenset(one.local_date for one in islice(occurrences(window, now), done_count))
    at, occurrence = next_start(window, now, offset_seconds=offset, done_dates=done)
    assert at >= now
    assert occurrence.start <= at < occurrence.end
    assert occurrence.local_date not in done


@given(st.builds(Window, minutes_of_day, minutes_of_day, zones), instants, st.floats(0, 7200))
def test_a_daemon_that_obeys_runs_once_a_date(window, now, offset):
    """Two weeks of a daemon: wait for the start, run for ten minutes, note the date, ask again."""
    done: list[date] = []
    starts: list[datetime] = []
    while len(starts) < 14:
        at, occurrence = next_start(window, now, offset_seconds=offset, done_dates=done)
        assert occurrence.local_date not in done
        done.append(occurrence.local_date)
        starts.append(at)
        now = at + timedelta(minutes=10)
    assert starts == sorted(starts)
    # Every night has its run: a window can be missing only where a gap swallowed it or the date.
    assert starts[-1] - starts[0] <= timedelta(days=13 + 3)


def test_catches_up_inside_the_window_only():
    window = window_of("02:00-05:00", "UTC")
    assert next_start(window, utc("2026-11-29T03:10")).at == utc("2026-11-29T03:10")
    assert next_start(window, utc("2026-11-29T05:00")).at == utc("2026-11-30T02:00")
    done = {date(2026, 11, 29)}
    assert next_start(window, utc("2026-11-29T03:10"), done_dates=done).at == utc("2026-11-30T02:00")


def test_offset_moves_the_start_and_wraps_inside_a_short_window():
    window = window_of("02:00-05:00", "Europe/Berlin")
    at, _ = next_start(window, utc("2026-11-28T12:00"), offset_seconds=5400)
    assert at == utc("2026-11-29T02:30")
    # 02:00-05:00 lasts two hours on the night of the change: 2 h 30 min is 30 min into it.
    at, occurrence = next_start(window, utc("2026-03-28T12:00"), offset_seconds=9000)
    assert (at, occurrence.end) == (utc("2026-03-29T01:30"), utc("2026-03-29T03:00"))


def test_an_aware_local_now_is_understood():
    window = window_of("02:00-05:00", "Europe/Berlin")
    local = datetime(2026, 11, 29, 3, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert next_start(window, local).at == utc("2026-11-29T02:30")
    assert next_start(window, local).at.tzinfo is UTC


def test_only_on_the_chosen_weekdays():
    window = window_of("22:00-04:00", "UTC", {5, 6})
    dates = [one.local_date for one in islice(occurrences(window, utc("2026-11-25T00:00")), 4)]
    assert dates == [date(2026, 11, 28), date(2026, 11, 29), date(2026, 12, 5), date(2026, 12, 6)]


def test_the_calendar_ends():
    window = window_of("02:00-05:00", "Asia/Tokyo")
    assert next_start(window, utc("9999-12-31T12:00")) is None


@pytest.mark.parametrize(
    "zone", ["", "Europe", "Mars/Olympus", "../etc/passwd", "/etc/passwd", "CEST\0", "x" * 5000]
)
def test_rejects_an_unknown_zone(zone):
    with pytest.raises(ValueError, match="unknown time zone"):
        window_of("02:00-05:00", zone)


@pytest.mark.parametrize("weekdays", [(), (7,), (-1, 2)])
def test_rejects_wrong_weekdays(weekdays):
    with pytest.raises(ValueError, match="weekdays"):
        window_of("02:00-05:00", "UTC", weekdays)


@given(windows, instants, st.floats(0, 0.999))
def test_date_at_finds_the_window_of_an_instant(window, after, share):
    for one in islice(occurrences(window, after), 3):
        assert date_at(window, one.start + share * (one.end - one.start)) == one.local_date
        following = next(occurrences(window, one.end))
        expected = following.local_date if following.start == one.end else None
        assert date_at(window, one.end) == expected


@given(st.text(), st.floats(0, 86400))
def test_host_offset_is_stable_and_within_the_spread(machine_id, spread):
    offset = host_offset(machine_id, spread)
    assert offset == host_offset(machine_id + "\n", spread)
    assert 0 <= offset <= spread
    assert offset < spread or spread < 1e-300


def test_host_offset_never_changes_between_releases_and_spreads_a_fleet():
    assert host_offset("4c4c4544004d3510", 3600) == pytest.approx(EXPECTED_OFFSET_SECONDS)
    tenths = {int(host_offset(f"host-{n}", 10)) for n in range(100)}
    assert tenths == set(range(10))


EXPECTED_OFFSET_SECONDS = 3455.5001307446123
