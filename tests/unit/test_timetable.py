"""Next tries and due times from a window and a history, on a clock that a test moves."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gpumond.config.load import parse
from gpumond.errors import ConfigError
from gpumond.model.run import Sweep, SweepOutcome, Trigger
from gpumond.store.sqlite import Store
from gpumond.timetable import (
    RERUN_AFTER_SECONDS,
    RETRY_SECONDS,
    Appointment,
    Occasions,
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


AFTER = CONFIG.replace('"nightly"', '"nightly"\nafter = ["boot", "change"]')
IDLE = AFTER + 'when = "idle"\n'
ONLY_BOOT = CONFIG.replace('"nightly"', '"nightly"\nafter = ["boot"]')


def after(store, hour, occasions, *, day=0, config=AFTER):
    now = MIDNIGHT + timedelta(days=day, hours=hour)
    return appointment_of(
        sweep_config(config), store, now, machine_id="m", known_since=MIDNIGHT, occasions=occasions
    )


def test_without_an_occasion_a_sweep_that_waits_for_one_never_starts(store):
    assert after(store, 3, Occasions()) == Appointment(None, None)
    assert after(store, 3, Occasions(change_at=at(1)), config=ONLY_BOOT) == Appointment(None, None)


def test_an_occasion_asks_for_the_next_window(store):
    assert after(store, 6, Occasions(boot_at=at(5.5))) == Appointment(
        at(2, day=1), at(2, day=1), at(5, day=1)
    )
    assert after(store, 3, Occasions(change_at=at(2.5))).starts_at == at(3)


def test_once_it_has_run_the_occasion_is_over_whoever_ran_it_and_however_it_ended(store):
    occasions = Occasions(boot_at=at(1), change_at=at(0.5))
    record(store, 2, SweepOutcome.SKIPPED, trigger=Trigger.EVENT)
    assert after(store, 2.5, occasions).starts_at == at(2.5)
    record(store, 2.5, SweepOutcome.FAILURE, trigger=Trigger.COMMAND)
    assert after(store, 3, occasions) == Appointment(None, None)
    assert after(store, 4, Occasions(boot_at=at(1), change_at=at(3.5))).starts_at == at(4)


def test_a_refusal_inside_the_window_is_tried_again_later(store):
    record(store, 2, SweepOutcome.SKIPPED, trigger=Trigger.EVENT)
    found = after(store, 2, Occasions(boot_at=at(1)))
    assert found.starts_at == at(2) + timedelta(seconds=RETRY_SECONDS)
    assert found.due_at == at(2)


def test_when_idle_it_starts_at_any_hour_and_is_tried_again_after_a_while(store):
    occasions = Occasions(boot_at=at(12))
    assert after(store, 13, occasions, config=IDLE) == Appointment(at(13), at(12))
    record(store, 13, SweepOutcome.SKIPPED, trigger=Trigger.EVENT)
    assert after(store, 13, occasions, config=IDLE).starts_at == at(13) + timedelta(seconds=RETRY_SECONDS)
    record(store, 14, SweepOutcome.SUCCESS, trigger=Trigger.EVENT)
    assert after(store, 15, occasions, config=IDLE) == Appointment(None, None)


def test_a_new_occasion_does_not_wait_for_what_an_older_one_has_tried(store):
    record(store, 13, SweepOutcome.SUCCESS, trigger=Trigger.EVENT)
    assert after(store, 13.05, Occasions(change_at=at(13.05)), config=IDLE).starts_at == at(13.05)


def test_a_window_in_which_the_occasion_falls_too_late_is_followed_by_the_next(store):
    record(store, 4.95, SweepOutcome.SKIPPED, trigger=Trigger.EVENT)
    assert after(store, 4.96, Occasions(change_at=at(4.9))).starts_at == at(2, day=1)


def test_idle_without_an_occasion_is_refused():
    with pytest.raises(ConfigError, match="needs after"):
        sweep_config(CONFIG + 'when = "idle"\n')
