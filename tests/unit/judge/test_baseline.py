"""What a decision makes of a baseline: the level, its noise, the detectors, and what is kept of the past."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from nightly_history import FINGERPRINT, LEARNED, Host, judged

from gpumond.judge import policy
from gpumond.judge.baseline import (
    accept,
    accept_nights,
    effective_sigma,
    has_full_rules,
    learn,
    reject,
    state_of,
)
from gpumond.model.baseline import AlarmKind, BaselineState, DetectorState, NightValues, Track

UPGRADED = {**FINGERPRINT, "driver": "590.12"}
SIZE = 1 << 30


def track_of(lines):
    (memory,) = judged(lines).memories.values()
    (track,) = memory.tracks.values()
    return track


def upgraded(nights=5, *, learned=LEARNED, noise=0.002, **changes):
    host = Host(noise=noise)
    lines = host.nights(0, learned)
    return track_of(lines + host.nights(learned, learned + nights, **{"fingerprint": UPGRADED, **changes}))


def test_a_candidate_at_the_same_level_leaves_the_level_and_the_detectors():
    """21 nights know the level better than 5, and a loss that has begun to show must not be forgotten."""
    track = upgraded()
    accepted = accept(track, origin="accepted")
    assert accepted.baseline.busbw == track.baseline.busbw
    assert accepted.baseline.fingerprint["driver"] == "590.12"
    assert accepted.bandwidth == track.bandwidth
    assert accepted.candidate is None


def test_a_candidate_at_another_level_is_the_new_level_and_everything_begins_anew():
    track = upgraded(factor=0.93)
    assert track.bandwidth.alarm is AlarmKind.STEP
    accepted = accept(track, origin="accepted")
    assert accepted.baseline.busbw[SIZE] == pytest.approx(0.93 * track.baseline.busbw[SIZE], rel=0.01)
    assert accepted.bandwidth == DetectorState()
    assert accepted.baseline.golden == track.baseline.golden
    assert state_of(accepted) is BaselineState.FROZEN


def test_the_noise_is_still_known_after_an_acceptance():
    track = upgraded(factor=0.93)
    accepted = accept(track, origin="auto_accepted")
    assert effective_sigma(accepted.baseline) == pytest.approx(effective_sigma(track.baseline), rel=0.6)
    assert effective_sigma(accepted.baseline) < policy.PROVISIONAL_SIGMA


def test_an_acceptance_makes_nobody_know_the_noise_of_a_few_nights():
    accepted = accept(upgraded(learned=8), origin="accepted")
    assert accepted.baseline.night_count < policy.FULL_NIGHTS
    assert effective_sigma(accepted.baseline) >= policy.PROVISIONAL_SIGMA


def test_an_alarm_at_the_same_level_ends_with_an_acceptance():
    track = replace(upgraded(), bandwidth=DetectorState(alarm=AlarmKind.DRIFT, alarm_z=-1.0))
    assert accept(track, origin="accepted").bandwidth == DetectorState()


def test_a_person_can_accept_what_another_host_measures():
    """Nothing compares the two: the level is that of the new one, and so is the best that it ever reached."""
    track = upgraded(3, fingerprint={**FINGERPRINT, "gpu_uuids": "GPU-x,GPU-y"}, factor=0.5)
    assert (len(track.candidate.nights), track.candidate.ratios) == (3, ())
    accepted = accept(track, origin="accepted")
    assert accepted.baseline.busbw[SIZE] == pytest.approx(0.5 * track.baseline.busbw[SIZE], rel=0.01)
    assert accepted.baseline.golden == accepted.baseline.busbw


def test_without_a_candidate_there_is_nothing_to_accept_or_to_reject():
    track = track_of(Host().nights(0, LEARNED))
    assert accept(track, origin="accepted") == track == reject(track)
    assert accept(Track(), origin="accepted") == Track()


def test_a_rejected_fingerprint_is_remembered():
    track = upgraded()
    rejected = reject(track)
    assert (rejected.candidate, rejected.rejected) == (None, track.candidate.fingerprint)
    assert rejected.baseline == track.baseline


def test_repeats_of_one_evening_count_as_a_baseline_with_little_known_noise():
    at = datetime(2026, 3, 1, 20, tzinfo=UTC)
    nights = [NightValues(at + timedelta(minutes=5 * n), {SIZE: 300e9 + n * 1e8}) for n in range(5)]
    baseline = accept_nights(Track(fingerprint={"driver": "580"}), nights).baseline
    assert has_full_rules(baseline)
    assert effective_sigma(baseline) == policy.PROVISIONAL_SIGMA
    assert baseline.busbw == {SIZE: 300.2e9}


def refined(factor):
    """A baseline that was just frozen, and the same after 39 more nights at `factor` of it. The noise is 0.4 %."""
    found, both = None, []
    for night in range(policy.NOISE_NIGHTS):
        value = (1 + 0.004 * (-1, 0, 1)[night % 3]) * (factor if night >= policy.FROZEN_NIGHTS else 1.0)
        at = datetime(2026, 3, 1, 2, tzinfo=UTC) + timedelta(days=night)
        found = learn(found, NightValues(at, {SIZE: 300e9 * value}), FINGERPRINT, "P2P")
        both.append(found)
    return both[policy.FROZEN_NIGHTS - 1], both[-1]


def test_a_frozen_baseline_is_refined_by_what_21_nights_could_not_know():
    frozen, settled = refined(0.999)
    assert frozen.busbw == {SIZE: 300e9}
    assert settled.level == pytest.approx(0.99935, abs=0.0003)  # of 60 nights, 39 at 0.999
    assert settled.busbw[SIZE] == pytest.approx(300e9 * settled.level)
    assert settled.golden == settled.busbw
    assert settled.night_count == policy.FROZEN_NIGHTS


def test_a_frozen_baseline_follows_no_decline():
    frozen, settled = refined(0.98)
    assert settled.level == pytest.approx(1 - policy.LEVEL_SHIFT_SIGMAS_MAX * frozen.sigma, abs=0.0003)
    assert settled.busbw[SIZE] > 0.997 * frozen.busbw[SIZE]
    assert frozen.sigma == pytest.approx(0.004, rel=0.2)


def test_after_sixty_nights_nothing_is_refined_any_more():
    host = Host(noise=0.004)
    settled = host.nights(0, policy.NOISE_NIGHTS)
    assert track_of(settled).baseline == track_of(settled + host.nights(60, 70)).baseline
