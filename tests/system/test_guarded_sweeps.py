"""The daemon gives way, pauses, and leaves nothing behind when it is killed at any step of a sweep."""

from __future__ import annotations

import subprocess
import sys

import pytest
from benchmark_stand_in import Ending, Script, calls_of
from daemon_process import pids_with, wait_until

from gpumond.clock import SystemClock
from gpumond.guards.lock import holder_of
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.store.sqlite import Store

SWEEP = """
[engines.nccl_tests]
directory = "{directory}/nccl-tests"

[[sweep]]
name = "nightly"
collectives = ["all_reduce"]
min_size = "8"
max_size = "2GiB"
warmup_iterations = 1
first_row_deadline = "60s"
row_deadline = "{row_deadline}"
run_at_start = true
"""
HANGING = Script(ending=Ending.HANG, after_row=3, ignore_sigterm=True)
SCENARIO = "h200-2-vm"


@pytest.fixture
def driver(fake_nvml):
    return fake_nvml.host(load_scenario(SCENARIO))


@pytest.fixture
def start(tmp_path, write_config, benchmark_stand_in, daemons, driver):
    """`start(script)` -> a daemon whose sweep has begun, or is about to."""

    def make(script, *, row_deadline="60s", quiet="0s"):
        benchmark_stand_in(tmp_path / "nccl-tests", {"all_reduce_perf": script})
        config = write_config(SWEEP.format(directory=tmp_path, row_deadline=row_deadline))
        config.write_text(config.read_text().replace('quiet_by_hand = "0s"', f'quiet_by_hand = "{quiet}"'))
        return daemons(config, driver.environment).start()

    return make


def command(daemon, *words):
    return subprocess.run(
        [sys.executable, "-m", "gpumond", *words, "--config", daemon.config],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def program_of(tmp_path):
    return tmp_path / "nccl-tests" / "all_reduce_perf"


# --- kill -9 ---


def proves_quiet(daemon, driver, tmp_path):
    return pids_with(driver.environment["LD_LIBRARY_PATH"] + "\0") and daemon.event("sweep_started")


def has_no_row_yet(daemon, driver, tmp_path):
    return pids_with(str(program_of(tmp_path)))


def runs(daemon, driver, tmp_path):
    with Store.open(tmp_path / "state", clock=SystemClock(), read_only=True) as store:
        return any(run.points for run in store.open_runs())


def tries_without_p2p(daemon, driver, tmp_path):
    return len(calls_of(program_of(tmp_path))) == 2


STEPS = [
    (proves_quiet, Script(), {"quiet": "60s"}, 0),
    (has_no_row_yet, Script(seconds_before_first_row=60), {}, 1),
    (runs, HANGING, {}, 1),
    (tries_without_p2p, HANGING, {"row_deadline": "1s"}, 2),
]


@pytest.mark.parametrize("moment", STEPS, ids=lambda moment: moment[0].__name__)
def test_a_daemon_killed_at_any_step_leaves_no_orphan_no_lock_and_one_outcome(
    start, driver, daemons, tmp_path, moment
):
    step, script, options, runs_stored = moment
    daemon = start(script, **options)
    wait_until(lambda: step(daemon, driver, tmp_path), what=step.__name__)
    daemon.kill()
    wait_until(lambda: not pids_with(str(tmp_path)), seconds=10, what="the end of the benchmark")
    wait_until(
        lambda: not pids_with(driver.environment["LD_LIBRARY_PATH"]), seconds=10, what="the end of the watch"
    )
    assert holder_of(tmp_path / "run" / "gpu.lock") is None

    config = daemon.config
    config.write_text(config.read_text().replace("run_at_start = true", "run_at_start = false"))
    again = daemons(config, driver.environment).start()
    assert again.value("gpumond_sweep_runs_total", sweep="nightly") == 1
    assert again.value("gpumond_sweep_failures_total", sweep="nightly", reason="aborted") == 1
    with Store.open(tmp_path / "state", clock=SystemClock(), read_only=True) as store:
        assert (store.open_runs(), store.open_sweeps()) == ((), ())
        assert len(store.runs(limit=9)) == runs_stored
        assert len(store.sweeps(limit=9)) == 1
    assert again.terminate() == 0


# --- preemption, findings, pause ---


def test_a_foreign_process_gets_the_gpus_and_monitoring_says_so(start, driver, tmp_path):
    daemon = start(HANGING)
    wait_until(lambda: pids_with(str(program_of(tmp_path))), what="the benchmark")
    driver.show(with_faults(load_scenario(SCENARIO), [parse_fault("gpu_busy,gpu=0,pid=4194303")]))
    wait_until(lambda: not pids_with(str(program_of(tmp_path))), seconds=10, what="the end of the benchmark")
    wait_until(
        lambda: daemon.value("gpumond_sweep_preemptions_total", sweep="nightly") == 1, what="the preemption"
    )
    assert daemon.value("gpumond_sweep_skips_total", sweep="nightly", reason="preempted") == 1
    wait_until(lambda: daemon.value("gpumond_preemption_seconds_count") == 1, what="its time")
    assert daemon.value("gpumond_preemption_seconds_sum") < 2
    assert daemon.value("gpumond_collective_busbw_bytes_per_second") is None
    assert daemon.terminate() == 0


def test_a_hang_of_the_p2p_path_is_a_finding_that_outlives_the_daemon(start, daemons, driver):
    daemon = start(Script(ending=Ending.HANG, after_row=3, runs_without_p2p=True), row_deadline="1s")
    wait_until(
        lambda: daemon.value("gpumond_finding", kind="p2p_path", level="critical") == 1, what="the finding"
    )
    daemon.kill()
    config = daemon.config
    config.write_text(config.read_text().replace("run_at_start = true", "run_at_start = false"))
    again = daemons(config, driver.environment).start()
    assert again.value("gpumond_finding", kind="p2p_path", level="critical") == 1
    assert again.value("gpumond_finding", kind="hang", level="critical") == 0
    assert again.terminate() == 0


def test_a_pause_ends_what_runs_keeps_the_next_from_starting_and_outlives_the_daemon(
    start, daemons, driver, tmp_path
):
    daemon = start(HANGING)
    wait_until(lambda: pids_with(str(program_of(tmp_path))), what="the benchmark")
    said = command(daemon, "pause", "--reason", "disk swap")
    assert (said.returncode, "disk swap" in said.stdout) == (0, True)
    wait_until(lambda: not pids_with(str(program_of(tmp_path))), seconds=20, what="the end of the benchmark")
    assert daemon.value("gpumond_paused") == 1
    wait_until(
        lambda: daemon.value("gpumond_sweep_running", sweep="nightly") == 0, what="the end of the sweep"
    )
    refused = command(daemon, "sweep", "nightly")
    assert refused.returncode == 3
    assert "disk swap" in refused.stdout
    daemon.kill()
    again = daemons(daemon.config, driver.environment).start()
    assert again.value("gpumond_paused") == 1
    wait_until(
        lambda: again.value("gpumond_sweep_skips_total", sweep="nightly", reason="paused") == 2,
        what="the refusal at the start",
    )
    assert command(again, "resume").returncode == 0
    assert again.value("gpumond_paused") == 0
    assert again.terminate() == 0


def test_without_a_daemon_pause_and_resume_do_it_themselves(write_config, tmp_path):
    config = write_config()

    def gpumond(word):
        return subprocess.run(
            [sys.executable, "-m", "gpumond", word, "--config", config],
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert "paused by" in gpumond("pause")
    with Store.open(tmp_path / "state", clock=SystemClock()) as store:
        assert store.pause() is not None
    assert "no longer paused" in gpumond("resume")
    assert "were not paused" in gpumond("resume")


def test_an_inhibit_file_shows_in_a_dry_run_with_every_other_answer(start, tmp_path, driver):
    (tmp_path / "inhibit").write_text("a demo for the board")
    daemon = start(Script())
    wait_until(
        lambda: daemon.value("gpumond_sweep_skips_total", sweep="nightly", reason="inhibited") == 1,
        what="the refusal",
    )
    done = subprocess.run(
        [sys.executable, "-m", "gpumond", "sweep", "--dry-run", "--config", daemon.config],
        env={"PATH": "/usr/bin:/bin", **driver.environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert "NO     inhibit file" in done.stdout
    assert "a demo for the board" in done.stdout
    assert "clear  processes" in done.stdout
    assert str(program_of(tmp_path)) in done.stdout
    assert calls_of(program_of(tmp_path)) == []
    assert daemon.terminate() == 0
