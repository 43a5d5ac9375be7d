from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.schedule.steps import ClockReading, clock_step

START = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wall_passed", "monotonic_passed", "expected"),
    [
        (30.0, 30.0, None),
        (30.3, 30.0, None),  # slewed by NTP
        (34.9, 30.0, None),
        (3630.0, 30.0, 3600.0),
        (-3570.0, 30.0, -3600.0),
        (28_800.0, 12.0, 28_788.0),  # suspended overnight: monotonic time does not count it
        (0.0, 30.0, -30.0),
    ],
)
def test_clock_step(wall_passed, monotonic_passed, expected):
    before = ClockReading(START, 1000.0)
    after = ClockReading(START + timedelta(seconds=wall_passed), 1000.0 + monotonic_passed)
    assert clock_step(before, after) == (None if expected is None else pytest.approx(expected))


@given(st.floats(0, 1e6), st.floats(-1e6, 1e6).filter(lambda step: abs(abs(step) - 5) > 0.01))
def test_finds_every_step_whatever_time_passed(passed, step):
    before = ClockReading(START, 0.0)
    after = ClockReading(START + timedelta(seconds=passed + step), passed)
    found = clock_step(before, after)
    assert (found is not None) == (abs(step) > 5)
    assert found is None or found == pytest.approx(step, abs=1e-3)
