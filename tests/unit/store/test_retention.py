from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.store.retention import NEWEST_RUNS_KEPT, Expired, RetentionPolicy, RunAge, expired

NOW = datetime(2026, 11, 29, tzinfo=UTC)
POLICY = RetentionPolicy(
    success_output=timedelta(days=30), failure_output=timedelta(days=365), results=timedelta(days=730)
)
MEASURED = ("nightly", "nccl-tests", "all", "all_reduce")


def run(number, days, *, failure=False, output=True, measured=MEASURED):
    return RunAge(number, NOW - timedelta(days=days), measured, failure, output)


@pytest.mark.parametrize(
    ("days", "failure", "goes"),
    [
        (30, False, False),
        (31, False, True),
        (31, True, False),
        (365, True, False),
        (366, True, True),
        (-5, False, False),
    ],
)
def test_the_raw_output_of_failures_is_kept_longer(days, failure, goes):
    assert expired([run(1, days, failure=failure)], NOW, POLICY) == Expired((), (1,) if goes else ())


def test_an_output_that_is_gone_does_not_go_again():
    assert expired([run(1, 400, output=False)], NOW, POLICY) == Expired((), ())


def test_a_run_that_goes_as_a_whole_is_not_listed_twice():
    runs = [run(number, 800) for number in range(NEWEST_RUNS_KEPT + 2)]
    gone = expired(runs, NOW, POLICY)
    assert gone.runs == (0, 1)
    assert gone.outputs == tuple(range(2, NEWEST_RUNS_KEPT + 2))


def test_the_newest_runs_are_kept_of_each_thing_that_is_measured():
    often = [run(number, 800) for number in range(100)]
    rare = [run(100, 5000, measured=("weekly", "nccl-tests", "all", "all_gather"))]
    gone = expired(often + rare, NOW, POLICY)
    assert gone.runs == tuple(range(100 - NEWEST_RUNS_KEPT))


AGES = st.lists(
    st.builds(
        RunAge,
        number=st.integers(0, 10**6),
        ended_at=st.integers(-100, 2000).map(lambda days: NOW - timedelta(days=days)),
        measured=st.sampled_from([("a",), ("b",)]),
        is_failure=st.booleans(),
        has_output=st.booleans(),
    ),
    unique_by=lambda age: age.number,
    max_size=80,
)


@given(runs=AGES, days=st.integers(0, 5000))
def test_young_runs_and_the_newest_of_each_never_go(runs, days):
    now = NOW + timedelta(days=days)
    gone = expired(runs, now, POLICY)
    by_number = {age.number: age for age in runs}
    assert all(now - by_number[number].ended_at > POLICY.results for number in gone.runs)
    assert all(now - by_number[number].ended_at > POLICY.success_output for number in gone.outputs)
    assert not set(gone.runs) & set(gone.outputs)
    for measured in (("a",), ("b",)):
        newest = sorted(age.number for age in runs if age.measured == measured)[-NEWEST_RUNS_KEPT:]
        assert not set(newest) & set(gone.runs)


@given(runs=AGES)
def test_what_has_gone_makes_nothing_else_go(runs):
    """Applying retention again on the same day deletes nothing."""
    gone = expired(runs, NOW, POLICY)
    rest = [
        RunAge(
            age.number,
            age.ended_at,
            age.measured,
            age.is_failure,
            age.has_output and age.number not in gone.outputs,
        )
        for age in runs
        if age.number not in gone.runs
    ]
    assert expired(rest, NOW, POLICY) == Expired((), ())
