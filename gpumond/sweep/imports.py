"""A log of somebody else's benchmark as a run of the history: shown beside our own, never judged, never a current value.

Pure. What the text does not say (which GPUs, which host settings) stays unknown, so its numbers belong to no baseline.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime

from gpumond.errors import NotEvaluatedError, UsageError
from gpumond.model.benchmark import Collective, ParsedOutput, points_of_row
from gpumond.model.identity import RunId
from gpumond.model.run import (
    Cause,
    Engine,
    GpuSet,
    Purpose,
    Run,
    Sweep,
    SweepOutcome,
    Trigger,
    Verdict,
)
from gpumond.model.transport import TransportReport

IMPORTED = "imported"
"""The name of such a sweep, the reason why its run has no verdict, and the GPU set where nobody names one."""

_ENGINES = {
    "nccl-tests": Engine.NCCL_TESTS,
    "rccl-tests": Engine.RCCL_TESTS,
    "gpumond-torch": Engine.TORCH,
    "gpumond-nccl4py": Engine.NCCL4PY,
}


@dataclass(frozen=True, slots=True)
class ImportedLog:
    """A text that was read, and what its reader knows of it."""

    name: str
    parsed: ParsedOutput
    transport: TransportReport | None
    measured_at: datetime
    sweep: str = IMPORTED
    gpu_set: str = IMPORTED
    collective: Collective | None = None
    """What it measured, where the text does not say."""


def run_of_log(log: ImportedLog, *, sweep_id: RunId, run_id: RunId) -> tuple[Sweep, Run]:
    """Raises NotEvaluatedError where there is nothing to keep, UsageError where nobody says what was measured."""
    parsed = log.parsed
    if not parsed.rows:
        raise NotEvaluatedError(
            f"{log.name} holds no row of a benchmark", hint="`gpumond parse` says what it does hold."
        )
    collective = _collective_of(log)
    engine = _ENGINES[parsed.tool]
    sweep = Sweep(
        id=sweep_id,
        name=log.sweep,
        trigger=Trigger.IMPORT,
        started_at=log.measured_at,
        planned_runs=1,
        ended_at=log.measured_at,
        duration_seconds=0.0,
        outcome=SweepOutcome.SUCCESS,
        detail=f"read from {log.name}",
    )
    run = Run(
        id=run_id,
        sweep_id=sweep_id,
        sweep=log.sweep,
        engine=engine,
        gpu_set=GpuSet(log.gpu_set, ()),
        collective=collective,
        parameters_hash=_hash_of(engine, collective, parsed),
        command=("gpumond", "import", log.name),
        environment={},
        started_at=log.measured_at,
        ended_at=log.measured_at,
        cause=Cause.EXITED,
        outcome=parsed.outcome.value,
        verdict=Verdict.NOT_EVALUATED,
        reason=IMPORTED,
        detail=parsed.error or f"read from {log.name}",
        tool_version=parsed.tool_version or "",
        library_version=parsed.library_version or "",
        points=tuple(point for row in parsed.rows for point in points_of_row(row, collective)),
        purpose=Purpose.IMPORTED,
        transport=log.transport,
    )
    return sweep, run


def _collective_of(log: ImportedLog) -> Collective:
    said = log.parsed.collective
    known = Collective(said) if said in frozenset(Collective) else None
    if known is None and log.collective is not None:
        return log.collective
    if known is None:
        what = (
            f"{said} is none that is known here" if said else "it does not say which collective it measured"
        )
        raise UsageError(f"{log.name}: {what}", hint="Say so with --collective.")
    if log.collective not in (None, known):
        raise UsageError(f"{log.name} says that it measured {known.value}", hint="Leave --collective out.")
    return known


def _hash_of(engine: Engine, collective: Collective, parsed: ParsedOutput) -> str:
    facts = {"imported": True, "engine": engine, "collective": collective, "ranks": parsed.nranks}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
