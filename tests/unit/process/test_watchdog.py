from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.model.run import Cause
from gpumond.process.command import Limits
from gpumond.process.watchdog import RowWatchdog

STARTED_AT = 1000.0


def watchdog(limits: Limits, rows_at: tuple[float, ...] = ()) -> RowWatchdog:
    result = RowWatchdog(limits, started_at=STARTED_AT)
    for instant in rows_at:
        result.row(STARTED_AT + instant)
    return result


@pytest.mark.parametrize(
    ("limits", "rows_at", "deadline", "cause"),
    [
        (Limits(60), (), 60, Cause.TOTAL_TIMEOUT),
        (Limits(60), (1, 2), 60, Cause.TOTAL_TIMEOUT),
        (Limits(60, first_row_seconds=10), (), 10, Cause.NO_FIRST_ROW),
        (Limits(60, first_row_seconds=10), (9,), 60, Cause.TOTAL_TIMEOUT),
        (Limits(60, first_row_seconds=10, row_seconds=5), (9,), 14, Cause.ROW_STALLED),
        (Limits(60, row_seconds=5), (), 60, Cause.TOTAL_TIMEOUT),
        (Limits(60, first_row_seconds=10, row_seconds=5), (9, 13, 17), 22, Cause.ROW_STALLED),
        (Limits(60, first_row_seconds=10, row_seconds=5), (58,), 60, Cause.TOTAL_TIMEOUT),
        (Limits(60, first_row_seconds=90), (), 60, Cause.TOTAL_TIMEOUT),
    ],
)
def test_the_next_deadline(limits, rows_at, deadline, cause):
    dog = watchdog(limits, rows_at)
    assert dog.next_deadline == (STARTED_AT + deadline, cause)
    assert dog.expired(STARTED_AT + deadline - 0.001) is None
    assert dog.expired(STARTED_AT + deadline) is cause
    assert dog.rows == len(rows_at)


@given(st.lists(st.floats(0, 5, allow_nan=False), max_size=20))
def test_rows_at_least_every_row_seconds_never_stall(gaps):
    dog = watchdog(Limits(1e6, first_row_seconds=5.1, row_seconds=5.1))
    now = STARTED_AT
    for gap in gaps:
        now += gap
        assert dog.expired(now) is None
        dog.row(now)
