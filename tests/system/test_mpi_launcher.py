"""A process for each GPU, started by a real mpirun: its rows are read, and nothing of it outlives a hang.

The benchmark is the stand-in; of its ranks only the first prints, as with nccl-tests built with MPI.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from benchmark_stand_in import Ending, Script
from daemon_process import pids_with

from gpumond.simulate.scenario import load_scenario

pytestmark = pytest.mark.system

CONFIG = """
[engines.nccl_tests]
directory = "{directory}"
launcher = ["/usr/bin/mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "{{gpus}}"]
process_per_gpu = true
[[sweep]]
name = "ranks"
collectives = ["all_reduce"]
min_size = "8"
row_deadline = "{row_deadline}"
"""
RANK = """#!/bin/sh
if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then
    echo "$OMPI_COMM_WORLD_SIZE ranks: $*" >{directory}/called
    exec {directory}/printing/all_reduce_perf $(echo "$*" | sed "s/-g 1/-g 2/")
fi
exec sleep {seconds}
"""
"""The stand-in replays one process of two GPUs, and refuses to be anything else."""


@pytest.fixture
def sweep(tmp_path, write_config, benchmark_stand_in, fake_nvml):
    """`sweep(script)`: what one sweep by hand said, as JSON, and its exit status."""

    def run(script, *, seconds, row_deadline="60s"):
        benchmark_stand_in(tmp_path / "printing", {"all_reduce_perf": script})
        program = tmp_path / "all_reduce_perf"
        program.write_text(RANK.format(directory=tmp_path, seconds=seconds))
        program.chmod(0o755)
        config = write_config(CONFIG.format(directory=tmp_path, row_deadline=row_deadline))
        done = subprocess.run(
            [sys.executable, "-m", "gpumond", "sweep", "--json", "--config", str(config)],
            env={"PATH": "/usr/bin:/bin", **fake_nvml.host(load_scenario("h200-2-vm")).environment},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        return json.loads(done.stdout), done.returncode

    return run


def test_the_rows_of_the_first_rank_are_the_result(sweep, tmp_path):
    report, code = sweep(Script(), seconds=1)
    assert code == 0, report["sweep"]["detail"]
    (run,) = report["runs"]
    assert (run["cause"], run["reason"]) == ("exited", "learning")
    assert len(run["points"]) > 20
    called = (tmp_path / "called").read_text()
    assert called.startswith("2 ranks: -b 8 ")
    assert " -g 1 " in called
    assert run["command"][:5] == ["/usr/bin/mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"]


def test_nothing_outlives_a_hang(sweep, tmp_path):
    script = Script(ending=Ending.HANG, after_row=3, ignore_sigterm=True)
    report, code = sweep(script, seconds=3600, row_deadline="2s")
    assert code == 1, report["sweep"]["detail"]
    assert [run["cause"] for run in report["runs"]] == ["row_stalled", "row_stalled"]
    assert pids_with(str(tmp_path)) == []
