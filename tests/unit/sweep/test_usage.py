"""What a build of nccl-tests says that it can, and what is asked of it in vain."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.errors import HostError
from gpumond.model.benchmark import Collective
from gpumond.model.run import GpuSet
from gpumond.process.ask import Answer
from gpumond.sweep.engines.nccl_tests import NcclTests
from gpumond.sweep.engines.usage import Usage, options_of
from gpumond.sweep.plan import Parameters, Step

CAPTURE = (Path(__file__).parents[2] / "data/captures/h200x2/ar_bad.out").read_text()
OLD = "USAGE: all_reduce_perf \n\t[-b,--minbytes <min>] \n\t[-c,--check <0/1>] \n\t[-h,--help]\n"


def test_a_real_usage_text():
    options = options_of(CAPTURE)
    assert {"-b", "--minbytes", "-R", "--local_register", "-I", "-K", "-T", "--help"} <= options
    assert not {"-P", "-iteration", "--nonsense"} & options


@given(st.text())
def test_any_text_is_read(text):
    options_of(text)


class Asked:
    def __init__(self, text=OLD, failure=""):
        self.commands = []
        self.text, self.failure = text, failure

    def __call__(self, command):
        self.commands.append(command)
        return Answer(self.text, "", self.failure)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "all_reduce_perf"
    path.touch(mode=0o755)
    return path


@pytest.mark.parametrize(
    ("arguments", "unknown"),
    [
        ((), ""),
        (("-c", "1"), ""),
        (("-R", "1"), "-R"),
        (("--check=1", "--local_register=1"), "--local_register"),
        (("7",), ""),
    ],
)
def test_the_first_option_that_it_does_not_have(program, arguments, unknown):
    assert Usage(Asked()).unknown(program, arguments) == unknown


def test_it_is_asked_once_and_only_where_there_is_a_question(program):
    asked = Asked()
    usage = Usage(asked)
    usage.unknown(program, ("8",))
    assert asked.commands == []
    for _ in range(3):
        usage.unknown(program, ("-R", "1"))
    assert asked.commands == [(str(program), "-h")]
    program.write_text("another build")
    usage.unknown(program, ("-R", "1"))
    assert len(asked.commands) == 2


def test_a_program_that_does_not_say_is_not_in_the_way(program):
    assert Usage(Asked("", failure="it does not start")).unknown(program, ("-R", "1")) == ""


def test_a_sweep_with_an_option_that_the_build_does_not_have_says_so(program):
    parameters = Parameters(8, 8, 2, "float", "sum", 1, 1, check=True, extra_arguments=("-R", "1"))
    step = Step("nightly", GpuSet("all", ("GPU-a",)), Collective.ALL_REDUCE, parameters)
    engine = NcclTests(directory=program.parent, usage=Usage(Asked()))
    with pytest.raises(HostError, match="has no option -R, which extra_arguments gives it") as raised:
        engine.command(step)
    assert "-h` lists" in raised.value.hint
    assert NcclTests(directory=program.parent, usage=Usage(Asked(CAPTURE))).command(step).argv[-2:] == (
        "-R",
        "1",
    )
