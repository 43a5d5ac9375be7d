"""Rows to model values and back. Pure; refuses what SQLite would store in silence (infinity, NaN, naive instants)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

from gpumond.codec import decode, encode
from gpumond.model.benchmark import Collective, Placement, Point
from gpumond.model.change import Level
from gpumond.model.finding import Finding, FindingKind
from gpumond.model.identity import GpuUuid, RunId
from gpumond.model.run import Cause, Engine, GpuSet, Purpose, Run, Sweep, SweepOutcome, Trigger, Verdict
from gpumond.model.status import Pause
from gpumond.model.transport import TransportReport
from gpumond.model.watch import RunWatch
from gpumond.store.records import Request, RequestState
from gpumond.store.session import (
    Row,
    Scalar,
    from_microseconds,
    optional_instant,
    optional_microseconds,
    to_microseconds,
)


def finite(name: str, value: float) -> float:
    """`value` as a real. Raises ValueError for NaN and infinity."""
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}, which is no measurement")
    return float(value)


def text(value: str) -> str:
    """`value` as SQLite can hold it: bytes that were no UTF-8 (a path, an error message) become escapes."""
    return value.encode("utf-8", "backslashreplace").decode()


def run_values(run: Run) -> dict[str, Scalar]:
    """The columns of table `run`."""
    return {
        "id": run.id,
        "sweep_id": run.sweep_id,
        "sweep": run.sweep,
        "engine": run.engine,
        "gpu_set": run.gpu_set.name,
        "gpu_uuids": json.dumps(run.gpu_set.uuids),
        "collective": run.collective,
        "parameters_hash": run.parameters_hash,
        "command": json.dumps(run.command),
        "environment": json.dumps(run.environment),
        "started_at_us": to_microseconds(run.started_at),
        "pid": run.pid,
        "start_ticks": run.start_ticks,
        "ended_at_us": optional_microseconds(run.ended_at),
        "duration_seconds": _optional_finite("duration_seconds", run.duration_seconds),
        "cause": run.cause,
        "exit_status": run.exit_status,
        "outcome": run.outcome,
        "verdict": run.verdict,
        "reason": text(run.reason),
        "detail": text(run.detail),
        "tool_version": text(run.tool_version),
        "library_version": text(run.library_version),
        "purpose": run.purpose,
        "watch": None if run.watch is None else encode(run.watch).decode(),
        "transport": None if run.transport is None else encode(run.transport).decode(),
    }


def run_of(row: Row, points: Iterable[Point]) -> Run:
    return Run(
        id=RunId(row["id"]),
        sweep_id=RunId(row["sweep_id"]),
        sweep=row["sweep"],
        engine=Engine(row["engine"]),
        gpu_set=GpuSet(row["gpu_set"], tuple(GpuUuid(uuid) for uuid in json.loads(row["gpu_uuids"]))),
        collective=Collective(row["collective"]),
        parameters_hash=row["parameters_hash"],
        command=tuple(json.loads(row["command"])),
        environment=json.loads(row["environment"]),
        started_at=from_microseconds(row["started_at_us"]),
        pid=row["pid"],
        start_ticks=row["start_ticks"],
        ended_at=optional_instant(row["ended_at_us"]),
        duration_seconds=row["duration_seconds"],
        cause=Cause(row["cause"]) if row["cause"] is not None else None,
        exit_status=row["exit_status"],
        outcome=row["outcome"],
        verdict=Verdict(row["verdict"]),
        reason=row["reason"],
        detail=row["detail"],
        tool_version=row["tool_version"],
        library_version=row["library_version"],
        points=tuple(points),
        purpose=Purpose(row["purpose"]),
        watch=None if row["watch"] is None else decode(RunWatch, row["watch"]),
        transport=None if row["transport"] is None else decode(TransportReport, row["transport"]),
    )


def sweep_values(sweep: Sweep) -> dict[str, Scalar]:
    """The columns of table `sweep`."""
    return {
        "id": sweep.id,
        "name": sweep.name,
        "trigger_kind": sweep.trigger,
        "started_at_us": to_microseconds(sweep.started_at),
        "planned_runs": sweep.planned_runs,
        "ended_at_us": optional_microseconds(sweep.ended_at),
        "duration_seconds": _optional_finite("duration_seconds", sweep.duration_seconds),
        "outcome": sweep.outcome,
        "reason": text(sweep.reason),
        "detail": text(sweep.detail),
    }


def sweep_of(row: Row) -> Sweep:
    return Sweep(
        id=RunId(row["id"]),
        name=row["name"],
        trigger=Trigger(row["trigger_kind"]),
        started_at=from_microseconds(row["started_at_us"]),
        planned_runs=row["planned_runs"],
        ended_at=optional_instant(row["ended_at_us"]),
        duration_seconds=row["duration_seconds"],
        outcome=SweepOutcome(row["outcome"]) if row["outcome"] is not None else None,
        reason=row["reason"],
        detail=row["detail"],
    )


def point_values(point: Point) -> tuple[float, float, float, int | None]:
    """The measured columns of table `point`."""
    return (
        finite("time_seconds", point.time_seconds),
        finite("algbw_bytes_per_second", point.algbw_bytes_per_second),
        finite("busbw_bytes_per_second", point.busbw_bytes_per_second),
        point.wrong_elements,
    )


def point_of(row: Row) -> Point:
    """A row of `point` joined with its `series`."""
    return Point(
        collective=Collective(row["collective"]),
        datatype=row["datatype"],
        redop=row["redop"],
        size_bytes=row["size_bytes"],
        placement=Placement(row["placement"]),
        time_seconds=row["time_seconds"],
        algbw_bytes_per_second=row["algbw_bytes_per_second"],
        busbw_bytes_per_second=row["busbw_bytes_per_second"],
        wrong_elements=row["wrong_elements"],
    )


def request_of(row: Row) -> Request:
    return Request(
        id=row["id"],
        kind=row["kind"],
        arguments=json.loads(row["arguments"]),
        by=row["requested_by"],
        at=from_microseconds(row["at_us"]),
        state=RequestState(row["state"]),
        answer=row["answer"],
        finished_at=optional_instant(row["finished_at_us"]),
    )


def finding_of(row: Row) -> Finding:
    return Finding(
        kind=FindingKind(row["kind"]),
        level=Level(row["level"]),
        subject=row["subject"],
        detail=row["detail"],
        evidence=row["evidence"],
        first_at=from_microseconds(row["first_at_us"]),
        last_at=from_microseconds(row["last_at_us"]),
        closed_at=optional_instant(row["closed_at_us"]),
        confirmed_at=optional_instant(row["confirmed_at_us"]),
        collectives=tuple(json.loads(row["collectives"])),
        cause=tuple(json.loads(row["cause"])),
    )


def finding_values(finding: Finding) -> dict[str, Scalar]:
    """The columns of table `finding`."""
    return {
        "kind": finding.kind,
        "level": finding.level,
        "subject": text(finding.subject),
        "detail": text(finding.detail),
        "evidence": text(finding.evidence),
        "first_at_us": to_microseconds(finding.first_at),
        "last_at_us": to_microseconds(finding.last_at),
        "closed_at_us": optional_microseconds(finding.closed_at),
        "confirmed_at_us": optional_microseconds(finding.confirmed_at),
        "collectives": json.dumps(finding.collectives),
        "cause": json.dumps(finding.cause),
    }


def pause_of(row: Row) -> Pause:
    return Pause(at=from_microseconds(row["at_us"]), by=row["paused_by"], reason=row["reason"])


def _optional_finite(name: str, value: float | None) -> float | None:
    return None if value is None else finite(name, value)
