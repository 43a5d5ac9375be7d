"""One scenario, rendered twice: the real probe on the fake driver library and sysfs tree, and the simulator's snapshot."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from gpumond import codec
from gpumond.model.topology import Snapshot, Vendor
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, scenario_names, with_faults
from gpumond.simulate.snapshot import render_snapshot
from gpumond.simulate.sysfs import write_sysfs

A_MOMENT = datetime(2026, 11, 29, tzinfo=UTC)

VISIBLE_FAULTS = [
    "gpu_lost,gpu=1",
    "call_fails,call=nvmlDeviceGetUUID,status=999,gpu=1",
    "call_fails,call=nvmlDeviceGetMemoryInfo,status=15,gpu=0",
    "call_fails,call=nvmlDeviceGetCount,status=999",
    "call_fails,call=nvmlSystemGetDriverVersion,status=999",
    "not_supported,call=nvmlDeviceGetFieldValues",
    "not_supported,call=nvmlDeviceGetComputeRunningProcesses",
    "not_supported,call=nvmlDeviceGetMemoryInfo_v2",
    "not_supported,call=nvmlDeviceGetMemoryAffinity",
    "call_fails,call=nvmlDeviceGetGraphicsRunningProcesses,status=4,gpu=1",
    "call_fails,call=nvmlDeviceGetP2PStatus,status=6,gpu=1",
    "call_fails,call=nvmlDeviceGetNvLinkRemoteDeviceType,status=10,gpu=1",
    "no_permission,gpu=0",
    "driver_mismatch",
    "driver_not_loaded",
    "gpu_missing,gpu=1",
    "pcie_width,gpu=0,lanes=4",
    "gpu_busy,gpu=1,pid=4711",
    "link_down,gpu=1,link=3",
    "link_errors,gpu=1,link=2,count=17",
    "fabric_in_progress",
]
# The probe asks another call, or sysfs, for the same value.
HIDDEN_FAULTS = [
    "not_supported,call=nvmlDeviceGetNvLinkState,gpu=0",
    "not_supported,call=nvmlDeviceGetComputeRunningProcesses_v3",
    "not_supported,call=nvmlDeviceGetCurrPcieLinkWidth",
]
OLD_DRIVER_FAULTS = [
    "gpu_lost,gpu=6",
    "gpu_missing,gpu=2",
    "link_down,gpu=1,link=3",
    "link_errors,gpu=1,link=2,count=17",
    "not_supported,call=nvmlDeviceGetNvLinkState,gpu=0",
    "nic_down,nic=mlx5_1",
]


def probed(fake_nvml, scenario, directory, *, elapsed_seconds=0.0, with_errors=True):
    roots = write_sysfs(scenario, directory, elapsed_seconds=elapsed_seconds)
    arguments = ["--with-errors"] if with_errors else []
    document = subprocess.run(
        [sys.executable, "-m", "gpumond.probe", *arguments, "--sysfs", roots.sysfs, "--proc", roots.proc],
        env=os.environ | fake_nvml.environment(scenario, elapsed_seconds=elapsed_seconds),
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout
    return codec.decode(Snapshot, document)


def comparable(snapshot):
    return dataclasses.replace(snapshot, taken_at=A_MOMENT, duration_seconds=0.0, simulated="")


def assert_equal(fake_nvml, scenario, directory, **options):
    real = comparable(probed(fake_nvml, scenario, directory, **options))
    simulated = comparable(render_snapshot(scenario, taken_at=A_MOMENT, **options))
    assert codec.encode(real, indent=1).decode() == codec.encode(simulated, indent=1).decode()


@pytest.mark.parametrize("name", [it for it in scenario_names() if load_scenario(it).vendor is Vendor.NVIDIA])
def test_a_healthy_host_looks_the_same(fake_nvml, tmp_path, name):
    assert_equal(fake_nvml, load_scenario(name), tmp_path)


def test_without_error_counters(fake_nvml, tmp_path):
    assert_equal(fake_nvml, load_scenario("h200-2-vm"), tmp_path, with_errors=False)


@pytest.mark.parametrize("fault", VISIBLE_FAULTS)
def test_a_fault_looks_the_same(fake_nvml, tmp_path, fault):
    healthy = load_scenario("h200-2-vm")
    scenario = with_faults(healthy, [parse_fault(fault)])
    assert_equal(fake_nvml, scenario, tmp_path)
    assert render_snapshot(scenario, taken_at=A_MOMENT) != render_snapshot(healthy, taken_at=A_MOMENT)


@pytest.mark.parametrize("fault", HIDDEN_FAULTS)
def test_a_fault_that_the_probe_gets_around_leaves_no_trace(fake_nvml, tmp_path, fault):
    healthy = load_scenario("h200-2-vm")
    assert_equal(fake_nvml, with_faults(healthy, [parse_fault(fault)]), tmp_path)
    assert comparable(probed(fake_nvml, healthy, tmp_path / "healthy")) == comparable(
        render_snapshot(with_faults(healthy, [parse_fault(fault)]), taken_at=A_MOMENT)
    )


@pytest.mark.parametrize("fault", OLD_DRIVER_FAULTS)
def test_an_old_driver_without_newer_calls(fake_nvml, tmp_path, fault):
    assert_equal(fake_nvml, with_faults(load_scenario("dgx1-v100-cube-mesh"), [parse_fault(fault)]), tmp_path)


def test_a_fault_that_is_not_due_yet(fake_nvml, tmp_path):
    scenario = with_faults(load_scenario("h200-2-vm"), [parse_fault("gpu_lost,gpu=1,after_seconds=30")])
    assert_equal(fake_nvml, scenario, tmp_path / "early", elapsed_seconds=29.0)
    assert_equal(fake_nvml, scenario, tmp_path / "late", elapsed_seconds=30.0)
    late = render_snapshot(scenario, taken_at=A_MOMENT, elapsed_seconds=30.0)
    assert [len(late.gpus), len(late.silent_gpus)] == [1, 1]
