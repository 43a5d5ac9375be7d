"""Each rule of the detectors on nights that are written out: what raises it, what does not, how it ends."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gpumond.judge import policy
from gpumond.judge.detectors import Rules, detect, detect_latency
from gpumond.model.baseline import AlarmKind, DetectorState, JudgedNight

START = datetime(2026, 3, 1, 2, tzinfo=UTC)
FULL = Rules(has_full_rules=True)
SIGMA = 0.01


def nights_of(zs, *, days=None):
    days = days or range(len(zs))
    return [
        JudgedNight(START + timedelta(days=day), 1 + z * SIGMA, z) for day, z in zip(days, zs, strict=True)
    ]


def run(zs, *, days=None, rules=FULL, detector=detect):
    """(index of the night, what was raised) of every alarm, and the state at the end."""
    state, raised = DetectorState(), []
    for number, night in enumerate(nights_of(zs, days=days)):
        state, found = detector(state, night) if detector is detect_latency else detector(state, night, rules)
        if found.raised:
            raised.append((number, found.raised))
    return raised, state


@pytest.mark.parametrize(
    ("zs", "raised"),
    [
        ([0, 0, -4, -4], [(3, AlarmKind.STEP)]),
        ([0, 0, -9, -9], [(3, AlarmKind.STEP)]),  # one low night is not enough, whatever its depth
        ([0, 0, -4], []),
        ([0, 0, -20], []),
        ([0, -4, 0, -4, 0, -4, 0], []),  # never two in a row
        ([0, -1.4, -5], []),  # each of the two must be low
        ([0, -2, -4], [(2, AlarmKind.STEP)]),
        ([0, -2, -3], []),  # together not low enough
        ([0, -5, -12], []),  # two nights that do not agree ...
        ([0, -5, -12, -6], [(3, AlarmKind.STEP)]),  # ... a third one decides
        ([0] * 30, []),
        ([-1] * 20, []),
        ([-1.6] * 40, [(6, AlarmKind.DRIFT)]),  # small, but it stays
        ([0, -1.7, -4.5], []),  # an unlucky night beside a disturbed one
        ([0, -1.2, -9, -1.2, -1.2, -1.2, -0.9, -1.2, -9, -0.9, -1.2, -1.2], []),
        ([0.5, 4, 4, 4], []),  # faster is no alarm
    ],
)
def test_nights_that_raise_an_alarm(zs, raised):
    assert run(zs)[0] == raised


def test_a_pair_that_reruns_repeat_may_be_less_low():
    nights = [replace(night, is_repeated=True) for night in nights_of([0, -1.7, -3.6])]
    state, found = DetectorState(), None
    for night in nights:
        state, found = detect(state, night, FULL)
    assert found.raised is AlarmKind.STEP


def test_one_night_far_below_between_good_ones_is_no_part_of_a_decline():
    with_it, without_it = run([0, -1, -1, -9, -0.9])[1], run([0, -1, -1, -0.9])[1]
    assert with_it.cusum == pytest.approx(without_it.cusum)


def test_a_slow_decline_is_called_a_drift_and_begins_where_it_began():
    state, onset, kind = DetectorState(), None, None
    for night in nights_of([0] * 5 + [-0.3 * step for step in range(1, 20)]):
        state, found = detect(state, night, FULL)
        if found.raised:
            onset, kind = found.raised_since, found.raised
            break
    assert kind is AlarmKind.DRIFT
    assert START + timedelta(days=5) <= onset <= START + timedelta(days=9)


def test_a_jump_out_of_a_decline_is_a_step():
    raised, _ = run([0, -1.5, -1.5, -1.5, -1.5, -1.5, -8, -8])
    assert raised == [(7, AlarmKind.STEP)]


@pytest.mark.parametrize(("gap", "is_raised"), [(7, True), (8, False)])
def test_two_nights_too_far_apart_are_not_consecutive(gap, is_raised):
    raised, _ = run([0, -4, -4], days=[0, 1, 1 + gap])
    assert bool(raised) is is_raised


def test_a_year_without_nights_forgets_a_sum_that_was_nearly_full():
    zs = [-1.6] * 7
    assert run(zs)[0]
    assert not run(zs, days=[*range(6), 400])[0]


def test_a_clock_that_went_back_is_a_gap():
    assert not run([0, -4, -4], days=[40, 41, 0])[0]


def test_an_alarm_ends_after_three_good_nights_and_may_be_raised_again():
    raised, state = run([0, -5, -5, 0, 0, -5, 0, 0])
    assert raised == [(2, AlarmKind.STEP)]
    assert state.alarm is AlarmKind.STEP
    again, _ = run([0, -5, -5, 0, 0, 0, -5, -5])
    assert again == [(2, AlarmKind.STEP), (7, AlarmKind.STEP)]


def test_a_small_loss_that_stays_is_not_taken_for_its_own_recovery():
    _, state = run([-1.6] * 9 + [-1.3] * 9)
    assert state.alarm is AlarmKind.DRIFT


def severe(zs, rules):
    state, found = DetectorState(), None
    for z in zs:
        night = JudgedNight(START + timedelta(days=z[0]), z[1], (z[1] - 1) / 0.02)
        state, found = detect(state, night, rules)
    return found


def test_far_below_is_severe_at_once_and_a_step_on_the_second_night_even_while_learning():
    learning = Rules(has_full_rules=False)
    assert severe([(0, 1.0), (1, 0.85)], learning).is_severe
    assert severe([(0, 1.0), (1, 0.85), (2, 0.86)], learning).raised is AlarmKind.STEP
    assert severe([(0, 1.0), (1, 0.85), (2, 1.0)], learning).provisional_ended
    assert severe([(0, 1.0), (1, 0.95), (2, 0.95), (3, 0.95)], learning).raised is None


def test_a_noisy_host_needs_more():
    noisy = Rules(has_full_rules=True, widening=policy.NOISY_WIDENING)
    assert run([0, -3, -3])[0]
    assert not run([0, -3, -3], rules=noisy)[0]


@pytest.mark.parametrize(
    ("slower", "is_raised"),
    [((1.3, 1.3, 1.3), True), ((1.3, 1.3), False), ((1.3, 1.0, 1.3, 1.3), False), ((1.15,) * 6, False)],
)
def test_latency_needs_three_nights_and_a_fifth(slower, is_raised):
    zs = [(1 / factor - 1) / 0.01 for factor in slower]
    raised, _ = run(zs, detector=detect_latency)
    assert bool(raised) is is_raised
