"""Next tries and due times from a window and a history, on a clock that a test moves."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gpumond.config.load import parse
from gpumond.model.run import Sweep, SweepOutcome, Trigger
from gpumond.store.sqlite import Store
from gpumond.timetable import (
    RERUN_AFTER_SECONDS,
    RETRY_SECONDS,
    Appointment,
    appointment_of,
    cadence_of,
    confirmation_at,
)

CONFIG = """
[[sweep]]
name = "nightly"
window = "02:00-05:00"
timezone = "UTC"
spread = "0s"
"""

MIDNIGHT = datetime(2026, 11, 29, tzinfo=UTC)
SWEEP = Sweep("id", "nightly", Trigger.WINDOW, MIDNIGHT, planned_runs=1)


@pytest.fixture
def store(tmp_path, clock):
    with Store.open(tmp_path / "state", clock=clock) as store:
        yield store


def sweep_config(text=CONFIG):
    return parse(text, name="test").sweeps[0]


def appointment(store, hour, *, day=0, config=CONFIG):
    now = MIDNIGHT + timedelta(days=day, hours=hour)
    return appointment_of(sweep_config(config), store, now, machine_id="m", known_since=MIDNIGHT)


def record(store, hour, outcome, *, day=0, trigger=Trigger.WINDOW):
    started = MIDNIGHT + timedelta(days=day, hours=hour)
    number = len(store.sweeps(limit=100))
    sweep = replace(SWEEP, id=f"sweep-{number}", started_at=started, trigger=trigger)
    store.start_sweep(sweep)
    reason = "" if outcome is SweepOutcome.SUCCESS else "busy"
    store.finish_sweep(
        replace(
            sweep,
            ended_at=started + timedelta(minutes=1),
            outcome=outcome,
            reason=reason,
            duration_seconds=60.0,
        )
    )


def at(hour, *, day=0):
    return MIDNIGHT + timedelta(days=day, hours=hour)


def test_before_the_window_its_start_is_next_and_due(store):
    assert appointment(store, 1) == Appointment(starts_at=at(2), due_at=at(2), window_ends_at=at(5))


def test_in_an_open_window_that_is_not_done_it_is_now(store):
    assert appointment(store, 3).starts_at == at(3)


def test_after_a_success_it_is_the_next_night(store):
    record(store, 2, SweepOutcome.SUCCESS)
    assert appointment(store, 3).starts_at == at(2, day=1)
    assert appointment(store, 3).due_at == at(2, day=1)


def test_a_failure_ends_the_night_and_leaves_it_due(store):
    record(store, 2, SweepOutcome.FAILURE)
    later = appointment(store, 3)
    assert later.starts_at == at(2, day=1)


def test_a_refusal_is_tried_again_in_the_same_window_but_not_at_once(store):
    record(store, 2, SweepOutcome.SKIPPED)
    soon = 2 + 60 / 3600
    assert appointment(store, soon).starts_at == at(2) + timedelta(seconds=RETRY_SECONDS)
    assert appointment(store, 4).starts_at == at(4)


def test_a_refusal_at_the_end_of_a_window_waits_for_the_next_night(store):
    record(store, 4.95, SweepOutcome.SKIPPED)
    assert appointment(store, 4.96).starts_at == at(2, day=1)


def test_a_sweep_by_hand_does_not_count_for_the_night(store):
    record(store, 2.5, SweepOutcome.SUCCESS, trigger=Trigger.REQUEST)
    assert appointment(store, 3).starts_at == at(3)


def test_a_night_without_a_success_stays_due(store):
    record(store, 2, SweepOutcome.SUCCESS)
    for day in (1, 2):
        record(store, 2, SweepOutcome.SKIPPED, day=day)
    assert appointment(store, 12, day=2).due_at == at(2, day=1)
    assert appointment(store, 12, day=2).starts_at == at(2, day=3)


def test_a_sweep_that_never_ran_is_due_since_it_is_known(store):
    assert appointment(store, 12, day=5).due_at == at(2)


@pytest.mark.parametrize(
    ("days", "interval_days"),
    [('["mon", "tue", "wed", "thu", "fri", "sat", "sun"]', 1), ('["sat"]', 7), ('["mon", "thu"]', 4)],
)
def test_the_interval_is_the_longest_gap_between_two_days(days, interval_days):
    cadence = cadence_of(sweep_config(f"{CONFIG}days = {days}\n"))
    assert cadence.interval_seconds == interval_days * 86400
    assert cadence.overdue_grace_seconds == 3 * 3600


@pytest.mark.parametrize(
    ("minutes_left", "reruns_left", "is_repeated"),
    [(60, 5, True), (60, 1, True), (60, 0, False), (10, 5, False), (11, 5, True), (None, 5, False)],
)
def test_a_low_night_is_measured_again_while_its_window_has_room(minutes_left, reruns_left, is_repeated):
    ends_at = None if minutes_left is None else MIDNIGHT + timedelta(minutes=minutes_left)
    found = confirmation_at(MIDNIGHT, ends_at, reruns_left=reruns_left)
    assert found == (MIDNIGHT + timedelta(seconds=RERUN_AFTER_SECONDS) if is_repeated else None)
