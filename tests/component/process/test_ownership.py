"""Whose a process is, with real ones: the child, its session, what hid from it, and nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from gpumond.process import child
from gpumond.process.ownership import OwnProcesses, name_of
from gpumond.process.procfs import read_stat

SLEEP = "import time; time.sleep(60)"
PARENT = f"""
import subprocess, sys, time
inner = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=%s)
print(inner.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def start():
    """`start(script, session, environment)` -> a process that does not outlive the test."""
    started = []

    def make(script=SLEEP, *, session=True, environment=None):
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            start_new_session=session,
            stdout=subprocess.PIPE,
            env=os.environ | (environment or {}),
        )
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.communicate()


def identity(pid):
    return pid, read_stat(pid).start_ticks


@pytest.mark.parametrize("hides", [False, True])
def test_the_child_and_its_children_are_ours(start, hides):
    parent = start(PARENT % hides)
    inner = int(parent.stdout.readline())
    own = OwnProcesses()
    assert not own.owns(parent.pid)
    own.add(*identity(parent.pid))
    assert own.owns(parent.pid)
    assert own.owns(inner)
    parent.kill()
    parent.wait()
    assert own.owns(inner), "known once, known for good"
    os.kill(inner, 9)


def test_a_stranger_is_not_ours_younger_or_older(start):
    older = start()
    ours = start()
    younger = start()
    own = OwnProcesses()
    own.add(*identity(ours.pid))
    assert not own.owns(older.pid)
    assert not own.owns(younger.pid)
    assert not own.owns(os.getpid())


def test_what_carries_our_mark_is_ours_wherever_it_runs(start):
    ours = start()
    mark = child.marker_of(*identity(ours.pid), child.boot_id())
    time.sleep(0.02)  # a start tick later
    rank = start(environment={child.MARKER: mark})
    own = OwnProcesses()
    own.add(*identity(ours.pid))
    assert own.owns(rank.pid)


def test_one_that_is_gone_fades_and_its_number_is_no_alibi(start):
    ours = start()
    pid, ticks = identity(ours.pid)
    own = OwnProcesses()
    own.add(pid, ticks)
    ours.kill()
    ours.wait()
    assert own.owns(pid), "the driver may list it for a moment"
    assert not own.owns(4194304)
    later = OwnProcesses()
    later.add(start().pid, 1)  # the number is there, and somebody else's
    assert not any(later.owns(known) for known in later._known)


def test_names_are_the_kernels(start):
    assert name_of(start().pid).startswith("python")
    assert name_of(4194304) == ""
