"""From the scores of one track, night by night, to alarms. Pure; each night is a new state.

Four rules: two nights (or three), a sum of small losses (CUSUM), one night far below (provisional), and three nights for
the latency. One disturbed night in fifty ruins every single-night rule, so only the provisional one is of one night,
and its level is info (engineering.md 5.1 c).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime

from gpumond.judge import policy
from gpumond.judge.onset import best_decline, best_step
from gpumond.model.baseline import AlarmKind, DetectorState, JudgedNight


@dataclass(frozen=True, slots=True)
class Rules:
    """Which rules apply. `widening` multiplies the limits of noisy hosts."""

    has_full_rules: bool
    widening: float = 1.0


@dataclass(frozen=True, slots=True)
class Detection:
    """What one night has shown. `raised_since` is when the loss seems to have begun, `last_good_at` the night before."""

    raised: AlarmKind | None = None
    raised_since: datetime | None = None
    last_good_at: datetime | None = None
    is_severe: bool = False
    provisional_ended: bool = False
    is_recovered: bool = False
    lasts: AlarmKind | None = None
    """The alarm that this night, low too, goes on with."""


NOTHING = Detection()


def detect(state: DetectorState, night: JudgedNight, rules: Rules) -> tuple[DetectorState, Detection]:
    """One more valid night of the bandwidth score."""
    state = _after_gap(state, night.at)
    if state.alarm is not None:
        return _watch_recovery(state, night)
    nights = (*state.recent, night)[-policy.REMEMBERED_NIGHTS :]
    cusum, since = _summed(state, night)
    severe = night.ratio < policy.SEVERE_RATIO and night.z <= policy.SEVERE_Z
    moved = DetectorState(recent=nights, cusum=cusum, cusum_since=since, is_provisional=severe)
    raised, onset = _alarm_of(nights, state, moved, rules)
    if raised is not None:
        moved = _alarmed(raised, nights, onset)
    if raised is None and not severe and not state.is_provisional:
        return moved, NOTHING
    return moved, Detection(
        raised=raised,
        raised_since=onset,
        last_good_at=_last_good_before(nights, onset or night.at),
        is_severe=severe and raised is None,
        provisional_ended=state.is_provisional and (raised is not None or not severe),
    )


def _last_good_before(nights: tuple[JudgedNight, ...], onset: datetime) -> datetime | None:
    """The night before `onset`, where it was nearer to normal than to the loss; None where that cannot be told."""
    lows = [night.z for night in nights if night.at >= onset]
    before = [night for night in nights if night.at < onset][-1:]
    return next((night.at for night in before if night.z > min(lows) / 2), None)


def _after_gap(state: DetectorState, at: datetime) -> DetectorState:
    """Forget what is no longer next to `at`; a clock that went back is a gap too."""
    if not state.recent:
        return state
    gap = abs(at - state.recent[-1].at)
    if gap > policy.FORGET_AFTER:
        return replace(state, recent=(), cusum=0.0, cusum_since=None)
    return replace(state, recent=()) if gap > policy.CONSECUTIVE_WITHIN else state


def _summed(state: DetectorState, night: JudgedNight) -> tuple[float, datetime | None]:
    total = state.cusum + _loss(night)
    last = state.recent[-1] if state.recent else None
    if last is not None and last.z <= policy.LOW_Z and night.z > policy.CLEARED_Z:
        total -= _loss(last)  # one low night between good ones was disturbed, and is no part of a decline
    if total <= 0:
        return 0.0, None
    return total, state.cusum_since or night.at


def _loss(night: JudgedNight) -> float:
    """What a night adds to the sum. Clipped: one night, however bad, must not be half of an alarm."""
    return max(-policy.CUSUM_CLIP_Z, min(policy.CUSUM_CLIP_Z, -night.z)) - policy.CUSUM_K


def _alarm_of(
    nights: tuple[JudgedNight, ...], before: DetectorState, now: DetectorState, rules: Rules
) -> tuple[AlarmKind | None, datetime | None]:
    if before.is_provisional and now.is_provisional and _agree_when_severe(nights[-2:]):
        return AlarmKind.STEP, nights[-2].at
    if not rules.has_full_rules:
        return None, None
    if _is_step_of_two(nights[-2:], rules.widening):
        return _named(nights, AlarmKind.STEP, nights[-2].at)
    if _is_step_of_three(nights[-3:], rules.widening):
        return _named(nights, AlarmKind.STEP, nights[-3].at)
    if now.cusum > policy.CUSUM_H * rules.widening:
        return _named(nights, AlarmKind.DRIFT, now.cusum_since or nights[-1].at)
    return None, None


def _agree_when_severe(nights: tuple[JudgedNight, ...]) -> bool:
    return len(nights) > 1 and abs(nights[0].ratio - nights[1].ratio) <= policy.SEVERE_AGREE


def _named(nights: tuple[JudgedNight, ...], kind: AlarmKind, onset: datetime) -> tuple[AlarmKind, datetime]:
    """What the nights show, where they show it plainly, else what the rule says that raised the alarm."""
    scores = [night.z for night in nights]
    decline = best_decline(scores)
    if decline is None:
        return kind, onset
    step = best_step(scores, within=policy.SUDDEN_NIGHTS)
    if kind is AlarmKind.STEP and decline.cost + policy.NAME_MARGIN < step.cost:
        return AlarmKind.DRIFT, nights[decline.onset].at
    if kind is AlarmKind.DRIFT and step.onset > 0 and step.cost + policy.NAME_MARGIN < decline.cost:
        return AlarmKind.STEP, nights[step.onset].at
    return kind, onset


def _is_step_of_two(nights: tuple[JudgedNight, ...], widening: float) -> bool:
    if len(nights) < 2:  # noqa: PLR2004 - the rule's name
        return False
    first, second = nights[0].z / widening, nights[1].z / widening
    are_repeated = nights[0].is_repeated and nights[1].is_repeated
    each = policy.REPEATED_PAIR_EACH_Z if are_repeated else policy.PAIR_EACH_Z
    return (
        max(first, second) <= each
        and (first + second) / math.sqrt(2) <= (policy.REPEATED_PAIR_Z if are_repeated else policy.PAIR_Z)
        and abs(first - second) <= policy.PAIR_AGREE_Z
    )


def _is_step_of_three(nights: tuple[JudgedNight, ...], widening: float) -> bool:
    return len(nights) == 3 and all(night.z / widening <= policy.TRIPLE_Z for night in nights)  # noqa: PLR2004


def _alarmed(kind: AlarmKind, nights: tuple[JudgedNight, ...], onset: datetime | None) -> DetectorState:
    lows = [night.z for night in nights[-2:]]
    return DetectorState(
        alarm=kind,
        alarm_z=sum(lows) / len(lows),
        alarm_since=onset,
        alarm_at=nights[-1].at,
        alarm_last_good_at=_last_good_before(nights, onset or nights[-1].at),
        recent=nights,
    )


def is_good(state: DetectorState, z: float) -> bool:
    """Whether a night under an alarm looks recovered: within the noise, and of a small loss at least half regained."""
    return z > max(policy.RECOVERED_Z, state.alarm_z / 2)


def _watch_recovery(state: DetectorState, night: JudgedNight) -> tuple[DetectorState, Detection]:
    recent = (*state.recent, night)[-policy.REMEMBERED_NIGHTS :]
    if not is_good(state, night.z):
        state = replace(state, good_nights=0, recent=recent)
        if state.alarm is AlarmKind.STEP and _goes_on_falling(recent):
            state = replace(state, alarm=AlarmKind.DRIFT)
        return state, Detection(lasts=state.alarm)
    if state.good_nights + 1 >= policy.RECOVERED_NIGHTS:
        return DetectorState(), Detection(is_recovered=True)
    return replace(state, good_nights=state.good_nights + 1, recent=recent), NOTHING


def _goes_on_falling(nights: tuple[JudgedNight, ...]) -> bool:
    scores = [night.z for night in nights]
    decline = best_decline(scores)
    return decline is not None and decline.cost + policy.RENAME_MARGIN < best_step(scores).cost


def detect_latency(state: DetectorState, night: JudgedNight) -> tuple[DetectorState, Detection]:
    """One more valid night of the latency score."""
    state = _after_gap(state, night.at)
    if state.alarm is not None:
        return _watch_recovery(state, night)
    nights = (*state.recent, night)[-(policy.LATENCY_NIGHTS + 1) :]
    last = nights[-policy.LATENCY_NIGHTS :]
    slow = [
        night.z <= policy.LATENCY_Z and night.ratio <= 1 / (1 + policy.LATENCY_SLOWER_BY) for night in last
    ]
    if len(last) == policy.LATENCY_NIGHTS and all(slow):
        onset = last[0].at
        return _alarmed(AlarmKind.LATENCY, nights, onset), Detection(
            AlarmKind.LATENCY, onset, _last_good_before(nights, onset)
        )
    return DetectorState(recent=nights), NOTHING
