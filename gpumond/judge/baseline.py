"""How a baseline is learned, frozen, and replaced when an input of the measurement has changed. Pure.

Learned over the first valid nights and then frozen: a rolling one follows a slow decline and never alarms. A change of
the fingerprint opens a candidate while the old baseline goes on judging; software that costs next to nothing is
accepted after a week, other hardware never without a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum

from gpumond.judge import policy
from gpumond.judge.fingerprint import needs_person
from gpumond.judge.score import (
    bandwidth_score,
    latency_score,
    median,
    medians_by_size,
    robust_sigma,
    trimmed_mean,
)
from gpumond.model.baseline import (
    Baseline,
    BaselineState,
    Candidate,
    DetectorState,
    InputChange,
    NightValues,
    Track,
)

_LEARNED, _COMMISSIONED = "learned", "commissioned"


def is_frozen(baseline: Baseline) -> bool:
    return baseline.night_count >= policy.FROZEN_NIGHTS


def has_full_rules(baseline: Baseline) -> bool:
    """Enough nights to know its noise, or a person (or a week of nights) has said that this is normal."""
    return baseline.night_count >= policy.FULL_NIGHTS or baseline.origin != _LEARNED


def state_of(track: Track) -> BaselineState:
    if track.candidate is not None:
        return BaselineState.CANDIDATE_WAITING
    if track.baseline is None or not has_full_rules(track.baseline):
        return BaselineState.LEARNING
    return BaselineState.FROZEN


def effective_sigma(baseline: Baseline, siblings: float = 0.0) -> float:
    """The noise that verdicts are measured in: what was learned, with allowance for how well that is known.

    `siblings` is the typical noise of the other collectives in the scope: a score that seems much quieter than they are
    has mostly been lucky.
    """
    if baseline.night_count < policy.FULL_NIGHTS and baseline.origin in (_LEARNED, _COMMISSIONED):
        return max(policy.PROVISIONAL_SIGMA, baseline.sigma)
    nights = max(baseline.night_count, len(baseline.scores))
    known = max(baseline.sigma, siblings) * (1 + policy.NOISE_ALLOWANCE_NIGHTS / nights)
    return max(policy.NOISE_FLOOR, known)


def typical_sigma(tracks: Iterable[Track]) -> float:
    """Of the tracks whose noise is known; 0 for none."""
    known = [
        track.baseline.sigma
        for track in tracks
        if track.baseline is not None and track.baseline.night_count >= policy.FULL_NIGHTS
    ]
    return median(known) if known else 0.0


def effective_latency_sigma(baseline: Baseline) -> float:
    return max(policy.LATENCY_NOISE_FLOOR, baseline.latency_sigma)


def is_settled(baseline: Baseline) -> bool:
    """Whether it learns nothing any more."""
    return is_frozen(baseline) and len(baseline.scores) >= policy.NOISE_NIGHTS


def learn(
    baseline: Baseline | None, night: NightValues, fingerprint: Mapping[str, str], transport: str
) -> Baseline:
    """`baseline` with one more night. A frozen one is only refined, for some weeks more: its level a little, its noise."""
    if baseline is not None and is_frozen(baseline):
        return _refined(baseline, night)
    nights = (*baseline.nights, night) if baseline else (night,)
    return _of_nights(
        nights,
        fingerprint=dict(fingerprint),
        transport=transport or (baseline.transport if baseline else ""),
        old=baseline,
    )


def _refined(baseline: Baseline, night: NightValues) -> Baseline:
    score = bandwidth_score(night.busbw, baseline.busbw)
    if score is None or is_settled(baseline):
        return baseline
    scores = (*baseline.scores, score * baseline.level)
    known = robust_sigma(scores[: policy.FROZEN_NIGHTS])  # a decline would widen its own limit
    most = policy.LEVEL_SHIFT_SIGMAS_MAX * known
    level = max(1 - most, min(1 + most, trimmed_mean(scores)))
    busbw = {size: value * level / baseline.level for size, value in baseline.busbw.items()}
    return replace(
        baseline,
        busbw=busbw,
        golden=busbw if baseline.golden == baseline.busbw else baseline.golden,
        level=level,
        scores=scores,
        sigma=robust_sigma([item / level for item in scores]),
    )


def _of_nights(
    nights: tuple[NightValues, ...], *, fingerprint: dict[str, str], transport: str, old: Baseline | None
) -> Baseline:
    busbw = medians_by_size([night.busbw for night in nights])
    seconds = medians_by_size([night.seconds for night in nights])
    scores = _known(bandwidth_score(night.busbw, busbw) for night in nights)
    is_accepted = old is not None and old.origin != _LEARNED
    if old is not None and is_accepted and len(nights) < policy.FULL_NIGHTS:
        sigma, latency_sigma = old.sigma, old.latency_sigma  # known from before it was accepted
    else:
        sigma = robust_sigma(scores)
        latency_sigma = robust_sigma(_known(latency_score(night.seconds, seconds) for night in nights))
    is_frozen_now = len(nights) >= policy.FROZEN_NIGHTS
    return Baseline(
        busbw=busbw,
        seconds=seconds,
        sigma=sigma,
        latency_sigma=latency_sigma,
        night_count=len(nights),
        since=old.since if old else nights[0].at,
        fingerprint=fingerprint,
        transport=transport,
        golden=_best(old.golden if old and is_accepted else {}, busbw),
        nights=() if is_frozen_now else nights,
        scores=scores if is_frozen_now else (),
        origin=old.origin if old else _LEARNED,
    )


def _known(scores: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(score for score in scores if score is not None)


def _best(golden: Mapping[int, float], busbw: Mapping[int, float]) -> dict[int, float]:
    """Whichever of the two is the better as a whole; sizes are not mixed."""
    score = bandwidth_score(busbw, golden)
    return dict(busbw) if score is None or score > 1.0 else dict(golden)


# Candidates


def open_candidate(
    changes: tuple[InputChange, ...], fingerprint: Mapping[str, str], at: datetime
) -> Candidate:
    return Candidate(
        opened_at=at, changes=changes, fingerprint=dict(fingerprint), needs_person=needs_person(changes)
    )


def add_night(candidate: Candidate, night: NightValues, ratio: float | None) -> Candidate:
    """The newest nights, as many as the last decision looks at. No ratio: there is nothing to compare with."""
    keep = policy.CANDIDATE_NIGHTS[-1]
    ratios = candidate.ratios if ratio is None else (*candidate.ratios, ratio)
    return replace(candidate, nights=(*candidate.nights, night)[-keep:], ratios=ratios[-keep:])


class Decision(Enum):
    WAIT = "wait"
    ACCEPT = "accept"
    ASK = "ask"


def decide(tracks: Iterable[Track]) -> Decision:
    """On the candidates of one scope together: a loss in one collective is a loss."""
    waiting = [(track.baseline, track.candidate) for track in tracks]
    pairs = [(baseline, candidate) for baseline, candidate in waiting if baseline and candidate]
    if not pairs:
        return Decision.WAIT
    if any(needs_person(candidate.changes) for _, candidate in pairs):
        return Decision.ASK
    count = min(len(candidate.ratios) for _, candidate in pairs)
    if count not in policy.CANDIDATE_NIGHTS:
        return Decision.WAIT
    return Decision.ACCEPT if all(_is_acceptable(*pair) for pair in pairs) else Decision.ASK


def _is_acceptable(baseline: Baseline, candidate: Candidate) -> bool:
    level = trimmed_mean(candidate.ratios)
    golden = bandwidth_score(medians_by_size([night.busbw for night in candidate.nights]), baseline.golden)
    return level > 1 - policy.ACCEPT_LOSS_MAX and (
        golden is None or golden > 1 - policy.ACCEPT_GOLDEN_LOSS_MAX
    )


def candidate_level(candidate: Candidate) -> float | None:
    """Its typical score against the old baseline."""
    return trimmed_mean(candidate.ratios) if candidate.ratios else None


def accept(track: Track, *, origin: str) -> Track:
    """`track` with its candidate as the new normal; the detectors begin anew. Without a candidate, as it is."""
    baseline, candidate = track.baseline, track.candidate
    if baseline is None or candidate is None:
        return track
    level = candidate_level(candidate)
    if not candidate.nights or _is_same_level(level, baseline):
        accepted = replace(
            baseline,
            fingerprint=candidate.fingerprint,
            transport=track.transport,
            origin=origin,
            sigma=_known_sigma(baseline),
        )
    else:
        accepted = _of_nights(
            candidate.nights[-policy.FROZEN_NIGHTS :],
            fingerprint=candidate.fingerprint,
            transport=track.transport,
            old=replace(
                baseline,
                origin=origin,
                since=candidate.opened_at,
                golden={} if level is None else baseline.golden,  # of another host: no measure for this one
            ),
        )
        accepted = replace(accepted, sigma=max(accepted.sigma, effective_sigma(baseline)))
    is_same_level = accepted.busbw == baseline.busbw and track.bandwidth.alarm is None
    return Track(
        baseline=accepted,
        bandwidth=track.bandwidth if is_same_level else DetectorState(),
        latency=track.latency if is_same_level and track.latency.alarm is None else DetectorState(),
        fingerprint=track.fingerprint,
        changes=track.changes,
        transport=track.transport,
        results=track.results,
        last_at=track.last_at,
    )


def _known_sigma(baseline: Baseline) -> float:
    """An acceptance makes nobody know the noise of a few nights any better."""
    return effective_sigma(baseline) if baseline.night_count < policy.FULL_NIGHTS else baseline.sigma


def _is_same_level(level: float | None, baseline: Baseline) -> bool:
    return level is not None and abs(level - 1) <= policy.SAME_LEVEL_SIGMAS * effective_sigma(baseline)


def accept_nights(track: Track, nights: Sequence[NightValues]) -> Track:
    """`track` with `nights` as the normal because a person says so: commissioning in one evening, or a new start."""
    baseline = _of_nights(
        tuple(nights), fingerprint=dict(track.fingerprint), transport=track.transport, old=None
    )
    return Track(
        baseline=replace(baseline, origin=_COMMISSIONED),
        fingerprint=track.fingerprint,
        transport=track.transport,
        results=track.results,
        last_at=track.last_at,
    )


def reject(track: Track) -> Track:
    """`track` without its candidate: the old baseline stays, and this fingerprint opens no candidate again."""
    if track.candidate is None:
        return track
    return replace(track, candidate=None, rejected=track.candidate.fingerprint)


def restored(track: Track) -> Track:
    """`track` after the decision about it was taken back: what is wrong must show again before anybody is told again."""
    return replace(track, candidate=None, bandwidth=DetectorState(), latency=DetectorState())


def median_values(values: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """One value a size out of the runs of one night."""
    if len(values) == 1:
        return dict(values[0])
    sizes = {size for value in values for size in value}
    return {size: median(value[size] for value in values if size in value) for size in sorted(sizes)}
