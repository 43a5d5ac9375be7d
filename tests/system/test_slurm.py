"""A real slurmctld and slurmd 22.05, with GPUs that do not exist: Slurm decides, and Slurm is looked at."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
from benchmark_stand_in import Ending, Script, calls_of
from daemon_process import pids_with, wait_until
from slurm_cluster import HOST, running_slurm

from gpumond.clock import SystemClock
from gpumond.guards.report import GuardSubject
from gpumond.guards.slurm import SlurmGuard
from gpumond.process.ask import ask

pytestmark = pytest.mark.system

SWEEP = """
[guards.slurm]
mode = "{mode}"

[engines.nccl_tests]
directory = "{directory}/nccl-tests"

[[sweep]]
name = "nightly"
collectives = ["all_reduce"]
min_size = "8"
max_size = "2GiB"
warmup_iterations = 1
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with running_slurm(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def idle(slurm):
    slurm.clear()
    yield
    slurm.clear()


# --- look ---


@pytest.fixture
def look(slurm, two_gpus):
    def check(own_job=""):
        guard = SlurmGuard(lambda command: slurm.run(*command), node=HOST, own_job=own_job)
        return guard.check(GuardSubject((), two_gpus, {}, is_scheduled=True))

    return check


def test_an_idle_node_is_clear(look):
    report = look()
    assert report.is_clear, report.evidence
    assert "IDLE" in report.evidence


@pytest.mark.parametrize("options", [("--gres=gpu:1",), ("--exclusive",), ()])
def test_any_job_on_the_node_is_a_no(slurm, look, options):
    job = slurm.submit("sleep 60", *options)
    wait_until(lambda: slurm.state()[0] in {"MIXED", "ALLOCATED"}, what="the job")
    report = look()
    assert not report.is_clear
    assert f"{job} of root (RUNNING)" in report.evidence


def test_a_job_that_only_waits_elsewhere_is_no_obstacle(slurm, look):
    slurm.submit("sleep 60", "--hold")
    assert look().is_clear


def test_a_suspended_job_still_holds_its_memory(slurm, look):
    job = slurm.submit()
    wait_until(lambda: slurm.state()[0] != "IDLE", what="the job")
    slurm.run("scontrol", "suspend", job)
    wait_until(lambda: any("SUSPENDED" in line for line in slurm.jobs()), what="the suspension")
    report = look()
    assert not report.is_clear
    assert "SUSPENDED" in report.evidence
    slurm.run("scontrol", "resume", job)


def test_a_job_is_not_its_own_obstacle_but_every_other_is(slurm, look):
    first = slurm.submit("sleep 60", "--mem=100")
    wait_until(lambda: slurm.state()[0] != "IDLE", what="the job")
    assert look(first).is_clear
    slurm.submit("sleep 60", "--mem=100")
    wait_until(lambda: sum("RUNNING" in line for line in slurm.jobs()) == 2, what="the second job")
    assert not look(first).is_clear


def test_a_job_that_slurm_does_not_know_proves_nothing(look):
    assert not look("4711").is_clear


def test_a_drained_node_is_nobodys_and_a_down_one_is_unknown(slurm, look):
    slurm.run("scontrol", "update", f"nodename={HOST}", "state=drain", "reason=a fan = noise")
    assert look().is_clear
    slurm.run("scontrol", "update", f"nodename={HOST}", "state=down", "reason=a fan = noise")
    report = look()
    slurm.run("scontrol", "update", f"nodename={HOST}", "state=resume")
    assert not report.is_clear
    assert "a fan = noise" in report.evidence


def test_a_reserved_node_is_somebodys(slurm, look):
    slurm.run(
        "scontrol", "create", "reservation", "reservationname=night", "starttime=now", "duration=10",
        "users=root", f"nodes={HOST}",
    )  # fmt: skip
    wait_until(lambda: "RESERVED" in slurm.state(), what="the reservation")
    report = look()
    slurm.run("scontrol", "delete", "reservationname=night")
    assert not report.is_clear
    assert "RESERVED" in report.evidence


def test_a_slurm_that_does_not_answer_is_a_no(slurm, two_gpus):
    nowhere = partial(  # squeue itself would try for a minute
        ask,
        environment={"PATH": os.environ["PATH"], "SLURM_CONF": str(slurm.directory / "nowhere")},
        deadline_seconds=2,
        clock=SystemClock(),
    )
    report = SlurmGuard(nowhere, node=HOST).check(GuardSubject((), two_gpus, {}, is_scheduled=True))
    assert not report.is_clear
    assert "did not end within 2 s" in report.evidence


# --- whole sweeps ---


@pytest.fixture
def sweep(slurm, tmp_path, write_config, benchmark_stand_in, two_h200):
    """`sweep(mode)` -> a function that runs `gpumond sweep nightly --json`."""
    benchmark_stand_in(tmp_path / "nccl-tests", {"all_reduce_perf": Script()})

    def make(mode):
        config = write_config(SWEEP.format(mode=mode, directory=tmp_path))

        def run(*options):
            return subprocess.run(
                [sys.executable, "-m", "gpumond", "sweep", "nightly", "--json", "--config", config, *options],
                env=os.environ | slurm.environment | two_h200,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )

        run.config, run.driver = config, two_h200
        return run

    return make


def test_look_mode_measures_on_an_idle_node_and_refuses_on_a_busy_one(slurm, sweep, tmp_path):
    run = sweep("look")
    report = json.loads(run().stdout)
    assert report["sweep"]["outcome"] == "success"
    job = slurm.submit("sleep 60", "--gres=gpu:1")
    wait_until(lambda: slurm.state()[0] != "IDLE", what="the job")
    done = run()
    report = json.loads(done.stdout)
    assert (done.returncode, report["sweep"]["reason"]) == (3, "slurm")
    assert job in report["sweep"]["detail"]
    assert len(calls_of(tmp_path / "nccl-tests" / "all_reduce_perf")) == 1


def test_job_mode_end_to_end_by_the_daemon(slurm, sweep, daemons, two_h200, tmp_path):
    run = sweep("job")
    run.config.write_text(run.config.read_text() + "run_at_start = true\n")
    daemon = daemons(run.config, slurm.environment | two_h200).start()
    wait_until(
        lambda: daemon.value("gpumond_sweep_runs_total", sweep="nightly") == 1, seconds=60, what="the sweep"
    )
    assert (
        daemon.value(
            "gpumond_collective_busbw_bytes_per_second", collective="all_reduce", size_bytes="2147483648"
        )
        == 338.12e9
    )
    (call,) = calls_of(tmp_path / "nccl-tests" / "all_reduce_perf")
    assert not [name for name in call["environment"] if name.startswith(("SLURM_", "SBATCH_"))]
    submitted = daemon.event("job_submitted")

    def shown():
        return slurm.run("scontrol", "-o", "show", "job", submitted["job"]).output

    # The sweep is on record before its job has ended.
    wait_until(lambda: "JobState=COMPLETED" in shown(), what="the end of the job")
    assert "OverSubscribe=NO" in shown()
    assert daemon.terminate() == 0


def test_job_mode_waits_for_a_users_job_and_is_withdrawn_in_time(slurm, sweep):
    run = sweep("job")
    run.config.write_text(run.config.read_text().replace('mode = "job"', 'mode = "job"\nwait = "4s"'))
    slurm.submit("sleep 60", "--gres=gpu:1")
    wait_until(lambda: slurm.state()[0] != "IDLE", what="the job")
    report = json.loads(run().stdout)
    assert (report["sweep"]["outcome"], report["sweep"]["reason"]) == ("skipped", "slurm")
    assert report["runs"] == []
    assert [line for line in slurm.jobs() if "gpumond" in line and "CANCELLED" not in line] == []


def test_slurm_ends_the_sweep_and_one_outcome_is_stored(slurm, sweep, tmp_path, benchmark_stand_in):
    benchmark_stand_in(tmp_path / "nccl-tests", {"all_reduce_perf": Script(ending=Ending.HANG, after_row=3)})
    run = sweep("job")
    program = str(tmp_path / "nccl-tests" / "all_reduce_perf")
    command = [sys.executable, "-m", "gpumond", "sweep", "nightly", "--json", "--config", run.config]
    process = subprocess.Popen(
        command, env=os.environ | slurm.environment | run.driver, stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: pids_with(program), seconds=60, what="the benchmark in the job")
    slurm.run("scancel", "--user=root", "--state=RUNNING")
    report = json.loads(process.communicate(timeout=90)[0])
    assert report["sweep"]["outcome"] in {"skipped", "failure"}
    assert [run["cause"] for run in report["runs"]] in (["cancelled"], ["aborted"])
    wait_until(lambda: not pids_with(program), seconds=15, what="the end of the benchmark")


def test_whoever_interrupts_the_command_takes_the_job_with_them(slurm, sweep, tmp_path, benchmark_stand_in):
    benchmark_stand_in(tmp_path / "nccl-tests", {"all_reduce_perf": Script(ending=Ending.HANG, after_row=3)})
    run = sweep("job")
    program = str(tmp_path / "nccl-tests" / "all_reduce_perf")
    process = subprocess.Popen(
        [sys.executable, "-m", "gpumond", "sweep", "nightly", "--json", "--config", run.config],
        env=os.environ | slurm.environment | run.driver,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: pids_with(program), seconds=60, what="the benchmark in the job")
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    report = json.loads(process.communicate(timeout=90)[0])
    assert time.monotonic() - began < 60
    assert report["sweep"]["outcome"] in {"skipped", "failure"}
    assert pids_with(program) == []


def test_inside_job_is_for_jobs(sweep):
    done = sweep("job")("--inside-job")
    assert done.returncode == 2
    assert "SLURM_JOB_ID" in done.stderr
