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
from gpumond.model.baseline import AlarmKind, DetectorState, JudgedNight


@dataclass(frozen=True, slots=True)
class Rules:
    """Which rules apply. `widening` multiplies the limits of noisy hosts."""

    has_full_rules: bool
    widening: float = 1.0


@dataclass(frozen=True, slots=True)
class Detection:
    """What one night has shown. `raised_since` is when the loss seems to have begun."""

    raised: AlarmKind | None = None
    raised_since: datetime | None = None
    is_severe: bool = False
    provisional_ended: bool = False
    is_recovered: bool = False


NOTHING = Detection()


def detect(state: DetectorState, night: JudgedNight, rules: Rules) -> tuple[DetectorState, Detection]:
    """One more valid night of the bandwidth score."""
    state = _after_gap(state, night.at)
    if state.alarm is not None:
        return _watch_recovery(state, night)
    nights = (*state.recent, night)
    cusum, since = _summed(state, night)
    severe = night.ratio < policy.SEVERE_RATIO and night.z <= policy.SEVERE_Z
    moved = DetectorState(recent=nights[-2:], cusum=cusum, cusum_since=since, is_provisional=severe)
    raised, onset = _alarm_of(nights, state, moved, rules)
    if raised is not None:
        moved = _alarmed(raised, nights)
    if raised is None and not severe and not state.is_provisional:
        return moved, NOTHING
    return moved, Detection(
        raised=raised,
        raised_since=onset,
        is_severe=severe and raised is None,
        provisional_ended=state.is_provisional and (raised is not None or not severe),
    )


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
        return _named(before, nights[-2], nights[-3:-2])
    if _is_step_of_three(nights[-3:], rules.widening):
        return _named(before, nights[-3], ())
    if now.cusum > policy.CUSUM_H * rules.widening:
        return AlarmKind.DRIFT, now.cusum_since
    return None, None


def _agree_when_severe(nights: tuple[JudgedNight, ...]) -> bool:
    return len(nights) > 1 and abs(nights[0].ratio - nights[1].ratio) <= policy.SEVERE_AGREE


def _named(
    before: DetectorState, first: JudgedNight, last_good: tuple[JudgedNight, ...]
) -> tuple[AlarmKind, datetime]:
    """A step, unless the nights before its first one had been losing already, and it only goes on with that."""
    since = before.cusum_since
    is_jump = any(first.z - night.z < -policy.JUMP_Z for night in last_good)
    had_lost = before.cusum - _loss(first) >= policy.DECLINE_CUSUM
    if since is not None and since < first.at and had_lost and not is_jump:
        return AlarmKind.DRIFT, since
    return AlarmKind.STEP, first.at


def _is_step_of_two(nights: tuple[JudgedNight, ...], widening: float) -> bool:
    if len(nights) < 2:  # noqa: PLR2004 - the rule's name
        return False
    first, second = nights[0].z / widening, nights[1].z / widening
    are_repeated = nights[0].is_repeated and nights[1].is_repeated
    return (
        first <= policy.PAIR_EACH_Z
        and second <= policy.PAIR_EACH_Z
        and (first + second) / math.sqrt(2) <= (policy.REPEATED_PAIR_Z if are_repeated else policy.PAIR_Z)
        and abs(first - second) <= policy.PAIR_AGREE_Z
    )


def _is_step_of_three(nights: tuple[JudgedNight, ...], widening: float) -> bool:
    return len(nights) == 3 and all(night.z / widening <= policy.TRIPLE_Z for night in nights)  # noqa: PLR2004


def _alarmed(kind: AlarmKind, nights: tuple[JudgedNight, ...]) -> DetectorState:
    lows = [night.z for night in nights[-2:]]
    return DetectorState(alarm=kind, alarm_z=sum(lows) / len(lows))


def is_good(state: DetectorState, z: float) -> bool:
    """Whether a night under an alarm looks recovered: within the noise, and of a small loss at least half regained."""
    return z > max(policy.RECOVERED_Z, state.alarm_z / 2)


def _watch_recovery(state: DetectorState, night: JudgedNight) -> tuple[DetectorState, Detection]:
    good = state.good_nights + 1 if is_good(state, night.z) else 0
    if good >= policy.RECOVERED_NIGHTS:
        return DetectorState(), Detection(is_recovered=True)
    return replace(state, good_nights=good, recent=(night,)), NOTHING


def detect_latency(state: DetectorState, night: JudgedNight) -> tuple[DetectorState, Detection]:
    """One more valid night of the latency score."""
    state = _after_gap(state, night.at)
    if state.alarm is not None:
        return _watch_recovery(state, night)
    nights = (*state.recent, night)[-policy.LATENCY_NIGHTS :]
    slow = [
        night.z <= policy.LATENCY_Z and night.ratio <= 1 / (1 + policy.LATENCY_SLOWER_BY) for night in nights
    ]
    if len(nights) == policy.LATENCY_NIGHTS and all(slow):
        return _alarmed(AlarmKind.LATENCY, nights), Detection(AlarmKind.LATENCY, nights[0].at)
    return DetectorState(recent=nights[-(policy.LATENCY_NIGHTS - 1) :]), NOTHING
