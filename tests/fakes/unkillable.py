"""Processes that survive SIGKILL, for as long as a test wants.

`hold(pid)`: a tracer that never lets its tracee exit, for anything that root, or its parent's kin, may trace.
`frozen_filesystem(directory)`: whoever writes to it sleeps in state D, as in a driver; needs root and a loop device.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TRACER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
PTRACE_SEIZE, PTRACE_O_TRACEEXIT = 0x4206, 0x40
failed = libc.ptrace(PTRACE_SEIZE, int(sys.argv[1]), None, PTRACE_O_TRACEEXIT)
print(os.strerror(ctypes.get_errno()) if failed else "traced", flush=True)
sys.stdin.read()
"""


class Tracers:
    """`let_go` ends all that was held."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []

    def hold(self, pid: int) -> None:
        tracer = subprocess.Popen(
            [sys.executable, "-c", TRACER, str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._processes.append(tracer)
        answer = tracer.stdout.readline().strip()
        if answer != "traced":
            pytest.skip(f"ptrace: {answer}")

    def let_go(self) -> None:
        while self._processes:
            self._processes.pop().communicate()


class Filesystem:
    def __init__(self, mount_point: Path) -> None:
        self.mount_point = mount_point
        self._is_frozen = False

    def freeze(self) -> None:
        _do("fsfreeze", "--freeze", str(self.mount_point))
        self._is_frozen = True

    def thaw(self) -> None:
        if self._is_frozen:
            _do("fsfreeze", "--unfreeze", str(self.mount_point))
            self._is_frozen = False


@contextmanager
def frozen_filesystem(directory: Path) -> Iterator[Filesystem]:
    """A file system of its own in `directory`; thawed and unmounted at the end. Skips the test where there is none."""
    image, mount_point = directory / "image", directory / "frozen"
    mount_point.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    for command in (("mkfs.ext4", "-q", str(image)), ("mount", "-o", "loop", str(image), str(mount_point))):
        try:
            _do(*command)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no file system on a loop device: {error}")
    filesystem = Filesystem(mount_point)
    try:
        yield filesystem
    finally:
        filesystem.thaw()
        _do("umount", "--lazy", str(mount_point))


def _do(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
