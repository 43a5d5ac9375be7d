"""One valid run against a baseline, or against the link model, in words. Pure.

The detectors have decided for the night; here each run of it gets its verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpumond.judge import policy
from gpumond.judge.assessment import Assessment, Basis, Reason, Statistic, not_evaluated
from gpumond.judge.detectors import is_good
from gpumond.judge.observation import Observation
from gpumond.judge.score import bandwidth_score, latency_score
from gpumond.judge.shape import shape_of
from gpumond.model.baseline import Baseline, DetectorState
from gpumond.model.run import Verdict


@dataclass(frozen=True, slots=True)
class Scored:
    """`ratio` is None where run and baseline have no size in common; `z` is in units of `sigma`."""

    run: Observation
    ratio: float | None
    z: float
    sigma: float
    latency: float | None


def score_run(run: Observation, baseline: Baseline, sigma: float) -> Scored:
    ratio = bandwidth_score(run.busbw, baseline.busbw)
    z = 0.0 if ratio is None else (ratio - 1) / sigma
    return Scored(run, ratio, z, sigma, latency_score(run.seconds, baseline.seconds) if run.seconds else None)


def best_z(runs: Iterable[Observation], baseline: Baseline, sigma: float) -> float | None:
    """The best score of a night in units of noise; None where no run has one."""
    ratios = [bandwidth_score(run.busbw, baseline.busbw) for run in runs]
    best = max((ratio for ratio in ratios if ratio is not None), default=None)
    return None if best is None else (best - 1) / sigma


def against_model(run: Observation) -> Assessment:
    """What a host without a past can be told: only whether it is far below what its links should give."""
    largest = max(run.busbw)
    if run.model_busbw is None or largest < policy.MODEL_FROM_BYTES:
        return not_evaluated(Reason.LEARNING, "there are too few nights to compare with")
    ratio = run.busbw[largest] / run.model_busbw
    if ratio >= 1 - policy.MODEL_LOSS:
        return not_evaluated(
            Reason.LEARNING, f"{ratio:.0%} of the link model; too few nights to compare with"
        )
    return Assessment(
        Verdict.DEGRADED,
        Reason.BELOW_MODEL,
        f"{run.busbw[largest] / 1e9:.1f} GB/s at {largest} bytes; the link model gives {run.model_busbw / 1e9:.1f}",
        ratio,
        Basis.MODEL,
    )


def assess(item: Scored, baseline: Baseline, bandwidth: DetectorState, latency: DetectorState) -> Assessment:
    """The verdict on a run that counts, after the detectors have seen its night."""
    verdict, reason = _verdict_of(item, bandwidth, latency)
    score = item.ratio if item.ratio is not None else 0.0
    return Assessment(
        verdict=verdict,
        reason=reason,
        detail=f"{score:.1%} of the baseline, {item.z:+.1f} sigma",
        score=item.ratio,
        basis=Basis.BASELINE,
        statistic=_statistic(item, baseline, bandwidth.cusum),
        shape=shape_of(item.run.points, baseline.busbw),
    )


def _verdict_of(item: Scored, bandwidth: DetectorState, latency: DetectorState) -> tuple[Verdict, str]:
    if bandwidth.alarm is not None:
        if is_good(bandwidth, item.z):
            return Verdict.OK, Reason.RECOVERING
        return Verdict.DEGRADED, bandwidth.alarm.value
    if bandwidth.is_provisional:
        return Verdict.DEGRADED, Reason.SEVERE
    if item.z <= policy.LOW_Z:
        return Verdict.DEGRADED, Reason.UNCONFIRMED
    if latency.alarm is not None:
        return Verdict.DEGRADED, Reason.LATENCY
    return Verdict.OK, Reason.WITHIN_NOISE


def _statistic(item: Scored, baseline: Baseline, cusum: float) -> Statistic:
    is_golden = baseline.golden == baseline.busbw
    return Statistic(
        z=item.z,
        sigma=item.sigma,
        nights=baseline.night_count,
        cusum=cusum,
        vs_golden=item.ratio if is_golden else bandwidth_score(item.run.busbw, baseline.golden),
        latency_score=item.latency,
    )


def with_throttling(assessment: Assessment, throttled: str) -> Assessment:
    """A low run of GPUs that were held back says so, whatever rule has found it; a good one stays good."""
    if assessment.verdict is not Verdict.DEGRADED or not throttled:
        return assessment
    detail = f"the GPUs were throttled ({throttled}); {assessment.detail}"
    return replace(assessment, reason=Reason.THROTTLED, detail=detail)


def with_transport(assessment: Assessment, transport: str) -> Assessment:
    """A slower path is degraded whatever the score: the next size, or the next job, will feel it."""
    return replace(
        assessment,
        verdict=Verdict.DEGRADED,
        reason=Reason.TRANSPORT_CHANGE,
        detail=f"the transport is now {transport}; {assessment.detail}",
    )
