"""SQL of retention: what it looks at, and what it deletes. Inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from gpumond.store.retention import RunAge
from gpumond.store.session import Session, from_microseconds, to_microseconds


def read_run_ages(session: Session) -> tuple[RunAge, ...]:
    """Every finished run. A run that was not ok in any way keeps its output like a failure does."""
    rows = session.execute(
        "SELECT run.number, run.ended_at_us, run.sweep, run.engine, run.gpu_set, run.collective,"
        " (run.verdict IN ('failed', 'degraded') OR run.outcome <> 'ok') AS is_failure,"
        " run_output.run IS NOT NULL AS has_output"
        " FROM run LEFT JOIN run_output ON run_output.run = run.number WHERE run.ended_at_us IS NOT NULL"
    )
    return tuple(
        RunAge(
            number=row["number"],
            ended_at=from_microseconds(row["ended_at_us"]),
            measured=(row["sweep"], row["engine"], row["gpu_set"], row["collective"]),
            is_failure=bool(row["is_failure"]),
            has_output=bool(row["has_output"]),
        )
        for row in rows
    )


def delete_runs(session: Session, numbers: Sequence[int]) -> None:
    """Runs with their points and output (ON DELETE CASCADE)."""
    session.executemany("DELETE FROM run WHERE number = ?", [(number,) for number in numbers])


def delete_outputs(session: Session, numbers: Sequence[int]) -> None:
    session.executemany("DELETE FROM run_output WHERE run = ?", [(number,) for number in numbers])


def delete_sweeps(session: Session, before: datetime) -> int:
    """Ended sweeps without a run, and series without a point."""
    session.execute(
        "DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM point WHERE point.series = series.id)"
    )
    return session.execute(
        "DELETE FROM sweep WHERE ended_at_us < ? AND NOT EXISTS (SELECT 1 FROM run WHERE run.sweep_id = sweep.id)",
        (to_microseconds(before),),
    ).rowcount


def delete_changes(session: Session, before: datetime) -> int:
    """Ended changes; what is open stays, however old it is, and so does every decision."""
    return session.execute(
        "DELETE FROM topology_change WHERE closed_at_us < ?", (to_microseconds(before),)
    ).rowcount


def delete_snapshots(session: Session, before: datetime) -> int:
    """Structures last seen before; never the newest one."""
    return session.execute(
        "DELETE FROM snapshot WHERE last_seen_us < ? AND id < (SELECT max(id) FROM snapshot)",
        (to_microseconds(before),),
    ).rowcount
