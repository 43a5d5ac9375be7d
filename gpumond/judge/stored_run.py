"""A stored run as the judge sees it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpumond.judge.observation import Observation, measured_of
from gpumond.judge.verdict import WRONG_RESULTS
from gpumond.model.baseline import Scope, TrackKey
from gpumond.model.benchmark import TextOutcome
from gpumond.model.run import TAINTED, Run, Verdict
from gpumond.model.watch import throttling_of


def scope_of(run: Run) -> Scope:
    return Scope(run.sweep, run.engine.value, run.gpu_set.name)


def is_measured(run: Run) -> bool:
    """Whether a run has numbers for the judge; what it was called meanwhile does not matter."""
    return run.verdict is not Verdict.FAILED and run.outcome == TextOutcome.OK and run.reason != TAINTED


def observation_of(
    run: Run, fingerprint: Mapping[str, str], *, model_busbw: float | None, cpu_count: int
) -> Observation:
    """`model_busbw` is what the links of the GPU set should give; `cpu_count` 0: not known."""
    measured = measured_of(run.points, run.collective)
    first = run.points[0] if run.points else None
    load = run.watch.cpu_load_average / cpu_count if run.watch and cpu_count else None
    observation = Observation(
        at=run.started_at,
        scope=scope_of(run),
        track=TrackKey(
            collective=run.collective.value,
            datatype=first.datatype if first else "",
            redop=first.redop if first else "",
            ranks=len(run.gpu_set.uuids),
            parameters_hash=run.parameters_hash,
        ),
        fingerprint=fingerprint,
        transport=run.transport.summary if run.transport else "",
        rows=len(run.points),
        model_busbw=model_busbw,
        cpu_load_per_core=load,
        throttled=throttling_of(run.watch) if run.watch else "",
        points=run.points,
    )
    if is_measured(run):
        return replace(
            observation,
            busbw=measured.busbw,
            seconds=measured.seconds,
            implied_ranks=measured.implied_ranks,
        )
    if run.verdict is not Verdict.FAILED:
        return replace(observation, excluded=run.reason or "not_measured")
    if run.reason == WRONG_RESULTS:
        return replace(observation, wrong_sizes=measured.wrong_sizes or (0,))
    return replace(observation, failure=run.reason)
