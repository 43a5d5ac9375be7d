"""A benchmark in state D outlives its daemon: the next daemon says so, starts no sweep beside it, and goes on when it is gone."""

from __future__ import annotations

import pytest
from benchmark_stand_in import Script
from daemon_process import pids_with, wait_until
from unkillable import frozen_filesystem

from gpumond.simulate.scenario import load_scenario

pytestmark = pytest.mark.system

CONFIG = """
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
HANGING_IN_THE_KERNEL = """#!/bin/sh
case "$1" in -h | --help) exit 0 ;; esac
exec dd if=/dev/zero of={file} bs=1 count=1
"""


def test_no_sweep_beside_a_benchmark_that_no_signal_ends_also_after_a_restart(
    write_config, benchmark_stand_in, daemons, fake_nvml, tmp_path
):
    environment = fake_nvml.host(load_scenario("h200-2-vm")).environment
    config = write_config(CONFIG.format(directory=tmp_path))
    programs = benchmark_stand_in(tmp_path / "nccl-tests", {"all_reduce_perf": Script()})
    with frozen_filesystem(tmp_path) as filesystem:
        file = filesystem.mount_point / "written"
        (programs / "all_reduce_perf").write_text(HANGING_IN_THE_KERNEL.format(file=file))
        filesystem.freeze()
        daemon = daemons(config, environment).start()
        (benchmark,) = wait_until(lambda: pids_with(f"of={file}"), what="the benchmark")
        daemon.kill()

        for _ in range(2):
            daemon = daemons(config, environment).start()
            assert daemon.value("gpumond_unkillable_processes") == 1
            wait_until(
                lambda daemon=daemon: daemon.value(
                    "gpumond_sweep_skips_total", sweep="nightly", reason="unkillable"
                ),
                what="the skip",
            )
            assert pids_with(f"of={file}") == [benchmark]
            daemon.kill()

        benchmark_stand_in(programs, {"all_reduce_perf": Script()})
        daemon = daemons(config, environment).start()
        filesystem.thaw()
        wait_until(lambda: daemon.value("gpumond_unkillable_processes") == 0, what="its end")
        daemon.kill()
        daemon = daemons(config, environment).start()
        wait_until(
            lambda: daemon.value("gpumond_sweep_last_run_success", sweep="nightly") == 1, what="a good sweep"
        )
        assert daemon.terminate() == 0
    assert pids_with(f"of={file}") == []
