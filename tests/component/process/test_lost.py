"""What survived SIGKILL is remembered: as that very process, in this boot, also by somebody who starts later."""

from __future__ import annotations

import json
import sys

import pytest
from unkillable import frozen_filesystem

from gpumond.model.run import Cause
from gpumond.process.lost import LostProcesses
from gpumond.process.procfs import ProcessIdentity, process_is_alive
from gpumond.process.supervisor import Limits

ONE, OTHER = ProcessIdentity(4242, 1000), ProcessIdentity(99, 1000)


class Kernel:
    """Who lives, told by the test."""

    def __init__(self, *living):
        self.living = set(living)

    def is_alive(self, pid, start_ticks):
        return ProcessIdentity(pid, start_ticks) in self.living


@pytest.fixture
def file(tmp_path):
    return tmp_path / "benchmark.lost"


@pytest.fixture
def kernel():
    return Kernel(ONE, OTHER)


def remembering(file, kernel):
    return LostProcesses(file, is_alive=kernel.is_alive)


def test_it_is_remembered_until_that_very_process_is_gone(file, kernel):
    lost = remembering(file, kernel)
    assert lost.living_pids == ()
    lost.remember([ONE])
    lost.remember([OTHER])
    assert lost.living_pids == (99, 4242)
    kernel.living = {OTHER, ProcessIdentity(4242, 2000)}  # the number is somebody else's now
    assert lost.living_pids == (99,)


def test_whoever_starts_later_knows_it_and_whoever_is_there_hears_of_it(file, kernel):
    daemon, job = remembering(file, kernel), remembering(file, kernel)
    daemon.remember([ONE])
    job.remember([OTHER])
    assert [it.living_pids for it in (daemon, job, remembering(file, kernel))] == [(99, 4242)] * 3


def test_the_file_goes_with_the_last_of_them(file, kernel):
    lost = remembering(file, kernel)
    lost.remember([ONE, OTHER])
    kernel.living = {ONE}
    lost.forget_gone()
    assert json.loads(file.read_text())["processes"] == [[4242, 1000]]
    kernel.living = set()
    lost.forget_gone()
    assert list(file.parent.iterdir()) == []
    kernel.living = {ONE}
    assert lost.living_pids == ()


def test_another_boot_has_other_processes(file, kernel):
    remembering(file, kernel).remember([ONE])
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | {"boot_id": "another boot"}))
    assert remembering(file, kernel).living_pids == ()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"boot_id": 1}', '{"pid": 4242, "start_ticks": 1000}', "\u00e9"]
)
def test_a_file_that_says_nothing(file, kernel, text):
    file.write_text(text, encoding="utf-8")
    lost = remembering(file, kernel)
    assert lost.living_pids == ()
    lost.remember([ONE])
    assert remembering(file, kernel).living_pids == (4242,)


def test_a_file_that_cannot_be_written_is_as_good_as_none(tmp_path, kernel):
    for lost in (remembering(tmp_path / "absent" / "benchmark.lost", kernel), remembering(None, kernel)):
        lost.remember([ONE])
        assert lost.living_pids == (4242,)
        lost.forget_gone()
        assert lost.living_pids == (4242,)


def test_nothing_lost_is_nothing_written(file, kernel):
    remembering(file, kernel).remember([])
    assert not file.exists()


WRITES = "import sys; print(1, flush=True); open(sys.argv[1], 'w').write('x')"


@pytest.mark.system
def test_a_process_in_state_d_is_lost_until_the_kernel_lets_go(tmp_path, file, supervise, eventually):
    """A frozen file system holds it as a dead driver would: SIGKILL stays pending."""
    with frozen_filesystem(tmp_path) as filesystem:
        filesystem.freeze()
        result = supervise(
            sys.executable,
            "-c",
            WRITES,
            filesystem.mount_point / "file",
            limits=Limits(20, row_seconds=0.5, grace_seconds=0.2, lost_seconds=0.5),
            on_line=lambda _line: True,
        )
        assert result.cause is Cause.LOST
        assert "1 x D in " in result.detail
        assert result.duration_seconds < 5
        assert result.leftovers == (ProcessIdentity(result.pid, result.start_ticks),)
        LostProcesses(file).remember(result.leftovers)
        later = LostProcesses(file)
        assert later.living_pids == (result.pid,)
        filesystem.thaw()
        eventually(lambda: not process_is_alive(result.pid, result.start_ticks))
        assert later.living_pids == ()
        later.forget_gone()
        assert not file.exists()
    supervise("true")  # reaps it
