"""Which engine measures, and how it is called; what is missing is said with what to install."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpumond.errors import HostError
from gpumond.model.benchmark import Collective
from gpumond.model.run import Engine, EngineChoice, GpuSet, Purpose
from gpumond.process.ask import Answer
from gpumond.sweep.engines.choice import Engines
from gpumond.sweep.engines.nccl4py import Nccl4pyEngine
from gpumond.sweep.engines.nccl_tests import NcclTests
from gpumond.sweep.engines.torch import TorchEngine
from gpumond.sweep.plan import Parameters, Step, debug_subsystems, sanity_parameters

PARAMETERS = Parameters(
    min_bytes=64 << 20,
    max_bytes=2 << 30,
    step_factor=2,
    datatype="float",
    redop="sum",
    warmup_iterations=5,
    iterations=20,
    check=True,
)
YES = Answer("", "")
NO = Answer("", "", failure="python exited with status 1")


def step(collective=Collective.ALL_REDUCE, purpose=Purpose.MEASUREMENT, **parameters):
    return Step(
        "nightly",
        GpuSet("all", ("GPU-a", "GPU-b")),
        collective,
        replace(PARAMETERS, **parameters),
        purpose=purpose,
    )


@pytest.fixture
def host(tmp_path, monkeypatch):
    """`host(nccl_tests=..., nccl4py=..., torch=..., directory=...)`: an installation with these on it."""
    monkeypatch.setattr("gpumond.sweep.engines.nccl_tests.USUAL_DIRECTORIES", (tmp_path / "usual",))

    def make(*, nccl_tests=False, nccl4py=False, torch=False, directory=None, is_amd=False):
        if nccl_tests:
            (tmp_path / "usual").mkdir()
            (tmp_path / "usual" / "all_reduce_perf").touch(mode=0o755)
        return Engines(
            nccl_tests=NcclTests(directory=directory, is_rccl=is_amd),
            nccl4py=None
            if is_amd
            else Nccl4pyEngine(find_module=lambda _name: object() if nccl4py else None),
            torch=TorchEngine(python=None, ask=lambda _command: YES if torch else NO),
        )

    return make


AUTO = [
    ({"nccl_tests": True, "nccl4py": True, "torch": True}, Engine.NCCL_TESTS, Engine.NCCL4PY),
    ({"nccl_tests": True, "torch": True}, Engine.NCCL_TESTS, Engine.TORCH),
    ({"nccl_tests": True, "torch": True, "is_amd": True}, Engine.RCCL_TESTS, Engine.TORCH),
    ({"nccl4py": True, "torch": True}, Engine.NCCL4PY, Engine.NCCL4PY),
    ({"torch": True}, Engine.TORCH, Engine.TORCH),
    ({"directory": Path("/nowhere"), "torch": True}, Engine.NCCL_TESTS, Engine.TORCH),
]


@pytest.mark.parametrize(("here", "measures", "checks"), AUTO)
def test_auto_takes_the_first_that_is_here(host, here, measures, checks):
    engines = host(**here)
    assert engines.choose(EngineChoice.AUTO, Purpose.MEASUREMENT).name is measures
    assert engines.choose(EngineChoice.AUTO, Purpose.SANITY).name is checks


def test_with_none_of_them_it_is_said_what_to_install(host):
    with pytest.raises(HostError) as raised:
        host().choose(EngineChoice.AUTO, Purpose.MEASUREMENT)
    assert raised.value.message == "there is neither nccl-tests nor nccl4py nor torch on this host"
    for upstream in ("NVIDIA/nccl-tests", "ROCm/rccl-tests", "gpumond[nccl-cu13]", "gpumond[torch]"):
        assert upstream in raised.value.hint
    with pytest.raises(HostError, match="neither nccl4py nor torch"):
        host(nccl_tests=True).choose(EngineChoice.NCCL_TESTS, Purpose.SANITY)


def test_what_is_named_is_taken_or_missed_but_never_replaced(host):
    engines = host(nccl_tests=True, torch=True)
    assert engines.choose(EngineChoice.TORCH, Purpose.MEASUREMENT).name is Engine.TORCH
    with pytest.raises(HostError, match="nccl4py is not installed"):
        engines.choose(EngineChoice.NCCL4PY, Purpose.MEASUREMENT).command(step())
    with pytest.raises(HostError, match="NVIDIA GPUs only"):
        host(is_amd=True).choose(EngineChoice.NCCL4PY, Purpose.MEASUREMENT)


def test_the_command_of_each(host):
    engines = host(nccl4py=True, torch=True)
    ours = engines.nccl4py.command(step()).argv
    assert ours[:4] == (sys.executable, "-I", "-m", "gpumond.sweep.engines.nccl4py_benchmark")
    assert (
        "--collective all_reduce -b 67108864 -e 2147483648 -f 2 -g 2 -w 5 -n 20 -c 1 -d float -o sum"
        in " ".join(ours)
    )
    torch = engines.torch.command(step(Collective.ALL_GATHER)).argv
    assert torch[:2] == (sys.executable, "-s")
    assert Path(torch[2]).name == "torch_benchmark.py"
    assert torch[3:7] == ("--backend", "nccl", "--collective", "all_gather")
    sanity = engines.torch.command(step(purpose=Purpose.SANITY)).argv
    assert "--sanity" in sanity


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (step(Collective.HYPERCUBE), "cannot measure hypercube"),
        (step(Collective.ALLTOALLV), "cannot measure alltoallv"),
        (step(datatype="fp8_e4m3"), "datatype fp8_e4m3"),
        (step(redop="mulsum"), "no reduction mulsum"),
        (step(extra_arguments=("-R", "1")), "extra_arguments: -R 1"),
    ],
)
def test_what_only_nccl_tests_can_do_is_refused_before_anything_runs(host, wanted, said):
    engines = host(nccl4py=True, torch=True)
    for engine in (engines.nccl4py, engines.torch):
        with pytest.raises(HostError, match=said) as raised:
            engine.command(wanted)
        assert "nccl-tests" in raised.value.hint


def test_an_interpreter_is_asked_once(tmp_path):
    asked = []
    engine = TorchEngine(python=None, ask=lambda command: asked.append(command) or YES)
    engine.command(step())
    engine.command(step())
    assert len(asked) == 1


def test_an_interpreter_that_cannot_be_used_is_named(tmp_path):
    missing = TorchEngine(python=tmp_path / "python", ask=lambda _command: YES)
    with pytest.raises(HostError, match="there is no Python at"):
        missing.find()
    (tmp_path / "python").touch(mode=0o644)
    with pytest.raises(HostError, match="is not executable"):
        missing.find()
    broken = Answer("", "Traceback\nImportError: libpython3.so: cannot open", failure="exited with status 1")
    with pytest.raises(HostError, match=r"has no torch: ImportError: libpython3\.so"):
        TorchEngine(python=None, ask=lambda _command: broken).find()


def test_nccl_tells_its_choices_where_that_costs_nothing():
    assert debug_subsystems(step()) == ("INIT", "ENV", "TUNING")
    assert debug_subsystems(step(min_bytes=8)) == ("INIT", "ENV")


def test_a_sanity_check_keeps_only_what_belongs_to_the_host():
    ours = replace(
        PARAMETERS,
        datatype="half",
        redop="max",
        environment=(("NCCL_ALGO", "Ring"),),
        extra_arguments=("-R", "1"),
    )
    assert sanity_parameters(ours) == replace(
        sanity_parameters(PARAMETERS), environment=(("NCCL_ALGO", "Ring"),)
    )


def test_a_launcher_is_told_how_many_gpus_there_are_and_each_process_has_one(tmp_path):
    program = tmp_path / "all_reduce_perf"
    program.touch(mode=0o755)
    one = NcclTests(directory=tmp_path, launcher=("numactl", "--localalloc")).command(step()).argv
    assert one[:3] == ("numactl", "--localalloc", str(program))
    assert one[one.index("-g") + 1] == "2"
    many = NcclTests(directory=tmp_path, launcher=("mpirun", "-np", "{gpus}"), is_process_per_gpu=True)
    argv = many.command(step()).argv
    assert argv[:4] == ("mpirun", "-np", "2", str(program))
    assert argv[argv.index("-g") + 1] == "1"
