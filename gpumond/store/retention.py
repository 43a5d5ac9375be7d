"""Which stored rows may go, by age. Pure.

Two promises bound it. What explains a failure is kept longer than what explains a success. And the newest runs of
everything that is measured stay whatever their age, so that neither a host that was off for years nor a clock that
jumped ahead empties the history on which dashboards and baselines stand.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

NEWEST_RUNS_KEPT = 30
"""For each sweep, engine, GPU set and collective: more than the 21 nights of a baseline (engineering.md 5.2)."""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long things are kept; the configuration decides. `results`: runs, points, sweeps and topology changes."""

    success_output: timedelta
    failure_output: timedelta
    results: timedelta
    requests: timedelta = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class RunAge:
    """What the decision needs of a finished run. `measured` is what its numbers belong to."""

    number: int
    ended_at: datetime
    measured: tuple[str, ...]
    is_failure: bool
    has_output: bool


@dataclass(frozen=True, slots=True)
class Expired:
    """Numbers of runs: those that go as a whole, and those that lose their raw output only."""

    runs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """How many rows went."""

    runs: int
    outputs: int
    sweeps: int
    requests: int
    snapshots: int
    changes: int = 0


def expired(runs: Iterable[RunAge], now: datetime, policy: RetentionPolicy) -> Expired:
    """What may go at `now`. A run from the future (a clock that stepped back) never does."""
    gone, silent = [], []
    seen: Tally[tuple[str, ...]] = Tally()
    for run in sorted(runs, key=lambda run: run.number, reverse=True):
        seen[run.measured] += 1
        age = now - run.ended_at
        output_age_max = policy.failure_output if run.is_failure else policy.success_output
        if age > policy.results and seen[run.measured] > NEWEST_RUNS_KEPT:
            gone.append(run.number)
        elif run.has_output and age > output_age_max:
            silent.append(run.number)
    return Expired(tuple(reversed(gone)), tuple(reversed(silent)))
