"""A sweep that waits for a boot or a change of the host, with a real daemon: once for each, and not once more."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from benchmark_stand_in import Script
from daemon_process import wait_until

from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults

WHOLE = load_scenario("h200-2-vm")
LINK_DOWN = with_faults(WHOLE, [parse_fault("link_down,gpu=1,link=3")])
RUNS = "gpumond_sweep_runs_total"
CONFIG = """
[engines.nccl_tests]
directory = "{directory}"
[[sweep]]
name = "changed"
collectives = ["all_reduce"]
after = ["boot", "change"]
when = "idle"
min_size = "8"
"""


@pytest.fixture
def host(fake_nvml):
    return fake_nvml.host(WHOLE)


def runs(daemon):
    return daemon.value(RUNS, sweep="changed")


def sweeps(config):
    command = [sys.executable, "-m", "gpumond", "history", "--json", "--config", str(config)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_once_after_a_boot_and_once_after_each_change(
    tmp_path, write_config, daemons, host, benchmark_stand_in
):
    benchmark_stand_in(tmp_path / "nccl-tests", {"all_reduce_perf": Script()})
    config = write_config(CONFIG.format(directory=tmp_path / "nccl-tests"))
    config.write_text(config.read_text().replace("[guards]", '[guards]\nquiet = "0s"'))
    daemon = daemons(config, host.environment).start()
    wait_until(lambda: runs(daemon) == 1, what="the sweep after the boot")
    daemon.terminate()

    again = daemons(config, host.environment).start()
    assert runs(again) == 1
    host.show(LINK_DOWN)
    wait_until(lambda: runs(again) == 2, what="the sweep after the change")
    assert again.terminate() == 0
    armed = [event for event in again.events() if event["event"] == "sweep_armed"]
    assert [event["sweep"] for event in armed] == ["changed"]
