"""SQL of counters and of what monitoring must remember of a sweep for ever. Inside its caller's transaction.

Both live in tables of their own, so that retention never lowers a counter (DESIGN rule 9).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from gpumond.model.run import PREEMPTED, Sweep, SweepOutcome
from gpumond.model.status import PREEMPTION_BOUNDS_SECONDS, DurationCounts
from gpumond.store.records import (
    PREEMPTION_COUNTS,
    PREEMPTION_SECONDS,
    SWEEP_FAILURES,
    SWEEP_PREEMPTIONS,
    SWEEP_SKIPS,
    Counter,
    SweepHistory,
)
from gpumond.store.rows import finite
from gpumond.store.session import Session, optional_instant, optional_microseconds

_ENSURE = (
    "INSERT INTO sweep_tally (name, runs, consecutive_failures, consecutive_skips, last_run_duration_seconds)"
    " VALUES (?, 0, 0, 0, 0.0) ON CONFLICT (name) DO NOTHING"
)
_RAN = """
UPDATE sweep_tally SET runs = runs + 1, consecutive_skips = 0, last_run_at_us = :ended_at,
  last_run_duration_seconds = :duration, last_run_success = :success,
  consecutive_failures = CASE WHEN :success THEN 0 ELSE consecutive_failures + 1 END,
  last_success_at_us = CASE WHEN :success THEN :ended_at ELSE last_success_at_us END
WHERE name = :name
"""


def increment(session: Session, name: str, labels: Mapping[str, str], amount: float) -> None:
    """Raises ValueError where `amount` would lower the counter."""
    if finite(name, amount) < 0:
        raise ValueError(f"counter {name} cannot grow by {amount}")
    session.execute(
        "INSERT INTO counter (name, labels, value) VALUES (?, ?, ?)"
        " ON CONFLICT (name, labels) DO UPDATE SET value = value + excluded.value",
        (name, json.dumps(dict(labels), sort_keys=True), float(amount)),
    )


def read_counters(session: Session, name: str | None = None) -> tuple[Counter, ...]:
    """All of them, or those called `name`."""
    rows = session.execute(
        "SELECT name, labels, value FROM counter WHERE :name IS NULL OR name = :name ORDER BY name, labels",
        {"name": name},
    )
    return tuple(Counter(row["name"], json.loads(row["labels"]), row["value"]) for row in rows)


def tally_sweep(session: Session, sweep: Sweep) -> None:
    """Count a sweep that has ended; the caller makes sure that it is counted once."""
    session.execute(_ENSURE, (sweep.name,))
    if sweep.outcome is SweepOutcome.SKIPPED:
        session.execute(
            "UPDATE sweep_tally SET consecutive_skips = consecutive_skips + 1 WHERE name = ?", (sweep.name,)
        )
        increment(session, SWEEP_SKIPS, {"sweep": sweep.name, "reason": sweep.reason}, 1)
        if sweep.reason == PREEMPTED:
            increment(session, SWEEP_PREEMPTIONS, {"sweep": sweep.name}, 1)
        return
    is_success = sweep.outcome is SweepOutcome.SUCCESS
    session.execute(
        _RAN,
        {
            "name": sweep.name,
            "ended_at": optional_microseconds(sweep.ended_at),
            "duration": finite("duration_seconds", sweep.duration_seconds or 0.0),
            "success": int(is_success),
        },
    )
    if not is_success:
        increment(session, SWEEP_FAILURES, {"sweep": sweep.name, "reason": sweep.reason}, 1)


def read_sweep_history(session: Session, name: str) -> SweepHistory:
    """What is known of the sweep called `name`; all zero where it never ended."""
    row = session.execute("SELECT * FROM sweep_tally WHERE name = ?", (name,)).fetchone()
    failures = _by_reason(session, SWEEP_FAILURES, name)
    skips = _by_reason(session, SWEEP_SKIPS, name)
    preemptions = sum(
        int(counter.value)
        for counter in read_counters(session, SWEEP_PREEMPTIONS)
        if counter.labels.get("sweep") == name
    )
    if row is None:
        return SweepHistory(name, failures=failures, skips=skips, preemptions=preemptions)
    return SweepHistory(
        name=name,
        runs=row["runs"],
        failures=failures,
        skips=skips,
        preemptions=preemptions,
        consecutive_failures=row["consecutive_failures"],
        consecutive_skips=row["consecutive_skips"],
        last_run_at=optional_instant(row["last_run_at_us"]),
        last_run_duration_seconds=row["last_run_duration_seconds"],
        last_run_success=None if row["last_run_success"] is None else bool(row["last_run_success"]),
        last_success_at=optional_instant(row["last_success_at_us"]),
    )


def tally_preemption(session: Session, seconds: float) -> None:
    bound = next((bound for bound in PREEMPTION_BOUNDS_SECONDS if seconds <= bound), math.inf)
    increment(session, PREEMPTION_COUNTS, {"le": f"{bound:g}"}, 1)
    increment(session, PREEMPTION_SECONDS, {}, seconds)


def read_preemptions(session: Session) -> DurationCounts:
    counts = {
        counter.labels["le"]: int(counter.value) for counter in read_counters(session, PREEMPTION_COUNTS)
    }
    total = sum(counter.value for counter in read_counters(session, PREEMPTION_SECONDS))
    bounds = (*PREEMPTION_BOUNDS_SECONDS, math.inf)
    return DurationCounts(
        PREEMPTION_BOUNDS_SECONDS, tuple(counts.get(f"{bound:g}", 0) for bound in bounds), total
    )


def _by_reason(session: Session, name: str, sweep: str) -> dict[str, int]:
    return {
        counter.labels["reason"]: int(counter.value)
        for counter in read_counters(session, name)
        if counter.labels.get("sweep") == sweep
    }
