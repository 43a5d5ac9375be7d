"""From a GPU host to /metrics: the daemon as a process, on the fake driver library and a replayed benchmark."""

import time

import pytest
from benchmark_stand_in import Ending, Script
from daemon_process import pids_with, wait_until

UUIDS = ("GPU-00000000-0000-4000-8000-00000000a000", "GPU-00000000-0000-4000-8000-00000000a001")
BUSBW = "gpumond_collective_busbw_bytes_per_second"

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


@pytest.fixture
def replayed(tmp_path, write_config, benchmark_stand_in):
    """A configuration whose sweep replays the captured all_reduce run; the stand-in's script can be given."""

    def make(script=None, extra=""):
        benchmark_stand_in(tmp_path / "nccl-tests", {"all_reduce_perf": script or Script()})
        return write_config(SWEEP.format(directory=tmp_path) + extra)

    return make


def sweep_has_ended(daemon, runs=1):
    return lambda: (daemon.value("gpumond_sweep_runs_total", sweep="nightly") or 0) >= runs


def steady(samples):
    """What must be the same after a restart: everything but clocks, process facts and the age of a snapshot."""
    varying = ("process_", "gpumond_time_", "gpumond_scheduler_", "gpumond_collector_", "gpumond_config_")
    return {
        key: value
        for key, value in samples.items()
        if not key[0].startswith(varying) and not key[0].endswith(("_running", "_due_timestamp_seconds"))
    }


def test_captured_results_reach_prometheus_and_survive_a_crash(replayed, daemons, two_h200, tmp_path):
    daemon = daemons(replayed(), two_h200).start()
    wait_until(sweep_has_ended(daemon), what="the end of the sweep")

    assert daemon.value(BUSBW, collective="all_reduce", size_bytes="2147483648") == 338.12e9
    assert daemon.value("gpumond_gpus") == 2
    for uuid in UUIDS:
        assert daemon.value("gpumond_gpu_present", uuid=uuid) == 1
    for gpu, peer in (UUIDS, UUIDS[::-1]):
        assert daemon.value("gpumond_topology_link_info", uuid=gpu, peer_uuid=peer, link="NV18") == 1
    assert daemon.value("gpumond_sweep_last_run_success", sweep="nightly") == 1

    before = steady(daemon.samples())
    daemon.kill()
    # run_at_start would measure again: the same daemon without it.
    config = daemon.config
    config.write_text(config.read_text().replace("run_at_start = true", "run_at_start = false"))
    again = daemons(config, two_h200).start()
    assert steady(again.samples()) == before
    assert again.terminate() == 0
    assert pids_with(str(tmp_path)) == []


def test_a_crash_during_a_benchmark_leaves_no_child_no_lock_and_one_outcome(
    replayed, daemons, two_h200, tmp_path
):
    daemon = daemons(replayed(Script(ending=Ending.HANG, after_row=3, ignore_sigterm=True)), two_h200).start()
    program = str(tmp_path / "nccl-tests" / "all_reduce_perf")
    wait_until(lambda: pids_with(program), what="the benchmark")
    daemon.kill()
    wait_until(lambda: not pids_with(program), seconds=5, what="the end of the orphan")

    config = daemon.config
    config.write_text(config.read_text().replace("run_at_start = true", "run_at_start = false"))
    again = daemons(config, two_h200).start()
    assert again.value("gpumond_sweep_failures_total", sweep="nightly", reason="aborted") == 1
    assert again.value("gpumond_sweep_runs_total", sweep="nightly") == 1
    assert again.value(BUSBW, collective="all_reduce", size_bytes="2147483648") is None
    assert again.terminate() == 0


def test_sigterm_during_a_benchmark_ends_it_and_keeps_the_record(replayed, daemons, two_h200, tmp_path):
    daemon = daemons(replayed(Script(ending=Ending.HANG, after_row=3)), two_h200).start()
    program = str(tmp_path / "nccl-tests" / "all_reduce_perf")
    wait_until(lambda: pids_with(program), what="the benchmark")
    wait_until(
        lambda: daemon.value("gpumond_sweep_running", sweep="nightly") == 1, what="gpumond_sweep_running"
    )
    began = time.monotonic()
    assert daemon.terminate() == 0
    assert time.monotonic() - began < 8
    assert pids_with(str(tmp_path)) == []
    assert daemon.event("sweep_finished")["reason"] == "cancelled"


def test_two_sweeps_over_three_gpu_sets_make_no_series_twice(replayed, daemons, two_h200):
    extra = f"""
[[sweep]]
name = "second"
gpu_sets = ["all", "pair", "numa"]
collectives = ["all_reduce"]
run_at_start = true

[gpu_sets]
pair = ["{UUIDS[1]}", "{UUIDS[0]}"]
numa = {{ numa_node = 0 }}
"""
    config = replayed(extra=extra)
    config.write_text(
        config.read_text().replace(
            'name = "nightly"\n', 'name = "nightly"\ngpu_sets = ["all", "pair", "numa"]\n'
        )
    )
    daemon = daemons(config, two_h200).start()
    for sweep in ("nightly", "second"):
        wait_until(
            lambda sweep=sweep: daemon.value("gpumond_sweep_runs_total", sweep=sweep) == 1,
            what=f"the sweep {sweep}",
        )
    labels = [dict(pairs) for (name, pairs) in daemon.samples() if name == BUSBW]
    assert {(label["sweep"], label["gpu_set"]) for label in labels} == {
        (sweep, gpu_set) for sweep in ("nightly", "second") for gpu_set in ("all", "pair", "numa")
    }


def test_wrong_data_is_never_a_success(replayed, daemons, two_h200):
    daemon = daemons(replayed(Script(wrong_in_row=29, wrong_elements=5)), two_h200).start()
    wait_until(sweep_has_ended(daemon), what="the end of the sweep")
    assert daemon.value("gpumond_sweep_last_run_success", sweep="nightly") == 0
    assert daemon.value("gpumond_sweep_failures_total", sweep="nightly", reason="wrong_results") == 1
    assert daemon.value("gpumond_collective_verdict", collective="all_reduce", verdict="failed") == 1
