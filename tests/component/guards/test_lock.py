"""Real locks between real processes."""

import subprocess
import sys

import pytest

from gpumond.clock import SystemClock
from gpumond.errors import HostError, LockedError
from gpumond.guards.lock import hold_lock

HOLD = """
import sys, time
from pathlib import Path
from gpumond.clock import SystemClock
from gpumond.guards.lock import hold_lock
with hold_lock(Path(sys.argv[1]), purpose="sweep x", clock=SystemClock()) as lock:
    print("held", flush=True)
    sys.stdin.readline()
"""


def hold(path):
    with hold_lock(path, purpose="test", clock=SystemClock()) as lock:
        return lock


def test_a_second_holder_is_told_who_the_first_one_is(tmp_path):
    path = tmp_path / "run" / "gpu.lock"
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(LockedError) as caught:
            hold(path)
        assert f"pid {child.pid} (sweep x, since 20" in caught.value.message
        child.kill()
    hold(path)


def test_a_benchmark_that_inherited_the_descriptor_keeps_the_lock(tmp_path):
    path = tmp_path / "gpu.lock"
    with hold_lock(path, purpose="test", clock=SystemClock()) as lock:
        orphan = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock.fd,)
        )
    with orphan:
        with pytest.raises(LockedError):
            hold(path)
        orphan.kill()
    hold(path)


def test_a_held_lock_with_garbage_inside_is_still_held(tmp_path):
    path = tmp_path / "gpu.lock"
    with hold_lock(path, purpose="test", clock=SystemClock()):
        path.write_bytes(b"\xff{")
        with pytest.raises(LockedError) as caught:
            hold(path)
        assert "another process" in caught.value.message


def test_a_place_where_no_lock_can_be_made_is_a_host_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match=r"cannot open the lock file"):
        hold(tmp_path / "file" / "gpu.lock")


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "gpu.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostError):
        hold(tmp_path / "gpu.lock")
    assert not (tmp_path / "elsewhere").exists()
