"""The probe as a process, on the fake driver library and a sysfs tree, started as the daemon starts it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from gpumond import codec
from gpumond.clock import SystemClock
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import Snapshot, Vendor
from gpumond.probe.launcher import ProbeFailure, ProbeLauncher, ProbeResult, default_probe_command
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.simulate.sysfs import write_sysfs

PATIENT_SECONDS = 60.0
HASTY_SECONDS = 3.0
PATH = "/usr/bin:/bin"


@pytest.fixture
def take(fake_nvml, tmp_path):
    """`take("gpu_lost,gpu=1", ...)` -> what the launcher made of the probe's run on two H200s with these faults."""

    def take(
        *faults, scenario="h200-2-vm", deadline_seconds=PATIENT_SECONDS, with_errors=False, change=None
    ) -> ProbeResult:
        host = with_faults(load_scenario(scenario), [parse_fault(fault) for fault in faults])
        host = host if change is None else change(host)
        roots = write_sysfs(host, tmp_path / f"roots-{len(list(tmp_path.iterdir()))}")
        launcher = ProbeLauncher(
            (*default_probe_command(), "--sysfs", str(roots.sysfs), "--proc", str(roots.proc)),
            {"PATH": PATH, **fake_nvml.environment(host)},
            deadline_seconds=deadline_seconds,
            clock=SystemClock(),
        )
        return launcher.take(with_errors=with_errors)

    return take


def snapshot_of(result: ProbeResult) -> Snapshot:
    assert result.snapshot is not None, result.detail
    return result.snapshot


def test_two_healthy_gpus_are_read_completely(take):
    snapshot = snapshot_of(take())
    assert snapshot.vendor is Vendor.NVIDIA
    assert snapshot.driver == Value("580.159.04")
    assert [gpu.pci_bus_id for gpu in snapshot.gpus] == ["0000:00:06.0", "0000:00:07.0"]
    assert [pair.nvlinks for pair in snapshot.pairs] == [Value(18), Value(18)]
    # sysfs says -1; the driver's memory affinity knows better
    assert [gpu.numa_node for gpu in snapshot.gpus] == [Value(0), Value(0)]
    assert snapshot.silent_gpus == ()


def test_error_counters_are_read_only_on_request(take):
    quick = snapshot_of(take()).gpus[0].nvlinks
    full = snapshot_of(take(with_errors=True)).gpus[0].nvlinks
    assert {link.errors.reason for link in quick.value} == {UnreadableReason.NOT_ASKED}
    assert {name for link in full.value for name in link.errors.value} == {"replay", "recovery", "crc"}


def test_one_lost_gpu_leaves_every_fact_about_the_others(take):
    healthy = {gpu.uuid: gpu for gpu in snapshot_of(take(scenario="hgx-h200-8")).gpus}
    snapshot = snapshot_of(take("gpu_lost,gpu=3", scenario="hgx-h200-8"))
    assert len(snapshot.gpus) == 7
    assert all(gpu == healthy[gpu.uuid] for gpu in snapshot.gpus)
    assert len(snapshot.pairs) == 7 * 6
    (silent,) = snapshot.silent_gpus
    assert silent.cause.reason is UnreadableReason.GPU_LOST
    assert silent.pci_bus_id is not None


def test_a_gpu_that_may_not_be_opened_is_silent_and_says_why(take):
    snapshot = snapshot_of(take("no_permission,gpu=0"))
    assert [gpu.index for gpu in snapshot.gpus] == [1]
    assert [silent.cause.reason for silent in snapshot.silent_gpus] == [UnreadableReason.NO_PERMISSION]


def test_a_gpu_that_answers_from_memory_and_is_lost_counts_as_lost(take):
    """Name and UUID may still come out of the driver's memory when the device has left the bus."""
    snapshot = snapshot_of(take("call_fails,call=nvmlDeviceGetUtilizationRates,status=15,gpu=0"))
    assert [silent.cause.reason for silent in snapshot.silent_gpus] == [UnreadableReason.GPU_LOST]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("driver_mismatch", UnreadableReason.DRIVER_MISMATCH),
        ("driver_not_loaded", UnreadableReason.DRIVER_NOT_LOADED),
        ("call_fails,call=nvmlInitWithFlags,status=4", UnreadableReason.NO_PERMISSION),
        ("call_fails,call=nvmlInitWithFlags,status=999", UnreadableReason.DRIVER),
        ("call_fails,call=nvmlDeviceGetCount,status=17", UnreadableReason.NO_PERMISSION),
    ],
)
def test_a_driver_that_cannot_be_used_is_one_answer_and_not_one_for_each_gpu(take, fault, reason):
    snapshot = snapshot_of(take(fault))
    assert isinstance(snapshot.driver, Unreadable)
    assert snapshot.driver.reason is reason
    assert snapshot.vendor is Vendor.NVIDIA  # sysfs shows its GPUs
    assert (snapshot.gpus, snapshot.silent_gpus) == ((), ())


def test_a_host_without_a_driver_library_gets_an_answer(tmp_path):
    """The test machine has none, and the empty trees show no GPU."""
    command = (*default_probe_command(), "--sysfs", str(tmp_path), "--proc", str(tmp_path))
    result = ProbeLauncher(
        command, {"PATH": PATH}, deadline_seconds=PATIENT_SECONDS, clock=SystemClock()
    ).take()
    snapshot = snapshot_of(result)
    assert snapshot.vendor is None
    assert isinstance(snapshot.driver, Unreadable)
    assert snapshot.driver.reason is UnreadableReason.NO_LIBRARY


@pytest.mark.parametrize("call", ["nvmlInitWithFlags", "nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetName"])
def test_a_call_that_never_returns_costs_the_deadline_and_no_more(take, call):
    result = take(f"call_hangs,call={call}", deadline_seconds=HASTY_SECONDS)
    assert result.failure is ProbeFailure.TIMEOUT
    assert "did not end within 3 s" in result.detail


def test_a_library_that_crashes_is_named_by_its_signal(take):
    result = take("call_crashes,call=nvmlDeviceGetName,gpu=1")
    assert result.failure is ProbeFailure.CRASHED
    assert "SIGSEGV" in result.detail


def test_a_sleeping_gpu_is_not_opened(take):
    """A handle would wake it; here it would hang for ever."""

    def second_sleeps(host):
        return replace(host, gpus=(host.gpus[0], replace(host.gpus[1], is_runtime_suspended=True)))

    result = take("call_hangs,call=nvmlDeviceGetHandleByPciBusId,gpu=1", change=second_sleeps)
    snapshot = snapshot_of(result)
    assert [gpu.index for gpu in snapshot.gpus] == [0]
    assert [silent.cause.reason for silent in snapshot.silent_gpus] == [UnreadableReason.ASLEEP]


def test_without_sysfs_gpus_are_found_by_index(fake_nvml, tmp_path):
    host = with_faults(load_scenario("h200-2-vm"), [parse_fault("gpu_lost,gpu=1")])
    command = (*default_probe_command(), "--sysfs", str(tmp_path), "--proc", str(tmp_path))
    environment = {"PATH": PATH, **fake_nvml.environment(host)}
    snapshot = snapshot_of(
        ProbeLauncher(command, environment, deadline_seconds=PATIENT_SECONDS, clock=SystemClock()).take()
    )
    assert [gpu.index for gpu in snapshot.gpus] == [0]
    assert [(silent.index, silent.pci_bus_id) for silent in snapshot.silent_gpus] == [(1, None)]


def test_an_old_driver_leaves_gaps_and_no_errors(take):
    snapshot = snapshot_of(take(scenario="dgx1-v100-cube-mesh", with_errors=True))
    assert len(snapshot.gpus) == 8
    assert {gpu.recovery_action for gpu in snapshot.gpus} == {NOT_SUPPORTED}
    assert {pair.nvlinks.value for pair in snapshot.pairs} == {0, 1, 2}
    assert "crc_flit" in snapshot.gpus[0].nvlinks.value[0].errors.value


def test_whatever_is_printed_on_the_way_does_not_reach_the_document(tmp_path):
    """Drivers print, and so do the libraries of others: amdsmi writes to standard output when it is imported."""
    source = (
        "import os, runpy, sys, gpumond.probe.snapshot as snapshot\n"
        "take = snapshot.take\n"
        "def noisy(**options):\n"
        "    os.write(1, b'from C\\n'); print('from Python')\n"
        "    return take(**options)\n"
        "snapshot.take = noisy\n"
        f"sys.argv = ['probe', '--sysfs', {str(tmp_path)!r}, '--proc', {str(tmp_path)!r}]\n"
        "runpy.run_module('gpumond.probe', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, check=True)
    assert codec.decode(Snapshot, done.stdout).vendor is None
    assert b"from C" in done.stderr
    assert b"from Python" in done.stderr


def test_a_probe_that_cannot_do_its_work_fails_loudly(tmp_path):
    done = subprocess.run([*default_probe_command(), "--no-such-option"], capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"--no-such-option" in done.stderr
