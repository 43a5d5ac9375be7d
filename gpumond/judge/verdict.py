"""The verdict on one run, from how its process ended and what its text said. Pure.

First match wins; corrupt data outranks everything (DESIGN rule 7). Without a baseline a healthy run is "learning":
measured and stored, but nobody may call it good yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpumond.model.benchmark import ParsedOutput, Row, TextOutcome
from gpumond.model.run import Cause, Verdict

LEARNING = "learning"
WRONG_RESULTS = "wrong_results"

_HANGS = {
    Cause.NO_FIRST_ROW: "printed no row in time",
    Cause.ROW_STALLED: "stopped printing rows",
    Cause.TOTAL_TIMEOUT: "took longer than its limit",
    Cause.LOST: "could not be killed",
}
_NOT_RUN = {
    Cause.NOT_STARTED: "could not be started",
    Cause.CANCELLED: "was cancelled",
    Cause.PREEMPTED: "gave the GPUs back",
    Cause.OUTPUT_LIMIT: "printed more than its limit",
    Cause.ABORTED: "was cut off when gpumond ended",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """`reason` is a word that metrics carry; `detail` is a sentence for people."""

    verdict: Verdict
    reason: str
    detail: str


def judge_run(cause: Cause, exit_status: int | None, parsed: ParsedOutput, *, detail: str = "") -> Judgement:
    """The verdict on a run; `detail` is what the supervisor said of the process."""
    wrong = [row for row in parsed.rows if _wrong_elements(row) > 0]
    if wrong or parsed.outcome is TextOutcome.WRONG_RESULTS:
        sizes = ", ".join(str(row.bytes) for row in wrong[:4])
        where = f" at {sizes} bytes" if sizes else ""
        return Judgement(Verdict.FAILED, "wrong_results", f"the data arrived corrupt{where}")
    if cause in _HANGS:
        return Judgement(Verdict.FAILED, cause.value, detail or f"the benchmark {_HANGS[cause]}")
    if cause in _NOT_RUN:
        return Judgement(Verdict.NOT_EVALUATED, cause.value, detail or f"the benchmark {_NOT_RUN[cause]}")
    return _judge_text(exit_status, parsed)


def judge_sanity(judgement: Judgement) -> Judgement:
    """The verdict on a check of the sum, which needs no baseline."""
    if judgement.reason != LEARNING:
        return judgement
    return Judgement(Verdict.OK, "", "every rank saw the sum of all")


def _judge_text(exit_status: int | None, parsed: ParsedOutput) -> Judgement:
    if parsed.outcome is TextOutcome.FAILED:
        return Judgement(Verdict.FAILED, "benchmark_error", parsed.error or "the benchmark reported an error")
    if parsed.rejected:
        first = parsed.rejected[0]
        return Judgement(
            Verdict.NOT_EVALUATED,
            "unreadable_rows",
            f"{len(parsed.rejected)} rows do not add up: {first.reason}",
        )
    if not parsed.rows:
        ended = f" (exit status {exit_status})" if exit_status is not None else ""
        return Judgement(Verdict.NOT_EVALUATED, "no_rows", f"the benchmark ended without a single row{ended}")
    if parsed.outcome is TextOutcome.TRUNCATED:
        return Judgement(Verdict.NOT_EVALUATED, "truncated", "the output ends before its last line")
    if exit_status != 0:
        return Judgement(
            Verdict.FAILED, "exit_status", f"the text is complete but the exit status is {exit_status}"
        )
    return Judgement(Verdict.NOT_EVALUATED, LEARNING, "measured; there is no baseline to compare with yet")


def _wrong_elements(row: Row) -> int:
    return sum(timing.wrong or 0 for timing in (row.out_of_place, row.in_place) if timing is not None)


def is_success(verdict: Verdict, reason: str) -> bool:
    """A run that measured what it should, whatever the numbers are."""
    return verdict in (Verdict.OK, Verdict.DEGRADED) or (
        verdict is Verdict.NOT_EVALUATED and reason == LEARNING
    )
