"""The daemon in a cgroup that is delegated to it, as with deploy/systemd/gpumond.service.d/cgroup-delegation.conf."""

from __future__ import annotations

import subprocess
import sys

import pytest
from benchmark_stand_in import Ending, Script
from daemon_process import DaemonProcess, wait_until
from delegated_cgroup import delegated_cgroup

from gpumond.process import cgroup
from gpumond.simulate.scenario import load_scenario

SWEEP = """
[engines.nccl_tests]
directory = "{directory}/nccl-tests"

[[sweep]]
name = "nightly"
collectives = ["all_reduce"]
min_size = "8"
max_size = "2GiB"
warmup_iterations = 1
run_at_start = true
"""
INSIDE = 'echo 0 > "$0/cgroup.procs" && exec "$@"'


@pytest.fixture
def delegated():
    with delegated_cgroup() as directory:
        yield directory


def test_every_run_has_a_cgroup_and_what_hides_in_it_is_killed_by_the_next_daemon(
    delegated, write_config, benchmark_stand_in, fake_nvml, tmp_path
):
    benchmark_stand_in(tmp_path / "nccl-tests", {"all_reduce_perf": Script(ending=Ending.HANG, after_row=3)})
    command = ("sh", "-c", INSIDE, str(delegated), sys.executable, "-m", "gpumond", "run", "--config")
    environment = fake_nvml.host(load_scenario("h200-2-vm")).environment
    config = write_config(SWEEP.format(directory=tmp_path))
    daemon = DaemonProcess(config, environment, command=command).start()
    assert daemon.process.pid in cgroup.members(delegated / "main")
    runs = delegated / "runs"
    benchmarks = wait_until(lambda: cgroup.members(runs), what="a benchmark in its cgroup")
    assert benchmarks.isdisjoint(cgroup.members(delegated / "main"))
    (run,) = cgroup.below(runs)
    wait_until(lambda: daemon.value("gpumond_sweep_running", sweep="nightly") == 1, what="the sweep")

    with subprocess.Popen(
        ["sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec sleep 60', str(run)],
        env={"PATH": "/usr/bin:/bin"},
        start_new_session=True,
    ) as hidden:
        wait_until(lambda: hidden.pid in cgroup.members(run), what="the hidden process")
        daemon.kill()
        wait_until(lambda: cgroup.members(runs) == {hidden.pid}, what="the end of the benchmark")
        again = DaemonProcess(config, environment, command=command).start()
        assert hidden.wait(5) == -9
    used = again.event("cgroup_used")
    assert (used["directory"], used["killed"], used["remaining"]) == (str(runs), [hidden.pid], [])
    assert run not in cgroup.below(runs)

    wait_until(lambda: cgroup.members(runs), what="the next benchmark")
    assert again.terminate() == 0
    assert cgroup.below(runs) == []
    assert not cgroup.is_populated(delegated)
