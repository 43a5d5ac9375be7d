"""Only an answer that says "nobody" is a yes; what real Slurm prints is in tests/system/test_slurm.py."""

import pytest

from gpumond.guards.report import GuardName, GuardSubject, ask_all
from gpumond.guards.slurm import SlurmGuard
from gpumond.process.ask import Answer

NODE = "NodeName=gpu-17 Arch=x86_64 State={state} Reason=maintenance [root@2026-11-29T02:00:00]\n"
NOBODY = Answer("", "")
SOMEBODY = Answer("41|RUNNING|eve|train\n", "")


@pytest.fixture
def check(two_gpus):
    """`check(queue, node, own_job)` -> the guard's answer; `node` is a state, or an Answer."""

    def make(queue, node="IDLE", own_job=""):
        answer = node if isinstance(node, Answer) else Answer(NODE.format(state=node), "")
        guard = SlurmGuard(
            lambda command: queue if command[0] == "squeue" else answer, node="gpu-17", own_job=own_job
        )
        (report,) = ask_all([guard], GuardSubject((), two_gpus, {}, is_scheduled=True))
        assert report.guard is GuardName.SLURM
        return report

    return make


@pytest.mark.parametrize("state", ["IDLE", "IDLE+DRAIN", "IDLE+CLOUD", "IDLE+DYNAMIC_NORM"])
def test_an_idle_node_without_a_job_is_clear(check, state):
    assert check(NOBODY, state).is_clear


@pytest.mark.parametrize(
    "state",
    ["MIXED", "ALLOCATED", "DOWN", "DOWN+DRAIN", "IDLE*", "IDLE~", "IDLE+PLANNED", "IDLE+RESERVED", "IDLE+COMPLETING",
     "IDLE+MAINTENANCE", "FUTURE", "UNKNOWN", "IDLE+SOMETHING_NEW"],
)  # fmt: skip
def test_every_other_state_is_a_no_with_slurms_words(check, state):
    report = check(NOBODY, state)
    assert not report.is_clear
    assert "maintenance" in report.evidence


def test_a_job_is_a_no_and_named(check):
    report = check(SOMEBODY)
    assert not report.is_clear
    assert "41 of eve (RUNNING)" in report.evidence


@pytest.mark.parametrize(
    ("queue", "node"),
    [
        (Answer("", "squeue: error: cannot contact", "squeue exited with status 1"), "IDLE"),
        (Answer("rubbish", ""), "IDLE"),
        (NOBODY, Answer("", "", "scontrol did not end within 15 s")),
        (NOBODY, Answer("Node gpu-17 not found", "")),
    ],
)
def test_whatever_is_no_answer_is_a_no(check, queue, node):
    assert not check(queue, node).is_clear


def test_a_sweep_that_is_a_job_wants_to_be_alone_on_an_allocated_node(check):
    assert check(SOMEBODY, "ALLOCATED", own_job="41").is_clear
    assert check(SOMEBODY, "MIXED", own_job="41").is_clear
    assert not check(SOMEBODY, "ALLOCATED", own_job="42").is_clear
    assert not check(SOMEBODY, "IDLE", own_job="41").is_clear
    assert not check(SOMEBODY, "ALLOCATED+COMPLETING", own_job="41").is_clear
    two = Answer(SOMEBODY.output + "43|RUNNING|eve|other\n", "")
    assert not check(two, "MIXED", own_job="41").is_clear
