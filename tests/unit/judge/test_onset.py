"""Step or decline: which course explains the last nights, and from which night on."""

import random

import pytest

from gpumond.judge.onset import best_decline, best_step


def is_decline(scores):
    return best_decline(scores).cost < best_step(scores, within=4).cost


@pytest.mark.parametrize(
    ("scores", "expected", "onset"),
    [
        ([0, 0, 0, 0, -5, -5], False, 4),
        ([0, 0, 0, -1, -2, -3, -4], True, 3),
        ([0, 0.3, -0.2, -4, -4.2, -3.9, -4.1], False, 3),
        ([0, -9, 0, 0, -1, -2, -3, -4], True, 4),  # a disturbed night long before decides nothing
        ([0, 0, 0, -20, -20, -20, -120, -120], False, 6),  # two steps are no decline
    ],
)
def test_courses(scores, expected, onset):
    assert is_decline(scores) is expected
    course = best_decline(scores) if expected else best_step(scores, within=4)
    assert course.onset == onset


def test_a_perfect_course_leaves_nothing_unexplained():
    assert best_step([0, 0, -3, -3]).cost == 0
    assert best_decline([0, 0, -1, -2, -3, -4]).cost == pytest.approx(0)


def test_three_nights_are_too_few_for_a_decline():
    assert best_decline([-1, -2, -3]) is None
    assert best_decline([]) is None


def test_nobody_gains_by_a_loss():
    assert best_step([2, 2, 2, 2]).cost == 16
    assert best_decline([1, 2, 3, 4]).cost > 0


def test_noise_rarely_makes_a_decline_out_of_a_step():
    """Of four sigma, the smallest that two nights can show: 6 %."""
    noise = random.Random(7)
    called = sum(
        best_decline(scores).cost + 1 < best_step(scores, within=4).cost
        for _ in range(400)
        for scores in [[noise.gauss(-4 * (night >= 10), 1) for night in range(12)]]
    )
    assert called <= 28
