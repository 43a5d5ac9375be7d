"""A history from outside: one JSON object a line -> observations -> verdicts and findings. Pure.

For support, research and tests: no daemon, no store, the same functions. Lines may come in any order; they are judged in
order of time. Values that cannot be true make a line not evaluated, a line that is no such object is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gpumond import codec
from gpumond.judge.assessment import Assessment, Reason
from gpumond.judge.attribution import BESIDE_FINGERPRINT
from gpumond.judge.night import judge_night
from gpumond.judge.nights import group_nights
from gpumond.judge.observation import Observation, measured_of
from gpumond.judge.reference import link_model_busbw
from gpumond.model.baseline import Scope, ScopeMemory, TrackKey
from gpumond.model.benchmark import Collective, Point, Row, Timing, points_of_row
from gpumond.model.finding import Finding

_EXCLUDED = ("tainted", "preempted", "skipped", "imported")
_BAD_OUTCOMES = {"failed": "benchmark_error"}
_WRONG_OUTCOME = "wrong_results"
_SIZE_UNKNOWN = (0,)
_CUT_OUTCOMES = ("truncated",)


@dataclass(frozen=True, slots=True)
class LineTiming:
    time_us: float
    busbw_gbps: float
    algbw_gbps: float = 0.0
    wrong: int | None = None


@dataclass(frozen=True, slots=True)
class LineRow:
    bytes: int
    out_of_place: LineTiming | None = None
    in_place: LineTiming | None = None
    count: int = 0
    type: str = ""
    redop: str | None = None
    root: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One run. The flags say that it is no measurement; `outcome` is the parser's word, where it is known."""

    at: datetime
    sweep: str
    engine: str
    gpu_set: str
    collective: str
    rows: tuple[LineRow, ...] = ()
    datatype: str | None = None
    redop: str | None = None
    nranks: int | None = None
    fingerprint: dict[str, Any] = field(default_factory=dict)
    transport: Any = None
    tainted: Any = False
    preempted: Any = False
    skipped: Any = False
    imported: Any = False
    rerun_of: Any = None
    topology: dict[str, Any] | None = None
    outcome: str | None = None
    cpu_load_per_core: float | None = None
    throttled: str = ""


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict on one line; `at` is as the line has it."""

    at: str
    sweep: str
    engine: str
    gpu_set: str
    collective: str
    datatype: str
    nranks: int
    assessment: Assessment


@dataclass(frozen=True, slots=True)
class JudgedHistory:
    verdicts: tuple[RunVerdict, ...]
    findings: tuple[Finding, ...]
    """In order of their start; closed ones too."""
    memories: Mapping[Scope, ScopeMemory]


@dataclass(frozen=True, slots=True)
class _Line:
    """A line with the text of its instant, and the text by which equal instants are ordered."""

    observation: Observation
    at_text: str
    text: str


def judge_history(lines: Iterable[str]) -> JudgedHistory:
    """Every line judged as if its night had just ended. Raises ValueError with the number of a line that is none."""
    parsed = [_parse(number, text) for number, text in enumerate(lines, start=1) if text.strip()]
    parsed.sort(key=lambda line: (line.observation.at, line.text))
    verdicts: list[tuple[tuple[datetime, str], RunVerdict]] = []
    findings: dict[tuple[str, str], Finding] = {}
    memories: dict[Scope, ScopeMemory] = {}
    for scope, night in _nights(parsed):
        result = judge_night(memories.get(scope, ScopeMemory()), scope, [line.observation for line in night])
        memories[scope] = result.memory
        findings.update({(finding.kind, finding.subject): finding for finding in result.findings})
        verdicts.extend(
            ((line.observation.at, line.text), _verdict_of(line, run.assessment))
            for line, run in zip(night, result.runs, strict=True)
        )
    verdicts.sort(key=lambda item: item[0])
    ordered = sorted(findings.values(), key=lambda finding: (finding.first_at, finding.kind, finding.subject))
    return JudgedHistory(tuple(verdict for _, verdict in verdicts), tuple(ordered), memories)


def _nights(lines: Sequence[_Line]) -> Iterator[tuple[Scope, list[_Line]]]:
    """Scope by scope, what was measured within one night."""
    by_scope: dict[Scope, list[_Line]] = {}
    for line in lines:
        by_scope.setdefault(line.observation.scope, []).append(line)
    for scope, members in by_scope.items():
        for night in group_nights(members, lambda line: line.observation):
            yield scope, night


def _verdict_of(line: _Line, assessment: Assessment) -> RunVerdict:
    run = line.observation
    return RunVerdict(
        at=line.at_text,
        sweep=run.scope.sweep,
        engine=run.scope.engine,
        gpu_set=run.scope.gpu_set,
        collective=run.track.collective,
        datatype=run.track.datatype,
        nranks=run.track.ranks,
        assessment=assessment,
    )


def _parse(number: int, text: str) -> _Line:
    try:
        document = json.loads(text)
        line = codec.decode(HistoryLine, text)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from error
    return _Line(observation_of(line), str(document["at"]), json.dumps(document, sort_keys=True))


def observation_of(line: HistoryLine) -> Observation:
    """What the judge may know of a line."""
    ranks = line.nranks or 0
    points = tuple(_points(line))
    measured = measured_of(points, line.collective)
    excluded = next((word for word in _EXCLUDED if getattr(line, word)), "")
    wrong_sizes = measured.wrong_sizes
    if not wrong_sizes and line.outcome == _WRONG_OUTCOME:
        wrong_sizes = _SIZE_UNKNOWN  # the footer says so, and no row does
    if not excluded and not wrong_sizes:
        excluded = _unusable(line, is_readable=measured.is_readable)
    first = line.rows[0] if line.rows else None
    return Observation(
        at=line.at if line.at.tzinfo else line.at.replace(tzinfo=UTC),
        scope=Scope(line.sweep, line.engine, line.gpu_set),
        track=TrackKey(
            collective=line.collective,
            datatype=line.datatype or (first.type if first else ""),
            redop=line.redop or (first.redop if first else None) or "none",
            ranks=ranks,
        ),
        busbw=measured.busbw,
        seconds=measured.seconds,
        fingerprint=_fingerprint(line),
        transport=_text(line.transport),
        excluded=excluded,
        failure=_BAD_OUTCOMES.get(line.outcome or "", ""),
        wrong_sizes=wrong_sizes,
        rows=len(line.rows),
        implied_ranks=measured.implied_ranks,
        model_busbw=link_model_busbw(line.topology or {}, line.fingerprint, line.collective, ranks),
        cpu_load_per_core=line.cpu_load_per_core,
        throttled=line.throttled,
        is_rerun=bool(line.rerun_of),
        points=points,
    )


def _unusable(line: HistoryLine, *, is_readable: bool) -> str:
    if line.outcome in _CUT_OUTCOMES:
        return line.outcome or ""
    return "" if is_readable else Reason.UNREADABLE_ROWS


def _points(line: HistoryLine) -> Iterator[Point]:
    """Of every row; what the collective is called matters to nobody here, so an unknown name is no error."""
    collective = Collective(line.collective) if line.collective in set(Collective) else Collective.SENDRECV
    for row in line.rows:
        yield from points_of_row(
            Row(
                row.bytes,
                row.count,
                row.type,
                row.redop,
                row.root,
                _timing(row.out_of_place),
                _timing(row.in_place),
            ),
            collective,
        )


def _timing(timing: LineTiming | None) -> Timing | None:
    if timing is None:
        return None
    return Timing(timing.time_us, timing.algbw_gbps, timing.busbw_gbps, timing.wrong)


def _fingerprint(line: HistoryLine) -> dict[str, str]:
    """With the topology as inputs, unless the fingerprint says it already."""
    inputs = {key: _text(value) for key, value in line.fingerprint.items()}
    for key, value in (line.topology or {}).items():
        inputs.setdefault(f"{BESIDE_FINGERPRINT}{key}", _text(value))
    return inputs


def _text(value: Any) -> str:
    """A value as one text that is equal for equal values."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
