"""Real children, a real clock, short limits; and after each test a look whether anything of it is still there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpumond.clock import SystemClock
from gpumond.process.procfs import process_is_alive, read_all_stats
from gpumond.process.supervisor import Command, Limits, ProcessResult, run

PATH = "/usr/local/bin:/usr/bin:/bin"


def pids_of(directory: Path) -> set[int]:
    """Every live process that works in `directory` or has it on its command line; not this one."""
    found = set()
    for stat in read_all_stats():
        process = Path("/proc") / str(stat.pid)
        try:
            is_ours = (
                str(directory) in str((process / "cwd").readlink())
                or str(directory).encode() in (process / "cmdline").read_bytes()
            )
        except OSError:
            continue
        if is_ours and stat.pid != os.getpid() and process_is_alive(stat.pid, stat.start_ticks):
            found.add(stat.pid)
    return found


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Wait for a condition, at most 10 s."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, "waited 10 s"
            time.sleep(0.005)

    return wait


@pytest.fixture
def living(tmp_path) -> Callable[[], set[int]]:
    return lambda: pids_of(tmp_path)


@pytest.fixture
def supervise(tmp_path, clock) -> Callable[..., ProcessResult]:
    """`supervise("sh", "-c", ..., limits=..., ...)` in tmp_path, with an environment that holds PATH."""

    def start(*argv: str, limits: Limits | None = None, environment=None, directory=None, **options):
        command = Command(
            tuple(str(word) for word in argv),
            {"PATH": PATH} if environment is None else environment,
            directory or tmp_path,
            pass_fds=options.pop("pass_fds", ()),
            cgroup=options.pop("cgroup", None),
        )
        return run(command, limits or Limits(total_seconds=20), clock=clock, **options)

    return start


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path):
    """DESIGN rule 9, after every single test: no child, no thread, no file descriptor."""
    threads, descriptors = threading.active_count(), open_descriptors()
    yield
    assert pids_of(tmp_path) == set()
    assert threading.active_count() == threads
    assert open_descriptors() == descriptors
