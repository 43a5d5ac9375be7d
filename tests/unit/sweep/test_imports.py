"""A log of somebody else's benchmark as a run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpumond.errors import NotEvaluatedError, UsageError
from gpumond.model.benchmark import Collective
from gpumond.model.run import Engine, Purpose, Trigger, Verdict
from gpumond.parsers.nccl_log import parse_nccl_log
from gpumond.parsers.nccl_tests import parse
from gpumond.sweep.imports import ImportedLog, run_of_log

CAPTURES = Path(__file__).parents[2] / "data" / "captures" / "h200x2"
AT = datetime(2026, 11, 1, 2, 0, tzinfo=UTC)


def log_of(text, **changes):
    return ImportedLog("ar.out", parse(text), parse_nccl_log(text), AT, **changes)


def run_of(log):
    return run_of_log(log, sweep_id="s", run_id="r")


def test_rows_and_transport_are_kept_and_nothing_is_judged():
    sweep, run = run_of(log_of((CAPTURES / "ar_dbg.out").read_text(), sweep="nightly", gpu_set="all"))
    assert (sweep.name, sweep.trigger, sweep.outcome) == ("nightly", Trigger.IMPORT, "success")
    assert (run.engine, run.collective, run.purpose) == (
        Engine.NCCL_TESTS,
        Collective.ALL_REDUCE,
        Purpose.IMPORTED,
    )
    assert (run.verdict, run.reason) == (Verdict.NOT_EVALUATED, "imported")
    assert run.started_at == run.ended_at == AT
    assert len(run.points) == 8
    assert run.transport.summary == "P2P/direct:48"
    assert run.library_version == "2.28.9"


def test_a_text_without_rows_is_refused():
    with pytest.raises(NotEvaluatedError, match="holds no row"):
        run_of(log_of((CAPTURES / "ar_bad.out").read_text()))


def test_a_text_that_does_not_say_what_it_measured_needs_a_word():
    text = "\n".join(
        line for line in (CAPTURES / "ar_c0.out").read_text().splitlines() if "all_reduce" not in line
    )
    with pytest.raises(UsageError, match="which collective") as raised:
        run_of(log_of(text))
    assert "--collective" in raised.value.hint
    _, run = run_of(log_of(text, collective=Collective.ALL_REDUCE))
    assert run.points[0].wrong_elements is None
    with pytest.raises(UsageError, match="says that it measured all_reduce"):
        run_of(log_of((CAPTURES / "ar_c0.out").read_text(), collective=Collective.BROADCAST))


def test_ranks_and_collective_keep_imported_series_apart():
    log = log_of((CAPTURES / "ar_c0.out").read_text())
    _, two = run_of(log)
    _, eight = run_of(replace(log, parsed=replace(log.parsed, nranks=8)))
    assert two.parameters_hash != eight.parameters_hash
