"""One row a way in which a run can end -> the verdict, the word that metrics carry."""

import pytest

from gpumond.judge.verdict import is_success, judge_run
from gpumond.model.benchmark import ParsedOutput, RejectedRow, Row, TextOutcome, Timing
from gpumond.model.run import Cause, Verdict


def parsed(*, outcome=TextOutcome.OK, wrong=0, rows=1, rejected=()):
    timing = Timing(time_us=10.0, algbw_gbps=100.0, busbw_gbps=100.0, wrong=wrong)
    row = Row(1 << 20, 1 << 18, "float", "sum", -1, timing, timing)
    return ParsedOutput(
        tool="nccl-tests",
        collective="all_reduce",
        ngpus=2,
        nranks=2,
        rows=(row,) * rows,
        avg_busbw_gbps=100.0,
        out_of_bounds=0,
        outcome=outcome,
        error="NCCL failure" if outcome is TextOutcome.FAILED else None,
        rejected=rejected,
    )


BAD_ROW = RejectedRow(line=9, text="...", reason="busbw is not algbw x 1")

TABLE = [
    (Cause.EXITED, 0, parsed(), Verdict.NOT_EVALUATED, "learning"),
    (Cause.EXITED, 7, parsed(outcome=TextOutcome.WRONG_RESULTS, wrong=3), Verdict.FAILED, "wrong_results"),
    (Cause.EXITED, 0, parsed(wrong=1), Verdict.FAILED, "wrong_results"),
    # Corrupt data outranks the way in which the process ended.
    (Cause.ROW_STALLED, -9, parsed(outcome=TextOutcome.TRUNCATED, wrong=1), Verdict.FAILED, "wrong_results"),
    (Cause.NO_FIRST_ROW, -15, parsed(outcome=TextOutcome.TRUNCATED, rows=0), Verdict.FAILED, "no_first_row"),
    (Cause.ROW_STALLED, -15, parsed(outcome=TextOutcome.TRUNCATED), Verdict.FAILED, "row_stalled"),
    (Cause.TOTAL_TIMEOUT, -15, parsed(outcome=TextOutcome.TRUNCATED), Verdict.FAILED, "total_timeout"),
    (Cause.LOST, None, parsed(outcome=TextOutcome.TRUNCATED, rows=0), Verdict.FAILED, "lost"),
    (
        Cause.NOT_STARTED,
        None,
        parsed(outcome=TextOutcome.TRUNCATED, rows=0),
        Verdict.NOT_EVALUATED,
        "not_started",
    ),
    (Cause.CANCELLED, -15, parsed(outcome=TextOutcome.TRUNCATED), Verdict.NOT_EVALUATED, "cancelled"),
    (Cause.PREEMPTED, -9, parsed(outcome=TextOutcome.TRUNCATED), Verdict.NOT_EVALUATED, "preempted"),
    (Cause.ABORTED, None, parsed(outcome=TextOutcome.TRUNCATED), Verdict.NOT_EVALUATED, "aborted"),
    (Cause.OUTPUT_LIMIT, -15, parsed(outcome=TextOutcome.TRUNCATED), Verdict.NOT_EVALUATED, "output_limit"),
    (Cause.EXITED, 3, parsed(outcome=TextOutcome.FAILED, rows=0), Verdict.FAILED, "benchmark_error"),
    (Cause.EXITED, 0, parsed(rows=0), Verdict.NOT_EVALUATED, "no_rows"),
    (Cause.EXITED, 0, parsed(outcome=TextOutcome.TRUNCATED, rows=0), Verdict.NOT_EVALUATED, "no_rows"),
    (Cause.EXITED, 0, parsed(outcome=TextOutcome.TRUNCATED), Verdict.NOT_EVALUATED, "truncated"),
    (Cause.EXITED, -11, parsed(), Verdict.FAILED, "exit_status"),
    (Cause.EXITED, 0, parsed(rejected=(BAD_ROW,)), Verdict.NOT_EVALUATED, "unreadable_rows"),
]


@pytest.mark.parametrize(("cause", "exit_status", "text", "verdict", "reason"), TABLE)
def test_verdict(cause, exit_status, text, verdict, reason):
    judgement = judge_run(cause, exit_status, text)
    assert (judgement.verdict, judgement.reason) == (verdict, reason)
    assert judgement.detail


def test_every_cause_is_in_the_table():
    assert {row[0] for row in TABLE} == set(Cause)


def test_only_a_complete_measurement_is_a_success():
    successes = {(verdict, reason) for _, _, _, verdict, reason in TABLE if is_success(verdict, reason)}
    assert successes == {(Verdict.NOT_EVALUATED, "learning")}
    assert is_success(Verdict.DEGRADED, "step")
