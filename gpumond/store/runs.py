"""SQL of sweeps, runs, points and raw output. Every function works inside its caller's transaction."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from datetime import datetime

from gpumond.model.benchmark import Collective, Point
from gpumond.model.identity import RunId
from gpumond.model.run import Run, SeriesKey, Sweep, series_of
from gpumond.store.rows import point_of, point_values, run_of, run_values, sweep_of, sweep_values
from gpumond.store.session import Row, Scalar, Session, to_microseconds

_RUN_COLUMNS = (
    "id, sweep_id, sweep, engine, gpu_set, gpu_uuids, collective, parameters_hash, command, environment,"
    " started_at_us, pid, start_ticks, ended_at_us, duration_seconds, cause, exit_status, outcome, verdict, reason,"
    " detail, tool_version, library_version, purpose, watch, transport"
)
_SWEEP_COLUMNS = "id, name, trigger_kind, started_at_us, planned_runs, ended_at_us, duration_seconds, outcome, reason, detail"
_SERIES_COLUMNS = (
    "sweep, engine, gpu_set, collective, parameters_hash, datatype, redop, size_bytes, placement"
)


def _upsert(table: str, columns: str) -> str:
    names = [name.strip() for name in columns.split(",")]
    values = ", ".join(f":{name}" for name in names)
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name != "id")
    return f"INSERT INTO {table} ({columns}) VALUES ({values}) ON CONFLICT (id) DO UPDATE SET {changes}"  # noqa: S608 - constants


_ENSURE_SERIES = (
    f"INSERT INTO series ({_SERIES_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608 - constants
)
_SERIES_COLUMN_COUNT = 9
_THIS_SERIES = (
    "sweep = ? AND engine = ? AND gpu_set = ? AND collective = ? AND parameters_hash = ? AND datatype = ?"
    " AND redop = ? AND size_bytes = ? AND placement = ?"
)
_INSERT_POINT = f"""
INSERT INTO point (run, position, time_seconds, algbw_bytes_per_second, busbw_bytes_per_second, wrong_elements, series)
SELECT ?, ?, ?, ?, ?, ?, id FROM series WHERE {_THIS_SERIES}
"""  # noqa: S608 - constants
_UPSERT_RUN = _upsert("run", _RUN_COLUMNS)
_UPSERT_SWEEP = _upsert("sweep", _SWEEP_COLUMNS)


def write_sweep(session: Session, sweep: Sweep) -> None:
    session.execute(_UPSERT_SWEEP, sweep_values(sweep))


def is_sweep_finished(session: Session, sweep_id: RunId) -> bool:
    row = session.execute("SELECT ended_at_us FROM sweep WHERE id = ?", (sweep_id,)).fetchone()
    return row is not None and row["ended_at_us"] is not None


def read_sweeps(session: Session, where: str, parameters: Sequence[Scalar], limit: int) -> tuple[Sweep, ...]:
    """Newest first. `where` is a constant of this package."""
    rows = session.execute(
        f"SELECT {_SWEEP_COLUMNS} FROM sweep WHERE {where} ORDER BY number DESC LIMIT ?",  # noqa: S608 - constants
        (*parameters, limit),
    )
    return tuple(sweep_of(row) for row in rows)


def write_run(session: Session, run: Run) -> int:
    """Insert or replace a run without its points; returns its number."""
    session.execute(_UPSERT_RUN, run_values(run))
    number = _number_of(session, run.id)
    if number is None:
        raise AssertionError(f"run {run.id} was just written")
    return number


def set_process(session: Session, run_id: RunId, pid: int, start_ticks: int) -> None:
    session.execute("UPDATE run SET pid = ?, start_ticks = ? WHERE id = ?", (pid, start_ticks, run_id))


def append_points(session: Session, run_id: RunId, points: Iterable[Point]) -> None:
    """Points behind those that the run has already. Raises ValueError where there is no such run."""
    row = session.execute(f"SELECT number, {_RUN_COLUMNS} FROM run WHERE id = ?", (run_id,)).fetchone()  # noqa: S608 - constants
    if row is None:
        raise ValueError(f"no run {run_id}")
    last = session.execute(
        "SELECT max(position) AS last FROM point WHERE run = ?", (row["number"],)
    ).fetchone()
    first = 0 if last["last"] is None else last["last"] + 1
    _insert_points(session, row["number"], run_of(row, ()), points, first)


def replace_points(session: Session, number: int, run: Run) -> None:
    session.execute("DELETE FROM point WHERE run = ?", (number,))
    _insert_points(session, number, run, run.points, 0)


def _insert_points(session: Session, number: int, run: Run, points: Iterable[Point], first: int) -> None:
    rows = [
        (number, position, *point_values(point), *_series_values(series_of(run, point)))
        for position, point in enumerate(points, start=first)
    ]
    session.executemany(_ENSURE_SERIES, [row[-_SERIES_COLUMN_COUNT:] for row in rows])
    session.executemany(_INSERT_POINT, rows)


def find_series(session: Session, key: SeriesKey) -> int | None:
    row = session.execute(f"SELECT id FROM series WHERE {_THIS_SERIES}", _series_values(key)).fetchone()  # noqa: S608 - constants
    return None if row is None else int(row["id"])


def _series_values(key: SeriesKey) -> tuple[Scalar, ...]:
    return (
        key.sweep,
        key.engine,
        key.gpu_set,
        key.collective,
        key.parameters_hash,
        key.datatype,
        key.redop,
        key.size_bytes,
        key.placement,
    )


def write_output(session: Session, number: int, output: bytes) -> None:
    session.execute(
        "INSERT OR REPLACE INTO run_output (run, size_bytes, zlib) VALUES (?, ?, ?)",
        (number, len(output), zlib.compress(output)),
    )


def read_output(session: Session, run_id: RunId) -> bytes | None:
    row = session.execute(
        "SELECT zlib FROM run_output JOIN run ON run.number = run_output.run WHERE run.id = ?", (run_id,)
    ).fetchone()
    return None if row is None else zlib.decompress(row["zlib"])


def read_run(session: Session, run_id: RunId) -> Run | None:
    found = _with_points(session, "id = ?", (run_id,), 1)
    return found[0] if found else None


def read_runs(
    session: Session,
    *,
    limit: int,
    sweep: str | None = None,
    collective: Collective | None = None,
    since: datetime | None = None,
) -> tuple[Run, ...]:
    """Newest first."""
    conditions = ["TRUE"]
    parameters: list[Scalar] = []
    if sweep is not None:
        conditions.append("sweep = ?")
        parameters.append(sweep)
    if collective is not None:
        conditions.append("collective = ?")
        parameters.append(collective)
    if since is not None:
        conditions.append("started_at_us >= ?")
        parameters.append(to_microseconds(since))
    return _with_points(session, " AND ".join(conditions), parameters, limit)


def read_open_runs(session: Session) -> tuple[Run, ...]:
    return _with_points(session, "ended_at_us IS NULL", (), -1)


def read_runs_of_sweep(session: Session, sweep_id: RunId) -> tuple[Run, ...]:
    """Oldest first, as they ran."""
    return tuple(reversed(_with_points(session, "sweep_id = ?", (sweep_id,), -1)))


def _with_points(session: Session, where: str, parameters: Sequence[Scalar], limit: int) -> tuple[Run, ...]:
    rows = session.execute(
        f"SELECT number, {_RUN_COLUMNS} FROM run WHERE {where} ORDER BY number DESC LIMIT ?",  # noqa: S608 - constants
        (*parameters, limit),
    ).fetchall()
    return tuple(run_of(row, _read_points(session, row)) for row in rows)


def _read_points(session: Session, run: Row) -> list[Point]:
    rows = session.execute(
        "SELECT * FROM point JOIN series ON series.id = point.series WHERE point.run = ? ORDER BY position",
        (run["number"],),
    )
    return [point_of(row) for row in rows]


def _number_of(session: Session, run_id: RunId) -> int | None:
    row = session.execute("SELECT number FROM run WHERE id = ?", (run_id,)).fetchone()
    return None if row is None else int(row["number"])
