"""An AMD host watched twice: the real watch child with the real amdsmi on the fake library, and the simulator's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from gpumond import codec
from gpumond.model.reading import Unreadable, UnreadableReason, Value
from gpumond.model.topology import Vendor
from gpumond.model.watch import WatchLook, WatchTarget
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.hardware import struck
from gpumond.simulate.scenario import load_scenario, scenario_names, with_faults
from gpumond.simulate.watch import render_look

EIGHT = "mi300x-8"
NAMES = [name for name in scenario_names() if load_scenario(name).vendor is Vendor.AMD]
FAULTS = [
    "gpu_busy,gpu=1,pid=4711",
    "gpu_lost,gpu=1",
    "no_permission,gpu=0",
    "pcie_width,gpu=0,lanes=4",
    "call_fails,call=amdsmi_init,status=10",
    "call_fails,call=amdsmi_get_processor_handles,status=7",
    "call_fails,call=amdsmi_get_gpu_device_bdf,status=7,gpu=2",
    "call_fails,call=amdsmi_get_gpu_device_uuid,status=7,gpu=2",
    "call_fails,call=amdsmi_get_gpu_process_list,status=30,gpu=1",
    "not_supported,call=amdsmi_get_gpu_process_list",
    "call_fails,call=amdsmi_get_power_info,status=30,gpu=1",
    "call_fails,call=amdsmi_get_gpu_activity,status=30",
    "not_supported,call=amdsmi_get_clock_info",
    "not_supported,call=amdsmi_get_temp_metric",
    "call_fails,call=amdsmi_get_gpu_metrics_info,status=30",
    "not_supported,call=amdsmi_get_pcie_info",
]
PATH = "/usr/bin:/bin"
NO_ROCM = {"ROCM_PATH": "/nowhere"}


def targets_of(scenario):
    return [WatchTarget(gpu.uuid, gpu.pci_bus_id) for gpu in scenario.gpus]


def broken(name, *faults):
    return with_faults(load_scenario(name), [parse_fault(fault) for fault in faults])


@contextmanager
def watching(host, targets, *, environment=None, interval="0.02"):
    command = [sys.executable, "-I", "-m", "gpumond.probe.amd_watch", "--sysfs", str(host.sysfs)]
    child = subprocess.Popen(
        [*command, "--interval-seconds", interval, *(str(target) for target in targets)],
        env={"PATH": PATH, **host.environment, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def next_look(child):
    line = child.stdout.readline()
    assert line, child.stderr.read().decode()
    return codec.decode(WatchLook, line)


def look_until(child, condition, *, seconds=20):
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        look = next_look(child)
        if condition(look):
            return look
    raise AssertionError("that look did not come")


def pids_on(look, number):
    return [process.pid for process in look.gpus[number].processes.value]


@pytest.mark.parametrize(
    ("name", "fault"), [*((name, None) for name in NAMES), *((EIGHT, it) for it in FAULTS)]
)
def test_both_see_the_same(fake_amdsmi, tmp_path, name, fault):
    scenario = broken(name, *([fault] if fault else []))
    targets = targets_of(load_scenario(name))
    with watching(fake_amdsmi.host(scenario, tmp_path), targets) as child:
        look = next_look(child)
    assert look == render_look(struck(scenario), targets, look.at_seconds, with_load=True)


def test_what_a_load_holds(fake_amdsmi, tmp_path):
    scenario = broken(EIGHT, "gpu_busy,gpu=3,pid=4711")
    with watching(fake_amdsmi.host(scenario, tmp_path), targets_of(scenario)) as child:
        look = next_look(child)
    busy, idle = look.gpus[3].load, look.gpus[0].load
    assert busy.utilisation_ratio.value > idle.utilisation_ratio.value == 0
    assert (idle.power_watts, idle.temperature_celsius) == (Value(137.0), Value(30))
    assert (idle.sm_clock_hertz, idle.event_reasons) == (Value(210_000_000), Value(0))
    assert (idle.pcie_generation, idle.pcie_width_lanes) == (Value(5), Value(16))


@pytest.mark.parametrize("who_says_so", ["both", "amdsmi", "the kernel"])
def test_a_process_that_comes_while_somebody_watches_is_seen(fake_amdsmi, tmp_path, who_says_so):
    scenario = load_scenario(EIGHT)
    host = fake_amdsmi.host(scenario, tmp_path)
    busy = broken(EIGHT, f"gpu_busy,gpu=5,pid={os.getpid()}")
    with watching(host, targets_of(scenario)) as child:
        assert pids_on(next_look(child), 5) == []
        say = {"both": host.show, "amdsmi": host.tell, "the kernel": host.list_processes}
        say[who_says_so](busy)
        look = look_until(child, lambda look: pids_on(look, 5))
        assert [pids_on(look, number) for number in (4, 5)] == [[], [os.getpid()]]
        host.show(scenario)
        look_until(child, lambda look: not pids_on(look, 5))


def test_what_holds_the_clocks_back_while_somebody_watches(fake_amdsmi, tmp_path):
    scenario = load_scenario(EIGHT)
    host = fake_amdsmi.host(scenario, tmp_path)
    with watching(host, targets_of(scenario)) as child:
        assert next_look(child).gpus[2].load.event_reasons == Value(0)
        answers = tmp_path / "amdsmi.answers"
        new = tmp_path / "new"
        new.write_text(answers.read_text() + "amdsmi_get_gpu_metrics_info.hbm_thm_residency_acc 2 0 17\n")
        new.replace(answers)

        def has_reason(look):
            load = look.gpus[2].load
            return load is not None and load.event_reasons != Value(0)

        look = look_until(child, has_reason)
        assert [gpu.load.event_reasons.value for gpu in look.gpus] == [0, 0, 0x40, 0, 0, 0, 0, 0]


def test_without_amdsmi_the_kernel_says_who_is_there(fake_amdsmi, tmp_path):
    scenario = broken(EIGHT, "gpu_busy,gpu=1,pid=4711")
    host = fake_amdsmi.host(scenario, tmp_path)
    with watching(host, targets_of(scenario), environment=NO_ROCM) as child:
        look = next_look(child)
        assert [pids_on(look, number) for number in (0, 1)] == [[], [4711]]
        assert look.gpus[0].load.power_watts.reason is UnreadableReason.NO_LIBRARY


def test_without_amdsmi_and_without_the_kernels_list_nobody_watches(fake_amdsmi, tmp_path):
    host = fake_amdsmi.host(load_scenario(EIGHT), tmp_path)
    shutil.rmtree(host.sysfs / "class/kfd/kfd/proc")
    with watching(host, targets_of(load_scenario(EIGHT)), environment=NO_ROCM) as child:
        _, errors = child.communicate(timeout=20)
    assert child.returncode == 1
    assert b"amdsmi cannot be imported" in errors


def test_a_gpu_that_took_the_place_of_another_is_not_taken_for_it(fake_amdsmi, tmp_path):
    scenario = load_scenario(EIGHT)
    swapped = WatchTarget(scenario.gpus[0].uuid, scenario.gpus[1].pci_bus_id)
    host = fake_amdsmi.host(scenario, tmp_path)
    for environment in ({}, NO_ROCM):
        with watching(host, [swapped], environment=environment) as child:
            (gpu,) = next_look(child).gpus
        assert isinstance(gpu.processes, Unreadable)
        assert str(scenario.gpus[1].uuid) in gpu.processes.detail


def test_eight_gpus_are_looked_at_at_least_five_times_a_second(fake_amdsmi, tmp_path):
    """On the fake library, whose calls cost nothing: what is ours of the time. The hardware's share was never measured."""
    scenario = load_scenario(EIGHT)
    with watching(fake_amdsmi.host(scenario, tmp_path), targets_of(scenario), interval="0.1") as child:
        instants = [next_look(child).at_seconds for _ in range(16)]
    assert (instants[-1] - instants[0]) / 15 < 0.2
