"""A cgroup as systemd delegates one, on whatever machine has a cgroup v2 that this user may write to.

with delegated_cgroup() as directory:
    process = subprocess.Popen(["sleep", "60"], preexec_fn=partial(enter, directory))
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from gpumond.process import cgroup


def mount_point() -> Path:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, source = line.partition(" - ")
        if source.startswith("cgroup2 "):
            return Path(mount.split()[4])
    pytest.skip("no cgroup v2 is mounted here")


def enter(directory: Path) -> None:
    (directory / cgroup.PROCS).write_text("0")


@contextmanager
def delegated_cgroup(*, is_marked: bool = True) -> Iterator[Path]:
    """`is_marked`: with the mark that systemd puts on what it delegates. Skips the test where it cannot be made."""
    directory = mount_point() / f"gpumond-test-{uuid4().hex[:12]}"
    try:
        directory.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made in {directory.parent}: {error.strerror}")
    try:
        if not (directory / "cgroup.kill").exists():
            pytest.skip("this kernel has no cgroup.kill")
        if is_marked:
            os.setxattr(directory, "user.delegate", b"1")
        yield directory
    finally:
        cgroup.kill(directory)
        deadline = time.monotonic() + 10
        while cgroup.is_populated(directory) and time.monotonic() < deadline:
            time.sleep(0.01)
        cgroup.remove(directory)
    assert not directory.exists(), "a process in it survived SIGKILL"
