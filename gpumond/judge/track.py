"""One night of one collective: which of its runs count, and what corrupt data and failures say. Pure.

The runs that count are judged by gpumond.judge.tonight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpumond.judge import policy
from gpumond.judge.admission import refusal_of
from gpumond.judge.assessment import Assessment
from gpumond.judge.attribution import blamed, cause_of, sentence_of
from gpumond.judge.fingerprint import carried, changes_between
from gpumond.judge.ledger import Signal
from gpumond.judge.observation import Observation
from gpumond.judge.tonight import Tonight
from gpumond.model.baseline import InputChange, Track
from gpumond.model.change import Level
from gpumond.model.finding import FindingKind
from gpumond.model.run import Verdict


@dataclass(frozen=True, slots=True)
class TrackResult:
    """`assessments` are of the runs, in their order."""

    track: Track
    assessments: tuple[Assessment, ...]
    signals: tuple[Signal, ...]


def judge_track(track: Track, runs: Sequence[Observation], siblings: float) -> TrackResult:
    """The runs of one night, at least one; `siblings` is the typical noise of the scope."""
    refusals = [refusal_of(run, track.baseline) for run in runs]
    track, signals = _note_results(track, runs, refusals)
    valid = [run for run, refusal in zip(runs, refusals, strict=True) if refusal is None]
    if not valid:
        return TrackResult(track, tuple(refusal for refusal in refusals if refusal), tuple(signals))
    tonight = Tonight(track, valid, siblings)
    judged = iter(tonight.judge())
    assessments = tuple(refusal or next(judged) for refusal in refusals)
    return TrackResult(tonight.remembered(), assessments, (*signals, *tonight.signals))


def _note_results(
    track: Track, runs: Sequence[Observation], refusals: Sequence[Assessment | None]
) -> tuple[Track, list[Signal]]:
    """Corrupt data and failures need no statistics, but corrupt data has a rate."""
    failed = [
        run
        for run, refusal in zip(runs, refusals, strict=True)
        if refusal and refusal.verdict is Verdict.FAILED
    ]
    if not failed:
        return _with_good_results(track, refusals), []
    wrong = [run for run in failed if run.wrong_sizes]
    intact = [not run.wrong_sizes for run in runs]
    results = (*track.results, *intact)[-policy.WRONG_WINDOW_RUNS :]
    failures = track.failures + 1 if len(wrong) < len(failed) else track.failures
    track = replace(track, results=results, failures=failures)
    signals = [_wrong_signal(run, track) for run in wrong[:1]]
    signals += [_failed_signal(run, track) for run in failed if not run.wrong_sizes][:1]
    return track, signals


def _with_good_results(track: Track, refusals: Sequence[Assessment | None]) -> Track:
    is_full = len(track.results) >= policy.WRONG_WINDOW_RUNS
    if is_full and not track.failures and False not in track.results:
        return track
    good = sum(refusal is None for refusal in refusals)
    if not good:
        return track
    results = (*track.results, *[True] * good)[-policy.WRONG_WINDOW_RUNS :]
    return replace(track, results=results, failures=0)


def _changes_before(run: Observation, track: Track) -> tuple[InputChange, ...]:
    """What changed between the last valid night and a run that is none."""
    inputs = carried(track.fingerprint, run.fingerprint)
    changes = (*track.changes, *changes_between(track.fingerprint, inputs, run.at))
    return blamed(changes, onset=run.at, until=run.at, last_good_at=track.last_at)


def _wrong_signal(run: Observation, track: Track) -> Signal:
    changes = _changes_before(run, track)
    bad = track.results.count(False)
    sizes = ", ".join(str(size) for size in run.wrong_sizes if size)
    return Signal(
        kind=FindingKind.WRONG_RESULTS,
        collective=run.track.collective,
        first_at=run.at,
        confirmed_at=run.at,
        detail=f"{run.track.collective}: data arrives corrupt in {bad} of the last {len(track.results)} runs;"
        f" {sentence_of(changes)}",
        evidence=f"last at {sizes} bytes" if sizes else "the benchmark does not say at which sizes",
        cause=cause_of(changes),
    )


def _failed_signal(run: Observation, track: Track) -> Signal:
    again, changes = track.failures > 1, _changes_before(run, track)
    return Signal(
        kind=FindingKind.FAILED,
        collective=run.track.collective,
        first_at=run.at,
        confirmed_at=run.at if again else None,
        detail=f"{run.track.collective} fails: {run.failure}; {sentence_of(changes)}",
        cause=cause_of(changes),
        evidence=f"{track.failures} nights in a row" if again else "one night",
        level=Level.CRITICAL if again else None,
    )
