"""Every way in which a sweep can go is one stored outcome, with its evidence and without a leftover."""

import threading

import pytest
from benchmark_stand_in import NO_ROWS, Ending, Script, calls_of

from gpumond.clock import SystemClock
from gpumond.errors import NotEvaluatedError
from gpumond.guards.lock import hold_lock
from gpumond.model.benchmark import Collective, Placement
from gpumond.model.run import Cause, SweepOutcome, Verdict
from gpumond.process.supervisor import Cancellation
from gpumond.sweep.events import RowMeasured, RunFinished, RunStarted, SweepFinished, SweepStarted
from gpumond.sweep.plan import Deadlines


def test_a_healthy_sweep_is_stored_row_by_row_as_printed(host):
    report = host.sweep(Collective.ALL_REDUCE, Collective.ALL_GATHER)
    assert report.sweep.outcome is SweepOutcome.SUCCESS
    reduce_run, gather_run = report.runs
    assert (reduce_run.verdict, reduce_run.reason) == (Verdict.NOT_EVALUATED, "learning")
    last = [point for point in reduce_run.points if point.size_bytes == 2 << 30]
    assert {point.placement: point.busbw_bytes_per_second for point in last} == {
        Placement.OUT_OF_PLACE: 338.12e9,
        Placement.IN_PLACE: 339.47e9,
    }
    assert gather_run.collective is Collective.ALL_GATHER
    assert host.store.run(reduce_run.id) == reduce_run
    assert host.store.sweep(report.sweep.id) == report.sweep
    assert b"Avg bus bandwidth" in host.store.raw_output(reduce_run.id)


def test_events_come_in_order_and_rows_as_they_are_printed(host):
    host.sweep()
    kinds = [type(event) for event in host.events]
    assert kinds[:2] == [SweepStarted, RunStarted]
    assert kinds[-2:] == [RunFinished, SweepFinished]
    assert kinds[2:-2] == [RowMeasured] * 29


def test_the_benchmark_sees_the_allow_list_and_nothing_else(host):
    report = host.sweep()
    (call,) = calls_of(host.programs / "all_reduce_perf")
    environment = call["environment"]
    uuids = ",".join(gpu.uuid for gpu in host.snapshot.gpus)
    assert environment["CUDA_VISIBLE_DEVICES"] == uuids
    assert "NCCL_ALGO" not in environment
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert "s3cret" not in repr(host.store.run(report.runs[0].id))
    assert not list((host.directory / "runs").iterdir())


BAD_BENCHMARKS = {
    "no rows": (NO_ROWS, SweepOutcome.FAILURE, Verdict.NOT_EVALUATED, "no_rows"),
    "usage text, exit 0": (Script(usage=True), SweepOutcome.FAILURE, Verdict.FAILED, "benchmark_error"),
    "nan": (Script(nan_in_row=5), SweepOutcome.FAILURE, Verdict.NOT_EVALUATED, "unreadable_rows"),
    "a lie about a size": (
        Script(false_size_in_row=29),
        SweepOutcome.FAILURE,
        Verdict.NOT_EVALUATED,
        "unreadable_rows",
    ),
    "wrong data": (
        Script(wrong_in_row=29, wrong_elements=7),
        SweepOutcome.FAILURE,
        Verdict.FAILED,
        "wrong_results",
    ),
    "a crash": (
        Script(ending=Ending.SIGNAL, after_row=3),
        SweepOutcome.FAILURE,
        Verdict.NOT_EVALUATED,
        "truncated",
    ),
    "a flood": (
        Script(ending=Ending.FLOOD, after_row=3),
        SweepOutcome.FAILURE,
        Verdict.NOT_EVALUATED,
        "output_limit",
    ),
}


@pytest.mark.parametrize(
    ("script", "outcome", "verdict", "reason"), BAD_BENCHMARKS.values(), ids=BAD_BENCHMARKS
)
def test_a_bad_benchmark_is_a_reason_and_never_a_number(host, script, outcome, verdict, reason):
    host.install(all_reduce=script)
    report = host.sweep()
    (run,) = report.runs
    assert (report.sweep.outcome, run.verdict, run.reason) == (outcome, verdict, reason)
    assert report.sweep.reason == reason
    assert host.store.latest_points() == () or run.verdict is Verdict.FAILED
    assert host.store.open_runs() == ()


@pytest.mark.parametrize(
    ("script", "deadlines", "reason"),
    [
        (Script(ending=Ending.HANG, after_row=0), Deadlines(first_row_seconds=1), "no_first_row"),
        (Script(ending=Ending.HANG, after_row=3), Deadlines(row_seconds=1), "row_stalled"),
        (Script(ending=Ending.HALF_ROW_HANG, after_row=3), Deadlines(row_seconds=1), "row_stalled"),
        (Script(seconds_per_row=0.2), Deadlines(total_seconds=2), "total_timeout"),
    ],
)
def test_a_hang_is_called_by_its_name_and_ended(host, script, deadlines, reason):
    host.install(all_reduce=script)
    report = host.sweep(deadlines=deadlines)
    run = report.runs[0]
    assert (run.verdict, run.reason) == (Verdict.FAILED, reason)
    assert run.cause is Cause(reason)


def test_a_missing_program_and_one_that_cannot_be_run_stop_the_sweep_before_it_begins(host):
    host.programs.joinpath("all_gather_perf").unlink()
    report = host.sweep(Collective.ALL_REDUCE, Collective.ALL_GATHER)
    assert (report.sweep.outcome, report.sweep.reason) == (SweepOutcome.FAILURE, "environment")
    assert "all_gather_perf is not in" in report.sweep.detail
    assert report.runs == ()
    host.programs.joinpath("all_reduce_perf").chmod(0o644)
    report = host.sweep()
    assert report.sweep.reason == "environment" or report.runs[0].cause is Cause.NOT_STARTED


def test_a_file_that_is_no_program_is_not_started(host):
    host.programs.joinpath("all_reduce_perf").write_bytes(b"\x7fELF garbage")
    (run,) = host.sweep().runs
    assert (run.verdict, run.cause) == (Verdict.NOT_EVALUATED, Cause.NOT_STARTED)
    assert run.detail


def test_a_busy_gpu_refuses_with_its_evidence(host):
    host.show("gpu_busy,gpu=1,pid=4711")
    report = host.sweep()
    assert (report.sweep.outcome, report.sweep.reason) == (SweepOutcome.SKIPPED, "busy")
    assert "pid 4711" in report.sweep.detail
    assert calls_of(host.programs / "all_reduce_perf") == []
    assert host.store.sweep_history("nightly").skips == {"busy": 1}


def test_the_machine_wide_lock_refuses_and_names_its_holder(host):
    with hold_lock(host.lock_file, purpose="somebody's benchmark", clock=SystemClock()):
        report = host.sweep()
    assert (report.sweep.outcome, report.sweep.reason) == (SweepOutcome.SKIPPED, "locked")
    assert "somebody's benchmark" in report.sweep.detail


def test_without_a_snapshot_nothing_is_measured(host):
    host.snapshot = NotEvaluatedError("no topology snapshot: it took longer than 20 s")
    report = host.sweep()
    assert (report.sweep.outcome, report.sweep.reason) == (SweepOutcome.SKIPPED, "no_snapshot")


def test_a_full_disk_is_noticed_before_the_benchmark_runs(host):
    host.min_free_bytes = 1 << 60
    report = host.sweep()
    assert (report.sweep.outcome, report.sweep.reason) == (SweepOutcome.SKIPPED, "disk_full")
    assert calls_of(host.programs / "all_reduce_perf") == []


def test_a_cancelled_sweep_is_no_failure_and_starts_nothing_more(host):
    host.install(all_reduce=Script(ending=Ending.HANG, after_row=3), all_gather=Script())
    cancellation = Cancellation()
    threading.Timer(1.5, lambda: cancellation.cancel(reason="stop it")).start()
    report = host.sweep(Collective.ALL_REDUCE, Collective.ALL_GATHER, cancellation=cancellation)
    assert (report.sweep.outcome, report.sweep.reason) == (SweepOutcome.SKIPPED, "cancelled")
    assert [run.cause for run in report.runs] == [Cause.CANCELLED]
    assert calls_of(host.programs / "all_gather_perf") == []
