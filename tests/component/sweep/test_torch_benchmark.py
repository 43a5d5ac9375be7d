"""The torch benchmark with a real torch: two processes over gloo. `make test-torch` runs these, and only that does.

The interpreter is GPUMOND_TEST_TORCH_PYTHON, or that of .venv-torch.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gpumond.clock import SystemClock
from gpumond.model.benchmark import TextOutcome
from gpumond.model.run import GpuSet, Purpose
from gpumond.parsers.nccl_tests import parse
from gpumond.process.ask import ask
from gpumond.sweep.engines.torch import PROGRAM, TorchEngine
from gpumond.sweep.engines.torch_benchmark import COLLECTIVES
from gpumond.sweep.plan import Collective, Parameters, Step

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

LARGE = 64 << 20
"""Ten launches of gloo on a busy machine take a few milliseconds; this takes longer."""


@pytest.fixture(scope="session")
def python():
    default = Path(__file__).parents[3] / ".venv-torch" / "bin" / "python"
    path = Path(os.environ.get("GPUMOND_TEST_TORCH_PYTHON", default))
    assert path.exists(), f"{path} is missing: `make test-torch` makes it"
    return path


@pytest.fixture
def measure(python):
    """`measure(*arguments)` -> exit status, what it said."""

    def run(*arguments, **environment):
        result = subprocess.run(
            [python, PROGRAM, "--backend", "gloo", "-w", "0", "-n", "1", *arguments],
            env={"PATH": "/usr/bin:/bin", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        return result.returncode, parse(result.stdout), result.stdout

    return run


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_moves_the_right_data(measure, collective):
    sizes = ("-b", str(LARGE), "-e", str(LARGE), "-g", "2")
    status, parsed, text = measure("--collective", collective, *sizes)
    assert (status, parsed.outcome, parsed.tool) == (0, TextOutcome.OK, "gpumond-torch"), text
    assert (parsed.collective, parsed.nranks, parsed.rejected) == (collective, 2, ())
    (row,) = parsed.rows
    timing = row.out_of_place or row.in_place
    assert (row.bytes, timing.wrong) == (LARGE, 0)
    assert "torch-" in parsed.tool_version


def test_a_sanity_check_with_three_ranks(measure):
    status, parsed, text = measure(
        "--collective", "all_reduce", "--sanity", "-b", "4096", "-e", "4096", "-g", "3"
    )
    (row,) = parsed.rows
    assert (status, row.in_place.wrong, parsed.nranks) == (0, 0, 3), text


def test_small_sizes_are_left_out_and_said(measure):
    status, parsed, text = measure("--collective", "all_reduce", "-b", "64", "-e", "64", "-g", "2")
    assert (status, parsed.rows, parsed.outcome) == (0, (), TextOutcome.OK), text
    assert "# size 64: left out" in text


def test_a_rank_that_fails_ends_all_of_them(measure):
    began = time.monotonic()
    status, parsed, text = measure(
        "--collective", "all_reduce", "-b", "1000000000000", "-e", "1000000000000", "-g", "2"
    )
    assert (status, parsed.outcome) == (3, TextOutcome.FAILED), text
    assert parsed.error.startswith("rank ")
    assert time.monotonic() - began < 120


def test_a_host_without_gpus_is_no_host_for_nccl(measure):
    status, parsed, text = measure("--backend", "nccl", "--collective", "all_reduce", "-g", "2")
    assert (status, parsed.outcome) == (3, TextOutcome.FAILED), text
    assert "sees no GPU" in parsed.error


def test_ranks_do_not_outlive_their_launcher(python):
    process = subprocess.Popen(
        [python, PROGRAM, "--backend", "gloo", "--collective", "all_reduce", "-n", "1000000", "-g", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    children = wait_for(lambda: children_of(process.pid), 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: [pid for pid in children if is_alive(pid)], 0)


def wait_for(look, count):
    give_up = time.monotonic() + 30
    while len(found := look()) != count:
        assert time.monotonic() < give_up, found
        time.sleep(0.05)
    return found


def children_of(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_engine_asks_the_interpreter_whether_it_has_torch(python):
    def question(command):
        return ask(command, environment={"PATH": "/usr/bin:/bin"}, deadline_seconds=60, clock=SystemClock())

    parameters = Parameters(LARGE, LARGE, 2, "float", "sum", 0, 1, check=True)
    step = Step("s", GpuSet("all", ("a", "b")), Collective.ALL_REDUCE, parameters, purpose=Purpose.SANITY)
    command = TorchEngine(python=python, ask=question, backend="gloo").command(step)
    assert command.argv[0] == str(python)
    assert "--sanity" in command.argv
