"""One scenario watched twice: the real watch child on the fake driver library, and the simulator's. Processes come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from gpumond import codec
from gpumond.model.reading import Unreadable, Value
from gpumond.model.watch import WatchLook, WatchTarget
from gpumond.probe.looks import LOOKS_PER_LOAD
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.hardware import struck
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.simulate.watch import render_look

PAIR = "h200-2-vm"
FAULTS = [
    "gpu_busy,gpu=1,pid=4711",
    "gpu_lost,gpu=1",
    "no_permission,gpu=0",
    "gpu_missing,gpu=1",
    "pcie_width,gpu=0,lanes=4",
    "call_fails,call=nvmlDeviceGetComputeRunningProcesses,status=999,gpu=1",
    "call_fails,call=nvmlDeviceGetGraphicsRunningProcesses,status=4,gpu=1",
    "call_fails,call=nvmlDeviceGetPowerUsage,status=999,gpu=1",
    "not_supported,call=nvmlDeviceGetComputeRunningProcesses",
    "not_supported,call=nvmlDeviceGetMemoryInfo_v2",
]


def targets_of(scenario):
    return [WatchTarget(gpu.uuid, gpu.pci_bus_id) for gpu in scenario.gpus]


@contextmanager
def running(module, *arguments, environment=None):
    command = [sys.executable, "-I", "-m", module, *arguments, "--interval-seconds", "0.02"]
    child = subprocess.Popen(
        command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def next_look(child):
    return codec.decode(WatchLook, child.stdout.readline())


def look_until(child, condition, *, seconds=20):
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        look = next_look(child)
        if condition(look):
            return look
    raise AssertionError("that look did not come")


def real(host, scenario):
    names = [str(target) for target in targets_of(scenario)]
    return running("gpumond.probe.watch", *names, environment=host.environment)


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_both_see_the_same(fake_nvml, fault):
    scenario = load_scenario(PAIR)
    broken = with_faults(scenario, [parse_fault(fault)] if fault else [])
    with real(fake_nvml.host(broken), scenario) as child:
        look = next_look(child)
    simulated = render_look(struck(broken), targets_of(scenario), look.at_seconds, with_load=True)
    if fault == "gpu_missing,gpu=1":  # only the words differ
        assert isinstance(look.gpus[1].processes, Unreadable)
        assert isinstance(simulated.gpus[1].processes, Unreadable)
        return
    assert look == simulated


def test_a_process_that_comes_while_somebody_watches_is_seen(fake_nvml):
    scenario = load_scenario(PAIR)
    host = fake_nvml.host(scenario)
    with real(host, scenario) as child:
        assert all(gpu.processes == Value(()) for gpu in next_look(child).gpus)
        host.show(with_faults(scenario, [parse_fault("gpu_busy,gpu=1,pid=4711")]))
        busy = look_until(child, lambda look: look.gpus[1].processes != Value(()))
        assert [process.pid for process in busy.gpus[1].processes.value] == [4711]
        host.show(scenario)
        look_until(child, lambda look: look.gpus[1].processes == Value(()))


def test_on_the_simulator_a_process_comes_as_a_fault():
    names = [str(target) for target in targets_of(load_scenario(PAIR))]
    fault = ("--fault", "gpu_busy,gpu=0,pid=4711,after_seconds=6", "--started-at", str(time.time()))
    with running("gpumond.simulate.watch", PAIR, *names, *fault) as child:
        assert all(gpu.processes == Value(()) for gpu in next_look(child).gpus)
        look_until(child, lambda look: look.gpus[0].processes != Value(()))


def test_the_load_comes_with_every_fifth_look(fake_nvml):
    scenario = load_scenario(PAIR)
    with real(fake_nvml.host(scenario), scenario) as child:
        loads = [next_look(child).gpus[0].load is not None for _ in range(2 * LOOKS_PER_LOAD + 1)]
    assert [number for number, there in enumerate(loads) if there] == [0, LOOKS_PER_LOAD, 2 * LOOKS_PER_LOAD]


def test_a_gpu_that_took_the_place_of_another_is_not_taken_for_it(fake_nvml):
    scenario = load_scenario(PAIR)
    first, second = scenario.gpus
    swapped = f"{first.uuid}@{second.pci_bus_id}"
    with running("gpumond.probe.watch", swapped, environment=fake_nvml.host(scenario).environment) as child:
        (gpu,) = next_look(child).gpus
    assert isinstance(gpu.processes, Unreadable)
    assert str(second.uuid) in gpu.processes.detail


def test_a_driver_that_cannot_be_asked_ends_it_with_the_reason(fake_nvml):
    scenario = with_faults(load_scenario(PAIR), [parse_fault("driver_mismatch")])
    with real(fake_nvml.host(scenario), scenario) as child:
        _, errors = child.communicate(timeout=20)
    assert child.returncode == 1
    assert b"LIB_RM_VERSION_MISMATCH" in errors


def test_it_ends_with_its_reader_and_by_sigterm(fake_nvml):
    scenario = load_scenario(PAIR)
    with real(fake_nvml.host(scenario), scenario) as child:
        next_look(child)
        child.stdout.close()
        assert child.wait(10) == 0
    with real(fake_nvml.host(scenario), scenario) as child:
        next_look(child)
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == -signal.SIGTERM
