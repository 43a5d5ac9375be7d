"""The nccl4py benchmark as a process, over fakes of NCCL's and CUDA's bindings whose GPUs are host memory."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpumond.model.benchmark import Collective, TextOutcome
from gpumond.model.run import Engine, Purpose, SweepOutcome, Trigger, Verdict
from gpumond.parsers.nccl_tests import parse
from gpumond.process.supervisor import Cancellation
from gpumond.sweep.engines.engine import EngineCommand
from gpumond.sweep.engines.nccl4py import MODULE
from gpumond.sweep.engines.own import own_arguments
from gpumond.sweep.engines.torch_benchmark import COLLECTIVES
from gpumond.sweep.plan import Parameters, SweepSpec
from gpumond.sweep.runner import SweepRunner

FAKES = Path(__file__).parents[2] / "fakes" / "nccl4py"


def measure(*arguments, collective="all_reduce", gpus=3, **environment):
    """(exit status, what it printed)."""
    result = subprocess.run(
        [
            *(sys.executable, "-m", MODULE, "--collective", collective, "-g", str(gpus)),
            *("-b", "12000", "-e", "12000", "-n", "2", *arguments),
        ],
        env={"PYTHONPATH": str(FAKES), "FAKE_GPUS": str(gpus), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stderr == ""
    return result.returncode, result.stdout


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_moves_the_right_data_in_every_form(collective):
    status, text = measure(collective=collective)
    parsed = parse(text)
    assert (status, parsed.outcome, parsed.tool) == (0, TextOutcome.OK, "gpumond-nccl4py")
    (row,) = parsed.rows
    timings = [timing for timing in (row.out_of_place, row.in_place) if timing is not None]
    assert len(timings) == (1 if collective in ("alltoall", "sendrecv", "gather", "scatter") else 2)
    assert [(timing.wrong, timing.time_us) for timing in timings] == [(0, 1_000_000.0)] * len(timings)
    assert parsed.library_version == "2.28.9"


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_one_spoiled_element_on_one_rank_is_counted(collective):
    status, text = measure(collective=collective, FAKE_NCCL_FAULT="corrupt")
    parsed = parse(text)
    if collective in ("gather", "reduce"):
        assert parsed.rows[0].out_of_place.wrong == 0  # the last rank receives nothing there
        return
    assert (status, parsed.outcome) == (7, TextOutcome.WRONG_RESULTS)
    assert parsed.rows[0].out_of_place.wrong == 1


@pytest.mark.parametrize("datatype", ["int8", "int32", "int64", "double"])
@pytest.mark.parametrize("redop", ["sum", "prod", "min", "max"])
def test_types_and_reductions(datatype, redop):
    status, text = measure("-d", datatype, "-o", redop)
    (row,) = parse(text).rows
    assert (status, row.out_of_place.wrong, row.in_place.wrong) == (0, 0, 0)


def test_before_2_28_alltoall_is_made_of_messages():
    status, text = measure(collective="alltoall", FAKE_NCCL_VERSION="22703")
    assert (status, parse(text).rows[0].out_of_place.wrong) == (0, 0)


def test_sizes_end_where_the_memory_does():
    status, text = measure("-e", "48000", FAKE_FREE_BYTES=str((128 << 20) + 60_000))
    parsed = parse(text)
    assert (status, [row.bytes for row in parsed.rows]) == (0, [12_000, 24_000])


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        ((), {"FAKE_NCCL_FAULT": "fail"}, "NCCLError: unhandled cuda error"),
        (("-g", "5"), {}, "5 GPUs are wanted, 3 are visible"),
        ((), {"PYTHONPATH": ""}, "No module named 'cuda'"),
    ],
)
def test_whatever_goes_wrong_is_one_line(arguments, environment, said):
    status, text = measure(*arguments, **environment)
    parsed = parse(text)
    assert (status, parsed.outcome, parsed.rows) == (3, TextOutcome.FAILED, ())
    assert said in parsed.error


class FakedNccl4py:
    """The engine, but for `-I`, which would keep the fakes out."""

    name = Engine.NCCL4PY

    def __init__(self, **environment):
        self._environment = [
            f"{name}={value}" for name, value in ({"PYTHONPATH": str(FAKES)} | environment).items()
        ]

    def command(self, step):
        program = (sys.executable, "-m", MODULE)
        return EngineCommand(("/usr/bin/env", *self._environment, *program, *own_arguments(step, self.name)))


SMALL = Parameters(
    min_bytes=1 << 20,
    max_bytes=1 << 20,
    step_factor=2,
    datatype="int32",
    redop="sum",
    warmup_iterations=0,
    iterations=2,
    check=True,
)


def sweep(host, engine, *collectives):
    spec = SweepSpec("nightly", ("all",), collectives, SMALL, has_sanity_check=True)
    context = replace(host.context(), engine_for=lambda _step, _snapshot: engine)
    return SweepRunner(context).run(spec, trigger=Trigger.COMMAND, cancellation=Cancellation())


def test_a_sweep_begins_with_the_sum_and_keeps_the_transport(host):
    report = sweep(host, FakedNccl4py(), Collective.ALL_REDUCE)
    check, measured = report.runs
    assert (report.sweep.outcome, report.sweep.planned_runs) == (SweepOutcome.SUCCESS, 2)
    assert (check.purpose, check.verdict, check.detail) == (
        Purpose.SANITY,
        Verdict.OK,
        "every rank saw the sum of all",
    )
    assert "--sanity" in check.command
    assert (measured.purpose, measured.reason) == (Purpose.MEASUREMENT, "learning")
    assert measured.transport.channels == {"P2P/CUMEM": 2}
    assert host.store.run(measured.id) == measured
    assert b"via P2P/CUMEM" in host.store.raw_output(measured.id)
    (current,) = host.store.latest_points()
    assert (current.engine, current.datatype) == (Engine.NCCL4PY, "int32")
    (transport,) = host.store.latest_transports()
    assert (transport.collective, transport.channels) == (Collective.ALL_REDUCE, {"P2P/CUMEM": 2})


def test_a_wrong_sum_is_a_failed_sweep(host):
    report = sweep(host, FakedNccl4py(FAKE_NCCL_FAULT="corrupt"))
    (check,) = report.runs
    assert (check.verdict, check.reason) == (Verdict.FAILED, "wrong_results")
    assert (report.sweep.outcome, report.sweep.reason) == (SweepOutcome.FAILURE, "wrong_results")
    assert host.store.latest_points() == ()
