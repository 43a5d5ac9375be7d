"""Runs one child from start to the last of its descendants: the only door to `subprocess`.

One thread a child, blocked in `run` for the child's whole life: the end of that thread would kill the child (child.py).
It waits on the child's output, its pidfd and the cancellation at once, so that a full pipe, a deadline and a cancel
never wait for each other. asyncio cannot do this: its `wait()` hangs after `kill()` while a pipe is full
(engineering.md 2.2).

Invariants: whatever happens, an exception of a callback included, no descendant is left that a signal can end; memory
is bounded; nothing waits for ever. A cgroup made for a run is gone with it. What survives SIGKILL is reported as LOST, with what its threads hang in, and left
alone. It refuses to know what a row is, and never retries.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from gpumond.clock import Clock
from gpumond.errors import HostError
from gpumond.model.run import Cause
from gpumond.process import cgroup, child, explain
from gpumond.process.cancellation import Cancellation
from gpumond.process.command import Command, Limits, ProcessResult
from gpumond.process.leftovers import KillReport, kill_all_in, kill_leftover
from gpumond.process.procfs import ThreadState, process_is_alive, read_stat
from gpumond.process.supervision import StartedChild, Supervision

__all__ = [
    "Cancellation",
    "Command",
    "KillReport",
    "Limits",
    "ProcessResult",
    "ThreadState",
    "kill_all_in",
    "kill_leftover",
    "process_is_alive",
    "run",
]

ABANDON_SECONDS = 5.0
"""How long a child is awaited after SIGKILL when a callback raised: the exception must reach the caller."""

_lost: list[subprocess.Popen[bytes]] = []
_lost_lock = threading.Lock()


def run(
    command: Command,
    limits: Limits,
    *,
    clock: Clock,
    merge_stderr: bool = True,
    on_start: Callable[[int, int], None] | None = None,
    on_line: Callable[[str], bool] | None = None,
    cancellation: Cancellation | None = None,
) -> ProcessResult:
    """Run `command` and return when nothing is left of it, or when it is lost.

    `on_start(pid, start_ticks)` is called once the program itself runs. `on_line` gets every complete line of standard
    output (of both streams where they are merged), decoded, without its end, cut at LINE_BYTES_MAX; it returns whether
    the line completed a row. Both run in this thread; if one raises, the child is killed and the exception goes on.
    `clock` must keep real time: deadlines are waited for by the kernel.
    """
    cancellation = cancellation or Cancellation()
    started_at = clock.monotonic()
    _reap_lost()
    if cancellation.is_cancelled:
        return _without_process(Cause.CANCELLED, cancellation.reason or "cancelled")
    with ExitStack() as stack:
        try:
            process, started = _start(command, limits, merge_stderr=merge_stderr, stack=stack)
        except (OSError, ValueError, HostError, subprocess.SubprocessError) as error:
            return _without_process(Cause.NOT_STARTED, _why_not_started(command, error))
        supervision = Supervision(
            started,
            limits,
            clock=clock,
            started_at=started_at,
            cancellation=cancellation,
            on_start=on_start,
            on_line=on_line,
        )
        try:
            supervision.watch()
        except BaseException:
            kill_leftover(
                started.pid,
                started.start_ticks,
                clock=clock,
                wait_seconds=ABANDON_SECONDS,
                cgroup=started.cgroup,
            )
            _reap(process)
            raise
        exit_status, cpu_seconds = _reap(process)
        return supervision.conclude(
            exit_status, cpu_seconds, program=command.argv[0], directory=command.directory
        )


def _without_process(cause: Cause, detail: str) -> ProcessResult:
    return ProcessResult(
        cause, exit_status=None, pid=None, start_ticks=None, duration_seconds=0.0, output=b"", detail=detail
    )


def _why_not_started(command: Command, error: Exception) -> str:
    if isinstance(error, HostError):
        return f"{error.message}; {error.hint}"
    if isinstance(error, FileNotFoundError | PermissionError) and error.filename == sys.executable:
        return explain.broken_trampoline(str(error))
    if isinstance(error, OSError) and error.errno:
        return explain.start_failure(command.argv[0], command.directory, error.errno)
    return f"{command.argv[0]} could not be started: {error}; correct its arguments and environment"


# --- starting ---


def _start(
    command: Command, limits: Limits, *, merge_stderr: bool, stack: ExitStack
) -> tuple[subprocess.Popen[bytes], StartedChild]:
    """Start the trampoline. What must be closed at the end of the run goes on `stack`."""
    report_fd, report_write_fd = os.pipe2(os.O_CLOEXEC)
    stack.callback(os.close, report_fd)
    with (
        os.fdopen(report_write_fd, "wb"),
        _environment_file(command.environment) as environment,
        _cgroup_entrance(command, stack) as cgroup_fd,
    ):
        descriptors = (environment.fileno(), report_write_fd, cgroup_fd)
        process = subprocess.Popen(
            _trampoline(command, limits, descriptors),
            env=_trampoline_environment(),
            cwd=command.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge_stderr else subprocess.PIPE,
            start_new_session=True,
            pass_fds=(*(fd for fd in descriptors if fd >= 0), *command.pass_fds),
            bufsize=0,
        )
    try:
        return process, _describe(process, command.cgroup, report_fd, stack)
    except OSError:
        process.kill()
        process.wait()
        raise


@contextmanager
def _cgroup_entrance(command: Command, stack: ExitStack) -> Iterator[int]:
    """A descriptor for the trampoline to enter the cgroup of the run, -1 where it gets none."""
    if command.cgroup is None:
        yield -1
        return
    descriptor = cgroup.create(command.cgroup)
    stack.callback(cgroup.remove, command.cgroup)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _describe(
    process: subprocess.Popen[bytes], directory: Path | None, report_fd: int, stack: ExitStack
) -> StartedChild:
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stack.callback(stream.close)
    pidfd = os.pidfd_open(process.pid)
    stack.callback(os.close, pidfd)
    stat = read_stat(process.pid)
    if stat is None or process.stdout is None:
        raise OSError(f"/proc/{process.pid}/stat cannot be read")
    return StartedChild(
        pid=process.pid,
        start_ticks=stat.start_ticks,
        pidfd=pidfd,
        report_fd=report_fd,
        stdout_fd=process.stdout.fileno(),
        stderr_fd=process.stderr.fileno() if process.stderr else None,
        cgroup=directory,
    )


def _trampoline(command: Command, limits: Limits, descriptors: Sequence[int]) -> list[str]:
    """`descriptors`: of the environment, of the report, and of the cgroup, or -1."""
    file_bytes_max = -1 if limits.file_bytes_max is None else limits.file_bytes_max
    numbers = (os.getpid(), *descriptors, command.umask, file_bytes_max)
    options = [str(number) for number in numbers]
    return [sys.executable, "-I", "-S", child.__file__, *options, "--", *command.argv]


def _trampoline_environment() -> dict[str, str]:
    """Of our own environment only what our Python may need to start."""
    library_path = os.environ.get("LD_LIBRARY_PATH")
    return {"LC_ALL": "C"} | ({"LD_LIBRARY_PATH": library_path} if library_path else {})


def _environment_file(environment: Mapping[str, str]) -> IO[bytes]:
    """In memory, in the format of /proc/PID/environ."""
    entries = [os.fsencode(f"{name}={value}") for name, value in environment.items()]
    if any(b"\0" in entry for entry in entries):
        raise ValueError("a NUL byte in an environment variable")
    file = os.fdopen(os.memfd_create("gpumond-environment"), "w+b")
    file.write(b"".join(entry + b"\0" for entry in entries))
    file.seek(0)
    return file


# --- ending ---


def _reap(process: subprocess.Popen[bytes]) -> tuple[int | None, float | None]:
    """Exit status and CPU seconds, without waiting: what is not over yet is reaped when it is."""
    try:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
    except ChildProcessError:  # somebody ignores SIGCHLD: the kernel has thrown the status away
        process.returncode = 0
        return None, None
    if pid == 0:
        with _lost_lock:
            _lost.append(process)
        return None, None
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def _reap_lost() -> None:
    with _lost_lock:
        _lost[:] = [process for process in _lost if process.poll() is None]
