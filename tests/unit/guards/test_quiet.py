"""Quiet is proven by samples without a gap, back to the beginning of the window; anything less is a no."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.guards.quiet import GpuUse, QuietGuard, QuietLog, QuietRule, QuietSample, find_noise
from gpumond.guards.report import GuardSubject
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value

GPU = "GPU-a"
FLOOR = 1 << 30
RULE = QuietRule(seconds=600, memory_floor_bytes=FLOOR, gap_seconds_max=180)
NOW = 10_000.0


IDLE, EMPTY = Value(0.0), Value(0)


def use(utilisation=IDLE, memory=EMPTY):
    return GpuUse(utilisation, memory)


def sample(ago, gpu=None, *, until_ago=None):
    uses = {GPU: gpu or use()}
    return QuietSample(NOW - ago, NOW - (ago if until_ago is None else until_ago), uses)


def every(seconds, *, back_to):
    return [sample(ago) for ago in range(0, back_to + 1, seconds)]


def noise(samples, rule=RULE, uuids=(GPU,)):
    return find_noise(samples, uuids, rule, now=NOW)


def test_ten_quiet_minutes_are_quiet():
    assert noise(every(60, back_to=600)) == ""


def test_nine_minutes_are_not_ten():
    assert "known for 540 s only" in noise(every(60, back_to=540))


def test_without_any_sample_nothing_is_known():
    assert "known for 0 s" in noise([])


def test_a_gap_ends_what_is_known():
    samples = [sample(ago) for ago in (0, 60, 120, 400, 460, 520, 580, 640)]
    assert "known for 120 s only" in noise(samples)


def test_the_newest_sample_must_be_new():
    assert "known for 0 s" in noise([sample(ago) for ago in range(200, 900, 60)])


def test_one_sample_missed_is_no_gap():
    assert noise([sample(ago) for ago in (0, 60, 180, 240, 300, 420, 480, 600)]) == ""


NOISES = [
    (use(Value(0.01)), "1% busy"),
    (use(memory=Value(FLOOR + 1)), "1024 MiB in use"),
    (use(NOT_SUPPORTED), "not supported here"),
    (use(memory=NOT_SUPPORTED), "not supported here"),
    (use(Unreadable(UnreadableReason.TIMEOUT)), "unreadable (timeout)"),
    (use(memory=Unreadable(UnreadableReason.GPU_LOST)), "unreadable (gpu_lost)"),
]


@pytest.mark.parametrize(("gpu", "evidence"), NOISES)
@pytest.mark.parametrize("ago", [0, 300, 599])
def test_one_loud_sample_in_the_window_is_a_no(gpu, evidence, ago):
    said = noise([*every(60, back_to=660), sample(ago, gpu)])
    assert evidence in said
    assert f"{ago} s ago" in said


@pytest.mark.parametrize(("gpu", "_evidence"), NOISES)
def test_noise_before_the_window_is_no_matter(gpu, _evidence):
    assert noise([*every(60, back_to=600), sample(601, gpu)]) == ""


def test_a_gpu_that_no_sample_shows_is_not_quiet():
    assert "GPU-b did not answer" in noise(every(60, back_to=600), uuids=(GPU, "GPU-b"))


def test_our_own_use_closes_the_gap_that_it_makes():
    before = [sample(ago) for ago in range(400, 700, 60)]
    after = [sample(ago) for ago in (0, 60, 120)]
    own = QuietSample(NOW - 390, NOW - 130, None)
    assert noise([*before, own, *after]) == ""
    assert noise([*before, *after]) != ""


@given(
    st.lists(st.tuples(st.floats(0, 2000), st.booleans()), max_size=60),
    st.floats(1, 1000),
    st.floats(1, 300),
)
def test_quiet_is_never_claimed_where_a_loud_sample_lies_in_the_window(samples, seconds, gap):
    rule = QuietRule(seconds, FLOOR, gap)
    made = [sample(ago, use(Value(0.5)) if is_loud else use()) for ago, is_loud in samples]
    if noise(made, rule) == "":
        assert not any(is_loud and ago < seconds for ago, is_loud in samples)
        quiet = sorted(ago for ago, _ in samples)
        inside = [0.0, *[ago for ago in quiet if ago < seconds]]
        assert all(later - earlier <= gap + 1e-6 for earlier, later in pairwise(inside))


def test_the_timetable_and_a_person_have_rules_of_their_own(two_gpus):
    log = QuietLog()
    by_hand = QuietRule(10, FLOOR, 2)
    guard = QuietGuard(log.samples, scheduled=RULE, by_hand=by_hand, monotonic=lambda: NOW)
    uuids = tuple(gpu.uuid for gpu in two_gpus.gpus)
    for ago in range(12):
        log.record_snapshot(two_gpus, at=NOW - ago)
    assert guard.check(GuardSubject(uuids, two_gpus, {}, is_scheduled=False)).is_clear
    assert not guard.check(GuardSubject(uuids, two_gpus, {}, is_scheduled=True)).is_clear


def test_a_rule_of_no_time_asks_for_nothing(two_gpus):
    nothing = QuietRule(0, FLOOR, 2)
    guard = QuietGuard(lambda: (), scheduled=nothing, by_hand=nothing, monotonic=lambda: NOW)
    assert guard.check(GuardSubject((GPU,), two_gpus, {}, is_scheduled=True)).is_clear
