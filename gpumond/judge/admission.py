"""Which runs of a night become values, and what is said of the others. Pure.

What is no measurement (it shared its GPUs, was preempted, cannot be read) is put aside before all else: not even its
corrupt data opens a finding. Then, in this order: corrupt data, failures, what is not comparable.
"""

from __future__ import annotations

from gpumond.judge.assessment import Assessment, Reason, not_evaluated
from gpumond.judge.observation import Observation, ranks_differ
from gpumond.model.baseline import Baseline
from gpumond.model.run import Verdict


def excluded(observation: Observation) -> Assessment:
    """What is said of a run that is no measurement; nothing else may know of it."""
    return not_evaluated(observation.excluded, "kept for the record, never judged")


def refusal_of(observation: Observation, baseline: Baseline | None) -> Assessment | None:
    """Why a run is no value of its track; None for one that is."""
    return _failure_of(observation) or _incomparable(observation, baseline)


def _failure_of(observation: Observation) -> Assessment | None:
    if observation.wrong_sizes:
        sizes = ", ".join(str(size) for size in observation.wrong_sizes[:4] if size)
        where = f" at {sizes} bytes" if sizes else ""
        return Assessment(Verdict.FAILED, Reason.WRONG_RESULTS, f"the data arrived corrupt{where}")
    if observation.failure:
        return Assessment(Verdict.FAILED, observation.failure, "the benchmark failed")
    return None


def _incomparable(observation: Observation, baseline: Baseline | None) -> Assessment | None:
    if observation.rows == 0:
        return not_evaluated(Reason.NO_ROWS, "the benchmark ended without a single row")
    if ranks_differ(observation):
        detail = (
            f"busbw / algbw says {observation.implied_ranks} ranks, {observation.track.ranks} were asked for"
        )
        return not_evaluated(Reason.FEWER_RANKS, detail)
    if not observation.busbw:
        return not_evaluated(Reason.NO_LARGE_SIZES, "no size from 64 MiB on was measured")
    if baseline is not None and not baseline.busbw.keys() <= observation.busbw.keys():
        missing = [size for size in baseline.busbw if size not in observation.busbw]
        sizes = ", ".join(map(str, missing[:4]))
        return not_evaluated(Reason.FEWER_ROWS, f"without {sizes} bytes, which the baseline has")
    return None
