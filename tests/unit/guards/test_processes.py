"""An error means no: every answer that is not "no process" refuses."""

from dataclasses import replace

import pytest

from gpumond.guards.processes import check_processes
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import GpuProcess

JOB = GpuProcess(pid=4711, kind="compute", used_memory_bytes=1 << 30)


def with_processes(snapshot, number, processes):
    gpus = list(snapshot.gpus)
    gpus[number] = replace(gpus[number], processes=processes)
    return replace(snapshot, gpus=tuple(gpus))


@pytest.fixture
def uuids(two_gpus):
    return [gpu.uuid for gpu in two_gpus.gpus]


def test_idle_gpus_are_clear(two_gpus, uuids):
    assert check_processes(two_gpus, uuids).is_clear


@pytest.mark.parametrize(
    ("processes", "evidence"),
    [
        (Value((JOB,)), "pid 4711"),
        (NOT_SUPPORTED, "no process list"),
        (Unreadable(UnreadableReason.NO_PERMISSION), "no_permission"),
        (Unreadable(UnreadableReason.GPU_LOST), "gpu_lost"),
    ],
)
def test_a_foreign_process_and_every_kind_of_not_knowing_refuse(two_gpus, uuids, processes, evidence):
    report = check_processes(with_processes(two_gpus, 1, processes), uuids)
    assert not report.is_clear
    assert evidence in report.evidence


def test_a_gpu_outside_the_set_may_be_busy(two_gpus, uuids):
    assert check_processes(with_processes(two_gpus, 1, Value((JOB,))), uuids[:1]).is_clear


def test_a_gpu_that_is_gone_is_not_idle(two_gpus, uuids):
    alone = replace(two_gpus, gpus=two_gpus.gpus[:1])
    report = check_processes(alone, uuids)
    assert not report.is_clear
    assert uuids[1] in report.evidence


def test_our_own_process_is_no_stranger(two_gpus, uuids):
    assert check_processes(with_processes(two_gpus, 0, Value((JOB,))), uuids, own_pids={4711}).is_clear
