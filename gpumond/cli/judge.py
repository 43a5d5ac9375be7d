"""`gpumond judge --history FILE`: what the judge says of a history from outside. Needs no daemon, no store and no GPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gpumond import codec
from gpumond.errors import ExitCode, UsageError
from gpumond.judge.assessment import Basis, Statistic
from gpumond.judge.history import JudgedHistory, RunVerdict, judge_history
from gpumond.model.change import Level
from gpumond.model.finding import Finding, FindingKind
from gpumond.model.run import Verdict
from gpumond.topology.printable import printable

HELP = "judge a history of benchmark results"

_LINES_SHOWN = 20
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class VerdictDocument:
    """The verdict on one line, as `--json` prints it."""

    at: str
    sweep: str
    engine: str
    gpu_set: str
    collective: str
    datatype: str
    nranks: int
    verdict: Verdict
    reason: str
    score: float | None
    basis: Basis
    detail: str
    statistic: Statistic | None
    shape: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FindingDocument:
    """One finding, as `--json` prints it."""

    kind: FindingKind
    level: str
    first_at: str
    confirmed_at: str | None
    closed_at: str | None
    collectives: tuple[str, ...]
    cause: tuple[str, ...]
    subject: str
    detail: str
    evidence: str


@dataclass(frozen=True, slots=True)
class JudgeDocument:
    """What `--json` prints: verdicts and findings in order of time."""

    verdicts: tuple[VerdictDocument, ...]
    findings: tuple[FindingDocument, ...]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--history",
        required=True,
        metavar="FILE",
        help="one JSON object a line, a run each; - for standard input",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def run(arguments: argparse.Namespace) -> int:
    name = "standard input" if arguments.history == "-" else arguments.history
    try:
        judged = judge_history(_lines(arguments.history))
    except ValueError as error:
        raise UsageError(
            f"{name}: {error}",
            hint="Each line is one run as a JSON object with at, sweep, engine, gpu_set, collective.",
        ) from error
    if arguments.json:
        print(codec.encode(_document(judged), indent=2).decode())
    else:
        print("\n".join(printable(line) for line in _text(judged)))  # names come from outside
    return exit_code_of(judged)


def exit_code_of(judged: JudgedHistory) -> ExitCode:
    """By the last verdict of each collective, and by what is still open."""
    last = {_series(verdict): verdict.assessment for verdict in judged.verdicts}
    is_alarming = any(
        finding.closed_at is None and finding.level != Level.INFO for finding in judged.findings
    )
    verdicts = {assessment.verdict for assessment in last.values()}
    if is_alarming or verdicts & {Verdict.DEGRADED, Verdict.FAILED}:
        return ExitCode.UNHEALTHY
    settled = [item for item in last.values() if item.verdict is Verdict.OK or item.reason == "learning"]
    return ExitCode.HEALTHY if settled else ExitCode.NOT_EVALUATED


def _series(verdict: RunVerdict) -> tuple[str, ...]:
    return (
        verdict.sweep,
        verdict.engine,
        verdict.gpu_set,
        verdict.collective,
        verdict.datatype,
        str(verdict.nranks),
    )


def _lines(path: str) -> list[str]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(
            f"cannot read {path!r}: {reason}", hint="Give a readable file, or - for standard input."
        ) from error
    return text.removeprefix(_BYTE_ORDER_MARK).split(
        "\n"
    )  # not splitlines: other separators may stand inside a JSON text


def _document(judged: JudgedHistory) -> JudgeDocument:
    texts = {_instant(verdict.at): verdict.at for verdict in judged.verdicts}
    return JudgeDocument(
        verdicts=tuple(_verdict_document(verdict) for verdict in judged.verdicts),
        findings=tuple(_finding_document(finding, texts) for finding in judged.findings),
    )


def _instant(text: str) -> str:
    try:
        return _utc(datetime.fromisoformat(text))
    except ValueError:
        return text


def _utc(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _verdict_document(verdict: RunVerdict) -> VerdictDocument:
    judged = verdict.assessment
    return VerdictDocument(
        at=verdict.at,
        sweep=verdict.sweep,
        engine=verdict.engine,
        gpu_set=verdict.gpu_set,
        collective=verdict.collective,
        datatype=verdict.datatype,
        nranks=verdict.nranks,
        verdict=judged.verdict,
        reason=judged.reason,
        score=judged.score,
        basis=judged.basis,
        detail=judged.detail,
        statistic=judged.statistic,
        shape=judged.shape,
    )


def _finding_document(finding: Finding, texts: dict[str, str]) -> FindingDocument:
    def written(at: datetime | None) -> str | None:
        """As the line of that run has it."""
        return None if at is None else texts.get(_utc(at), _utc(at))

    return FindingDocument(
        kind=finding.kind,
        level=finding.level,
        first_at=written(finding.first_at) or "",
        confirmed_at=written(finding.confirmed_at),
        closed_at=written(finding.closed_at),
        collectives=finding.collectives,
        cause=finding.cause,
        subject=finding.subject,
        detail=finding.detail,
        evidence=finding.evidence,
    )


def _text(judged: JudgedHistory) -> Iterator[str]:
    if not judged.verdicts:
        yield "no run: nothing to judge"
        return
    yield from _verdict_lines(judged.verdicts)
    yield ""
    yield from _finding_lines(judged.findings)


def _verdict_lines(verdicts: Iterable[RunVerdict]) -> Iterator[str]:
    """The newest ones; a year of nights is too long to read."""
    shown = list(verdicts)
    if len(shown) > _LINES_SHOWN:
        yield f"the newest {_LINES_SHOWN} of {len(shown)} runs (--json prints all):"
    for verdict in shown[-_LINES_SHOWN:]:
        judged = verdict.assessment
        score = f"{judged.score:7.1%}" if judged.score is not None else "      -"
        yield (
            f"{verdict.at:<24} {verdict.collective:<15} {score}  {judged.verdict.value:<13} {judged.reason:<16} {judged.detail}"
        )


def _finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    lines = [
        f"{finding.kind.value} ({finding.level.value}) {_utc(finding.first_at)}"
        f" {'until ' + _utc(finding.closed_at) if finding.closed_at else 'open'}"
        f" [{', '.join(finding.collectives)}] {finding.detail}"
        for finding in findings
    ]
    yield from lines or ["no findings"]
