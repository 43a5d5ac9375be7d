"""An error means no: every answer that is not "no process but ours and the allowed ones" refuses."""

from dataclasses import replace
from functools import partial

import pytest

from gpumond.guards.processes import ProcessesGuard, find_foreign
from gpumond.guards.report import GuardSubject
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import GpuProcess

JOB = GpuProcess(pid=4711, kind="compute", used_memory_bytes=1 << 30)
DISPLAY = GpuProcess(pid=1000, kind="graphics", used_memory_bytes=1 << 20)
NAMES = {4711: "python", 1000: "Xorg", 1001: "nvidia-cuda-mps"}


def guard(*, own=(), allowed=()):
    return ProcessesGuard(
        partial(
            find_foreign,
            owns=lambda pid: pid in own,
            name_of=lambda pid: NAMES.get(pid, ""),
            allowed=allowed,
        )
    )


@pytest.fixture
def subject(two_gpus):
    """`subject(first, second)` -> two GPUs with these process lists."""
    uuids = tuple(gpu.uuid for gpu in two_gpus.gpus)

    def make(*lists, snapshot=two_gpus, asked=uuids):
        return GuardSubject(asked, snapshot, dict(zip(uuids, lists, strict=False)), is_scheduled=True)

    return make


IDLE = Value(())


def test_idle_gpus_are_clear(subject):
    assert guard().check(subject(IDLE, IDLE)).is_clear


@pytest.mark.parametrize(
    ("processes", "evidence"),
    [
        (Value((JOB,)), "pid 4711 python (compute)"),
        (Value((replace(JOB, kind="mps"),)), "(mps)"),
        (Value((replace(JOB, pid=99),)), "pid 99 (compute)"),
        (NOT_SUPPORTED, "no process list"),
        (Unreadable(UnreadableReason.NO_PERMISSION), "no_permission"),
        (Unreadable(UnreadableReason.GPU_LOST), "gpu_lost"),
    ],
)
def test_a_foreign_process_and_every_kind_of_not_knowing_refuse(subject, processes, evidence):
    report = guard().check(subject(IDLE, processes))
    assert not report.is_clear
    assert evidence in report.evidence


def test_a_gpu_that_nobody_asked_for_may_be_busy(subject, two_gpus):
    assert guard().check(subject(IDLE, Value((JOB,)), asked=(two_gpus.gpus[0].uuid,))).is_clear


def test_a_gpu_that_is_gone_is_not_idle(subject, two_gpus):
    report = guard().check(subject(IDLE))
    assert not report.is_clear
    assert two_gpus.gpus[1].uuid in report.evidence


def test_our_own_process_is_no_stranger(subject):
    assert guard(own={4711}).check(subject(Value((JOB,)), IDLE)).is_clear


def test_a_process_is_allowed_by_its_name_alone(subject):
    busy = subject(Value((DISPLAY,)), IDLE)
    assert not guard().check(busy).is_clear
    assert guard(allowed={"Xorg"}).check(busy).is_clear
    assert not guard(allowed={"Xorg"}).check(subject(Value((DISPLAY, JOB)), IDLE)).is_clear


def test_the_kernel_cuts_names_and_so_do_we(subject):
    server = subject(Value((replace(JOB, pid=1001),)), IDLE)
    assert guard(allowed={"nvidia-cuda-mps-server"}).check(server).is_clear


def test_a_process_without_a_name_is_never_allowed(subject):
    gone = subject(Value((replace(JOB, pid=99),)), IDLE)
    assert not guard(allowed={"", "Xorg"}).check(gone).is_clear


@pytest.mark.parametrize("mig", [Value(True), Unreadable(UnreadableReason.TIMEOUT)])
def test_a_gpu_that_mig_divides_is_never_idle(subject, two_gpus, mig):
    first, second = two_gpus.gpus
    snapshot = replace(two_gpus, gpus=(first, replace(second, mig_mode=mig)))
    report = guard().check(subject(IDLE, IDLE, snapshot=snapshot))
    assert not report.is_clear
    assert "MIG" in report.evidence
    asked = guard().check(subject(IDLE, IDLE, snapshot=snapshot, asked=(first.uuid,)))
    assert asked.is_clear


def test_much_evidence_is_counted_not_listed(subject):
    many = Value(tuple(replace(JOB, pid=5000 + number) for number in range(20)))
    report = guard().check(subject(many, IDLE))
    assert "and 12 more" in report.evidence
