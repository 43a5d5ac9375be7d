"""A sweep on eight MI300X: real watch child, real amdsmi on the fake library, and a replay of rccl-tests. No hardware."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from sweep_host import Host

from gpumond.assembly import watch_command
from gpumond.clock import SystemClock
from gpumond.config.schema import Config
from gpumond.model.benchmark import Collective
from gpumond.model.run import Cause, Engine, SweepOutcome
from gpumond.model.topology import Vendor
from gpumond.model.watch import throttling_of
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.simulate.snapshot import render_snapshot
from gpumond.store.sqlite import Store
from gpumond.sweep.events import RowMeasured

EIGHT = "mi300x-8"
REPLAY = """#!/bin/sh
exec {python} -I -m gpumond.simulate.benchmark --scenario mi300x-8 --collective {collective} --pace {pace} "$@"
"""


def install(host, collective, *, pace):
    host.programs.mkdir(exist_ok=True)
    program = host.programs / f"{collective}_perf"
    program.write_text(REPLAY.format(python=sys.executable, collective=collective, pace=pace))
    program.chmod(0o755)


@pytest.fixture
def amd(fake_amdsmi, tmp_path):
    """Library and sysfs of the host, in a directory of its own."""
    directory = tmp_path / "amd"
    directory.mkdir()
    return fake_amdsmi.host(load_scenario(EIGHT), directory)


@pytest.fixture
def host(amd, tmp_path):
    scenario = load_scenario(EIGHT)
    with Store.open(tmp_path / "state", clock=SystemClock()) as store:
        snapshot = render_snapshot(scenario, taken_at=SystemClock().now())
        host = Host(tmp_path, store, snapshot, amd)
        host.watch_program = "gpumond.probe.amd_watch"
        host.watch_options = ("--sysfs", str(amd.sysfs))
        host.is_rccl = True
        install(host, "all_reduce", pace=100.0)
        install(host, "all_gather", pace=100.0)
        yield host


def test_it_measures_and_keeps_what_the_gpus_did_meanwhile(host):
    report = host.sweep(Collective.ALL_REDUCE, Collective.ALL_GATHER)
    assert (report.sweep.outcome, report.sweep.detail) == (SweepOutcome.SUCCESS, "")
    for run in report.runs:
        assert run.engine is Engine.RCCL_TESTS
        assert run.environment["ROCR_VISIBLE_DEVICES"].split(",") == list(run.gpu_set.uuids)
        assert len(run.gpu_set.uuids) == len(run.watch.gpus) == 8
        assert max(point.busbw_bytes_per_second for point in run.points) > 100e9
        assert (run.watch.doubt, run.watch.preemption, throttling_of(run.watch)) == ("", None, "")
        first = run.watch.gpus[0]
        assert (first.power_watts.median, first.sm_clock_hertz.median) == (137.0, 210e6)
        assert (first.pcie_generation.minimum, first.pcie_width_lanes.minimum) == (5, 16)


@pytest.mark.parametrize("who_says_so", ["amdsmi", "the kernel"])
def test_whoever_comes_gets_the_gpus(host, amd, who_says_so):
    """A process that lives and is not ours, in one of the two lists only."""
    install(host, "all_reduce", pace=0.2)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        busy = with_faults(load_scenario(EIGHT), [parse_fault(f"gpu_busy,gpu=6,pid={stranger.pid}")])

        def on_event(event):
            if isinstance(event, RowMeasured):
                say = {"amdsmi": amd.tell, "the kernel": amd.list_processes}
                say[who_says_so](busy)

        host.on_event = on_event
        report = host.sweep(Collective.ALL_REDUCE)
        stranger.kill()
    (run,) = report.runs
    assert run.cause is Cause.PREEMPTED
    assert (report.sweep.outcome, report.sweep.reason) == (SweepOutcome.SKIPPED, "preempted")
    (foreign, *_) = run.watch.preemption.foreign
    assert (foreign.pid, foreign.uuid) == (stranger.pid, run.gpu_set.uuids[6])


def test_a_host_in_use_is_refused(host, amd):
    amd.show(with_faults(load_scenario(EIGHT), [parse_fault(f"gpu_busy,gpu=0,pid={os.getpid()}")]))
    report = host.sweep()
    assert (report.runs, report.sweep.reason) == ((), "busy")


def test_the_daemon_and_the_commands_start_this_watch_on_amd_hosts():
    command = watch_command(Config(), Vendor.AMD)
    assert command.argv[-2:] == ("-m", "gpumond.probe.amd_watch")
