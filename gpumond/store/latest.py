"""SQL of what is current: the newest value of every exported series, the newest verdicts, one series over time.

A value is current when its run ended with an ok text and nobody shared the GPUs (usable), and when it was measured with
the parameters of the newest usable run of the same sweep, engine, GPU set and collective: changed parameters end a
series (DESIGN 5). One row comes out per exported series, whatever was stored, because the last step numbers the
candidates of each and keeps the first.
"""

from __future__ import annotations

from datetime import datetime

from gpumond.codec import decode
from gpumond.model.benchmark import Collective, Placement
from gpumond.model.identity import GpuUuid, RunId
from gpumond.model.run import Engine, SeriesKey, Verdict
from gpumond.model.status import CollectiveTransport, CollectiveVerdict, LatestPoint, LoadedPcieLink
from gpumond.model.transport import TransportReport
from gpumond.model.watch import RunWatch
from gpumond.store.records import SeriesPoint
from gpumond.store.runs import find_series
from gpumond.store.session import Row, Session, from_microseconds, to_microseconds

# Word for word the condition of the index run_measured (gpumond/store/migrations.py), or SQLite will not use it. Corrupt
# data is measured: it is exported with its #wrong, and no baseline is ever made of it.
_MEASURED = (
    "ended_at_us IS NOT NULL AND outcome IN ('ok', 'wrong_results') AND reason <> 'tainted'"
    " AND reason <> 'unreadable_rows' AND purpose = 'measurement'"
)

# What a judge may compare with.
_USABLE = "ended_at_us IS NOT NULL AND outcome = 'ok' AND reason <> 'tainted' AND purpose = 'measurement'"

# `max(number)` fetches the other columns from that very row (sqlite.org/lang_select.html#bareagg). CROSS JOIN fixes the
# order of the joins, INDEXED BY the way of each: from the few current series to the newest usable run of each, down the
# index point_by_series, which ends at the first hit. Left to choose, SQLite reads every point of that run for every
# series: 40 ms instead of 7 for 372 series of two years. Of equal candidates out of place comes first, then the newest run, then what
# was printed first (nccl-tests prints `sum` before the other reductions).
_LATEST_POINTS = f"""
WITH
newest_run AS (
  SELECT sweep, engine, gpu_set, collective, parameters_hash, max(number)
  FROM run INDEXED BY run_measured WHERE {_MEASURED} GROUP BY sweep, engine, gpu_set, collective
),
candidate AS (
  SELECT series.*, (
    SELECT point.run FROM point CROSS JOIN run ON run.number = point.run
    WHERE point.series = series.id AND {_MEASURED} ORDER BY point.run DESC LIMIT 1
  ) AS newest
  FROM newest_run CROSS JOIN series USING (sweep, engine, gpu_set, collective, parameters_hash)
),
ranked AS (
  SELECT candidate.*, run.ended_at_us, point.time_seconds, point.algbw_bytes_per_second,
    point.busbw_bytes_per_second, point.wrong_elements,
    row_number() OVER (
      PARTITION BY candidate.sweep, candidate.engine, candidate.gpu_set, candidate.collective,
        candidate.datatype, candidate.size_bytes
      ORDER BY candidate.placement = 'in_place', point.run DESC, point.position
    ) AS place
  FROM candidate
  CROSS JOIN point INDEXED BY point_by_series ON point.series = candidate.id AND point.run = candidate.newest
  CROSS JOIN run ON run.number = point.run
)
SELECT * FROM ranked WHERE place = 1 ORDER BY sweep, engine, gpu_set, collective, datatype, size_bytes
"""  # noqa: S608 - constants

# The verdict on a collective is the worst one of its runs in the newest sweep that finished any; a sweep may measure
# one collective several times (datatypes), and a good run must not hide a bad one.
_LATEST_VERDICTS = """
WITH
newest AS (
  SELECT sweep, engine, gpu_set, collective, sweep_id, max(number)
  FROM run INDEXED BY run_finished WHERE ended_at_us IS NOT NULL AND purpose = 'measurement' GROUP BY sweep, engine, gpu_set, collective
),
ranked AS (
  SELECT run.sweep, run.engine, run.gpu_set, run.collective, run.verdict, run.reason, row_number() OVER (
    PARTITION BY run.sweep, run.engine, run.gpu_set, run.collective
    ORDER BY CASE run.verdict WHEN 'failed' THEN 0 WHEN 'degraded' THEN 1 WHEN 'not_evaluated' THEN 2 ELSE 3 END,
      run.number DESC
  ) AS place
  FROM newest CROSS JOIN run USING (sweep_id, sweep, engine, gpu_set, collective)
  WHERE run.ended_at_us IS NOT NULL AND run.purpose = 'measurement'
)
SELECT * FROM ranked WHERE place = 1 ORDER BY sweep, engine, gpu_set, collective
"""

_LATEST_TRANSPORTS = f"""
WITH newest AS (
  SELECT sweep, engine, gpu_set, collective, max(number) AS number
  FROM run INDEXED BY run_measured WHERE {_MEASURED} GROUP BY sweep, engine, gpu_set, collective
)
SELECT run.sweep, run.engine, run.gpu_set, run.collective, run.transport
FROM newest CROSS JOIN run ON run.number = newest.number WHERE run.transport IS NOT NULL
ORDER BY run.sweep, run.engine, run.gpu_set, run.collective
"""  # noqa: S608 - constants

_SERIES = f"""
SELECT run.id, run.ended_at_us, run.verdict, run.reason, ({_USABLE}) AS is_usable, point.time_seconds,
  point.algbw_bytes_per_second, point.busbw_bytes_per_second, point.wrong_elements
FROM point CROSS JOIN run ON run.number = point.run
WHERE point.series = ? AND run.ended_at_us >= ? ORDER BY point.run DESC, point.position DESC LIMIT ?
"""  # noqa: S608 - constants


_LARGEST_SIZE = f"""
SELECT max(series.size_bytes) AS size FROM point JOIN series ON series.id = point.series WHERE point.run = (
  SELECT max(number) FROM run
  WHERE sweep = ? AND engine = ? AND gpu_set = ? AND collective = ? AND parameters_hash = ? AND {_USABLE}
)
"""  # noqa: S608 - constants

_WATCHED = "SELECT watch FROM run WHERE watch IS NOT NULL ORDER BY number DESC LIMIT ?"

WATCHED_RUNS_MAX = 40
"""Looked at: a night of five collectives on several GPU sets."""


def read_latest_points(session: Session) -> tuple[LatestPoint, ...]:
    return tuple(_latest_point(row) for row in session.execute(_LATEST_POINTS))


def read_latest_verdicts(session: Session) -> tuple[CollectiveVerdict, ...]:
    return tuple(
        CollectiveVerdict(
            sweep=row["sweep"],
            engine=Engine(row["engine"]),
            gpu_set=row["gpu_set"],
            collective=Collective(row["collective"]),
            verdict=Verdict(row["verdict"]),
            reason=row["reason"],
        )
        for row in session.execute(_LATEST_VERDICTS)
    )


def read_latest_transports(session: Session) -> tuple[CollectiveTransport, ...]:
    return tuple(
        CollectiveTransport(
            sweep=row["sweep"],
            engine=Engine(row["engine"]),
            gpu_set=row["gpu_set"],
            collective=Collective(row["collective"]),
            channels=decode(TransportReport, row["transport"]).channels,
        )
        for row in session.execute(_LATEST_TRANSPORTS)
    )


def read_largest_size(
    session: Session,
    *,
    sweep: str,
    engine: Engine,
    gpu_set: str,
    collective: Collective,
    parameters_hash: str,
) -> int | None:
    """Of the newest usable run with these parameters; None before the first. A run that was cut short is none."""
    values = (sweep, engine.value, gpu_set, collective.value, parameters_hash)
    row = session.execute(_LARGEST_SIZE, values).fetchone()
    return None if row["size"] is None else int(row["size"])


def read_loaded_pcie_links(session: Session) -> tuple[LoadedPcieLink, ...]:
    """The highest generation that the newest watched run of each GPU has seen, in the order of the UUIDs."""
    generations: dict[GpuUuid, int] = {}
    for row in session.execute(_WATCHED, (WATCHED_RUNS_MAX,)):
        for load in decode(RunWatch, row["watch"]).gpus:
            if load.pcie_generation is not None:
                generations.setdefault(load.uuid, round(load.pcie_generation.maximum))
    return tuple(LoadedPcieLink(uuid, generations[uuid]) for uuid in sorted(generations))


def read_series(
    session: Session, key: SeriesKey, *, since: datetime | None, limit: int
) -> tuple[SeriesPoint, ...]:
    """The newest `limit` values of finished runs, oldest first."""
    number = find_series(session, key)
    if number is None:
        return ()
    after = 0 if since is None else to_microseconds(since)
    rows = session.execute(_SERIES, (number, after, limit)).fetchall()
    return tuple(_series_point(row) for row in reversed(rows))


def _latest_point(row: Row) -> LatestPoint:
    return LatestPoint(
        sweep=row["sweep"],
        engine=Engine(row["engine"]),
        gpu_set=row["gpu_set"],
        collective=Collective(row["collective"]),
        datatype=row["datatype"],
        size_bytes=row["size_bytes"],
        placement=Placement(row["placement"]),
        measured_at=from_microseconds(row["ended_at_us"]),
        time_seconds=row["time_seconds"],
        algbw_bytes_per_second=row["algbw_bytes_per_second"],
        busbw_bytes_per_second=row["busbw_bytes_per_second"],
        wrong_elements=row["wrong_elements"],
    )


def _series_point(row: Row) -> SeriesPoint:
    return SeriesPoint(
        run_id=RunId(row["id"]),
        measured_at=from_microseconds(row["ended_at_us"]),
        time_seconds=row["time_seconds"],
        algbw_bytes_per_second=row["algbw_bytes_per_second"],
        busbw_bytes_per_second=row["busbw_bytes_per_second"],
        wrong_elements=row["wrong_elements"],
        verdict=Verdict(row["verdict"]),
        reason=row["reason"],
        is_usable=bool(row["is_usable"]),
    )
