"""The made-up benchmark says what a real one said: otherwise tests that stand on it prove nothing."""

from __future__ import annotations

import re
import subprocess

import pytest
from benchmark_stand_in import CAPTURE_OF, CAPTURES, Ending, Script, calls_of

from gpumond.model.benchmark import TextOutcome
from gpumond.parsers.nccl_tests import parse

RUN_LINE = re.compile(r"minBytes (\d+) maxBytes (\d+) step: (\d+)")


@pytest.fixture
def start(tmp_path, benchmark_stand_in):
    def run(
        *arguments: str, program: str = "all_reduce_perf", script: Script | None = None, environment=None
    ):
        directory = benchmark_stand_in(tmp_path / "bin", {program: script or Script()})
        command = [str(directory / program), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment or {})

    return run


@pytest.mark.parametrize("program", list(CAPTURE_OF))
def test_with_the_arguments_of_a_capture_it_prints_the_capture(start, program):
    capture = (CAPTURES / CAPTURE_OF[program]).read_text()
    low, high, factor = RUN_LINE.search(capture).groups()
    result = start("-b", low, "-e", high, "-f", factor, "-g", "2", program=program)
    assert (result.stdout, result.stderr, result.returncode) == (capture, "", 0)


@pytest.mark.parametrize("program", ["all_reduce_perf", "all_gather_perf"])
@pytest.mark.parametrize("slowdown", [1.0, 1.7])
def test_the_arithmetic_of_made_up_rows_holds(start, program, slowdown):
    script = Script(slowdown=slowdown)
    result = start(
        "-b1M", "-e2G", "-f", "2", "-g2", "-c", "0", "-w", "5", "-n", "20", program=program, script=script
    )
    parsed = parse(result.stdout)
    assert (parsed.outcome, parsed.rejected, parsed.ngpus) == (TextOutcome.OK, (), 2)
    assert [row.bytes for row in parsed.rows] == [2**power for power in range(20, 32)]
    assert all(row.out_of_place.wrong is None for row in parsed.rows)
    assert "warmup iters: 5 iters: 20 agg iters: 1 validation: 0 " in result.stdout


def test_a_slow_link_is_as_slow_as_asked(start):
    arguments = ("-b", "2G", "-e", "2G", "-g", "2")
    (row,) = parse(start(*arguments, script=Script(slowdown=2.0)).stdout).rows
    assert row.out_of_place.busbw_gbps == pytest.approx(338.12 / 2, abs=0.01)


def test_lies_are_told_in_the_row_that_was_asked_for(start):
    script = Script(nan_in_row=1, wrong_in_row=2, wrong_elements=50, false_size_in_row=3)
    arguments = ("-b", "1G", "-e", "4G", "-f", "2", "-g", "2")
    rows = [line.split() for line in start(*arguments, script=script).stdout.splitlines() if line[:1] == " "]
    assert [row[7] for row in rows].count("nan") == 1
    assert rows[0][7] == "nan"
    assert rows[1][8] == "50"
    assert rows[2][0] == str(3 * 4 * 2**30)


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("--nonsense",), 0, "USAGE: all_reduce_perf"),
        (("-h",), 0, "USAGE: all_reduce_perf"),
        (
            ("-b", "2G", "-e", "1G", "-g", "2"),
            255,
            "invalid sizes for 'minbytes' and 'maxbytes': 2147483648 > 107",
        ),
        (("-g", "3"), 5, "Invalid number of GPUs: 3 requested but only 2 were found."),
        (("-g", "1"), 97, "stand-in: the capture is of 2 ranks"),
    ],
)
def test_what_a_real_one_refuses_is_refused(start, arguments, status, text):
    result = start(*arguments)
    assert result.returncode == status
    assert text in result.stdout + result.stderr


def test_gpus_that_are_not_visible_are_not_found(start):
    result = start("-g", "2", environment={"CUDA_VISIBLE_DEVICES": "GPU-1"})
    assert (result.returncode, result.stderr[:43]) == (5, "Invalid number of GPUs: 2 requested but onl")


def test_verbatim_takes_any_capture(start):
    script = Script(capture="ag.out", verbatim=True)
    assert start("-g", "8", script=script).stdout == (CAPTURES / "ag.out").read_text()


def test_a_crash_and_a_status(start):
    result = start("-g2", script=Script(ending=Ending.EXIT, after_row=0, exit_status=3, errors=("a", "b")))
    assert (result.returncode, result.stderr) == (3, "a\nb\n")


def test_every_start_is_noted(tmp_path, start):
    start("-g", "2", environment={"NCCL_DEBUG": "WARN"})
    start("-g", "3")
    calls = calls_of(tmp_path / "bin" / "all_reduce_perf")
    assert [call["arguments"] for call in calls] == [["-g", "2"], ["-g", "3"]]
    assert calls[0]["environment"].items() >= {"NCCL_DEBUG": "WARN"}.items()
