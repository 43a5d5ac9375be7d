"""The simulator's programs as processes: what they print, how they end, how they misbehave on request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from gpumond import codec
from gpumond.model.benchmark import Collective, TextOutcome
from gpumond.model.topology import Snapshot
from gpumond.parsers.nccl_tests import parse
from gpumond.simulate.benchmark import main
from gpumond.simulate.scenario import load_scenario

FAST = "10000"


def program(name, *arguments, environment=None):
    return subprocess.Popen(
        [sys.executable, "-m", f"gpumond.simulate.{name}", *arguments],
        env=os.environ | {"GPUMOND_SIMULATE_SEED": "7"} | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(child):
    output, errors = child.communicate(timeout=60)
    return child.returncode, output, errors


def benchmark(*arguments, scenario="hgx-h200-8", collective="all_reduce", pace=FAST, environment=None):
    fixed = ("--scenario", scenario, "--collective", collective, "--pace", pace)
    return program("benchmark", *fixed, *arguments, environment=environment)


SWEEP = ("-b", "1M", "-e", "1G", "-f", "8", "-g", "8", "-w", "1", "-n", "20", "-c", "1", "-d", "float")


def test_a_snapshot_is_one_json_document():
    status, output, errors = ended(program("probe", "hgx-h200-8", "--with-errors"))
    snapshot = codec.decode(Snapshot, output)
    assert (status, errors, output.count("\n")) == (0, "", 1)
    assert (snapshot.simulated, len(snapshot.gpus), len(snapshot.nics)) == ("hgx-h200-8", 8, 8)
    assert snapshot.duration_seconds > 0


def test_faults_of_the_command_line_begin_when_they_are_due():
    started = time.time() - 5
    arguments = ("h200-2-vm", "--fault", "gpu_lost,gpu=1,after_seconds=60", "--started-at")
    early = codec.decode(Snapshot, ended(program("probe", *arguments, str(started)))[1])
    late = codec.decode(Snapshot, ended(program("probe", *arguments, str(started - 60)))[1])
    assert [len(early.gpus), len(late.gpus), len(late.silent_gpus)] == [2, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hgx-h200",), "unknown scenario 'hgx-h200'\nDid you mean hgx-h200-8?\n"),
        (("hgx-h200-8", "--fault", "gpu_lost,gpu=8"), "fault_targets_exist: gpu_lost strikes GPU 8 of 8"),
    ],
)
def test_a_probe_that_cannot_be_obeyed(arguments, message):
    status, output, errors = ended(program("probe", *arguments))
    assert (status, output) == (2, "")
    assert message in errors


def test_a_probe_that_crashes():
    status, output, _ = ended(
        program("probe", "hgx-h200-8", "--fault", "call_crashes,call=nvmlDeviceGetName")
    )
    assert (status, output) == (-signal.SIGSEGV, "")


def test_a_probe_that_hangs_ends_by_sigkill_only():
    child = program("probe", "hgx-h200-8", "--fault", "call_hangs,call=nvmlDeviceGetName")
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=3)
        child.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=0.5)
    finally:
        child.kill()
    assert ended(child)[:2] == (-signal.SIGKILL, "")


@pytest.mark.parametrize("collective", [it.value for it in Collective])
def test_the_parser_accepts_every_row(capsys, collective):
    status = main(["--scenario", "hgx-h200-8", "--collective", collective, "--pace", FAST, *SWEEP])
    output, errors = capsys.readouterr()
    parsed = parse(output)
    assert (status, errors) == (0, "")
    assert (parsed.outcome, parsed.rejected, parsed.out_of_bounds) == (TextOutcome.OK, (), 0)
    assert (parsed.collective, parsed.nranks, parsed.ngpus) == (collective, 8, 8)
    assert [row.bytes for row in parsed.rows] == [1 << 20, 1 << 23, 1 << 26, 1 << 29]
    assert "(simulated)" in output


def test_on_amd_the_text_is_that_of_rccl_tests():
    world = load_scenario("mi300x-8")
    chosen = {
        "ROCR_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in world.gpus[:2]),
        "CUDA_VISIBLE_DEVICES": "",
    }
    sizes = ("-b", "1M", "-e", "4G", "-f", "8")
    parsed = [
        parse(ended(benchmark(*sizes, "-g", ranks, scenario="mi300x-8", environment=environment))[1])
        for ranks, environment in (("8", None), ("2", chosen))
    ]
    assert [(it.outcome, it.tool, it.nranks, it.rejected) for it in parsed] == [
        (TextOutcome.OK, "rccl-tests", ranks, ()) for ranks in (8, 2)
    ]
    # Public results at 4 GiB: 312.9 with eight GPUs, 47.7 with two, whose one link cannot be pooled with others.
    busbw = [it.rows[-1].out_of_place.busbw_gbps for it in parsed]
    assert busbw == pytest.approx([313, 47.7], rel=0.02)


def test_small_sizes_too():
    parsed = parse(ended(benchmark("-b", "8", "-e", "64K", "-f", "2", "-g", "8", collective="all_gather"))[1])
    assert (len(parsed.rows), parsed.rejected) == (14, ())
    assert parsed.rows[0].bytes == 0


def test_the_seed_decides_the_noise():
    same = [ended(benchmark(*SWEEP))[1] for _ in range(2)]
    other = ended(benchmark(*SWEEP, environment={"GPUMOND_SIMULATE_SEED": "8"}))[1]
    rows = [parse(text).rows for text in (*same, other)]
    assert rows[0] == rows[1] != rows[2]


def test_cuda_visible_devices_decides_the_gpus():
    gpus = load_scenario("hgx-h200-8").gpus
    chosen = {"CUDA_VISIBLE_DEVICES": f"{gpus[6].uuid},{gpus[2].uuid}"}
    status, output, _ = ended(benchmark("-g", "2", "-b", "1M", "-e", "1M", environment=chosen))
    ranks = [line for line in output.splitlines() if line.startswith("#  Rank")]
    assert status == 0
    assert [
        gpu.pci_bus_id.partition(".")[0] in line for gpu, line in zip((gpus[6], gpus[2]), ranks, strict=True)
    ] == [
        True,
        True,
    ]
    status, output, errors = ended(benchmark("-g", "3", environment=chosen))
    assert (status, parse(output).rows) == (5, ())
    assert "3 requested but only 2 were found" in errors


def test_wrong_results():
    status, output, _ = ended(benchmark(*SWEEP, "--fault", "wrong_elements,count=1048576"))
    parsed = parse(output)
    assert (status, parsed.outcome, parsed.out_of_bounds) == (7, TextOutcome.WRONG_RESULTS, 8)
    assert {row.out_of_place.wrong for row in parsed.rows} == {1048580}
    unchecked = parse(ended(benchmark(*SWEEP, "-c", "0", "--fault", "wrong_elements,count=3"))[1])
    assert (unchecked.outcome, {row.in_place.wrong for row in unchecked.rows}) == (TextOutcome.OK, {None})


@pytest.mark.parametrize(
    ("fault", "status", "rows"),
    [("benchmark_fails,rows=2", 2, 2), ("benchmark_fails", 2, 0), ("fabric_in_progress", 2, 0)],
)
def test_a_run_that_fails(fault, status, rows):
    ended_with, output, _ = ended(benchmark(*SWEEP, "--fault", fault))
    parsed = parse(output)
    assert (ended_with, parsed.outcome, len(parsed.rows)) == (status, TextOutcome.FAILED, rows)
    assert "CUDA" in parsed.error


def test_options_that_nccl_tests_does_not_take():
    status, output, _ = ended(benchmark("--nonsense"))
    assert status == 0
    assert output.startswith("USAGE: all_reduce_perf")
    status, output, errors = ended(benchmark("-b", "2G", "-e", "1G", "-g", "8"))
    assert (status, output) == (255, "")
    assert errors == "invalid sizes for 'minbytes' and 'maxbytes': 2147483648 > 1073741824\n"


def test_rows_come_one_by_one_and_a_hang_stays():
    child = benchmark(*SWEEP, "--fault", "benchmark_hangs,rows=2", pace="100")
    try:
        rows = []
        while len(rows) < 2:
            line = child.stdout.readline()
            assert line
            rows += [line] if line.strip()[:1].isdigit() else []
        time.sleep(0.5)
        child.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=0.5)
    finally:
        child.kill()
    status, rest, _ = ended(child)
    assert (status, rest) == (-signal.SIGKILL, "")


def test_the_pace_is_a_factor():
    """At pace 2 the start alone takes 0.8 s."""
    began = time.monotonic()
    ended(benchmark(*SWEEP, pace=FAST))
    at_once = time.monotonic() - began
    began = time.monotonic()
    ended(benchmark(*SWEEP, pace="2"))
    assert time.monotonic() - began > at_once + 0.5
