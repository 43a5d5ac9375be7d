"""One sentence for a person: why a child did not start, and how it ended. Looks at files only to tell causes apart."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

from gpumond.model.run import Cause
from gpumond.process.command import Limits

_NO_PROCESS = "no process could be made ({reason}); raise the limit (`ulimit -u`, TasksMax=) or free memory"
_START_FAILURES = {
    errno.ENOTDIR: "{program} does not exist; install it, or correct its path",
    errno.ENOEXEC: "{program} is no program for this machine ({machine}), or a script without `#!`; build it on this host",
    errno.ENOSYS: "this kernel has no pidfd_open; gpumond needs Linux 5.3 or later",
    errno.ETXTBSY: "{program} is being written; try again when that is done",
    errno.E2BIG: "{program} got too many arguments or too large an environment; shorten them",
    errno.EAGAIN: _NO_PROCESS,
    errno.ENOMEM: _NO_PROCESS,
    errno.EMFILE: _NO_PROCESS,
    errno.ENFILE: _NO_PROCESS,
}


def start_failure(program: str, directory: Path, number: int) -> str:
    """Why `program` could not be started in `directory`, from the errno of the attempt, and what to do."""
    if not directory.is_dir():
        return f"the working directory {directory} does not exist; create it"
    if number == errno.ENOENT:
        return _missing(program)
    if number == errno.EACCES:
        return _refused(program)
    text = _START_FAILURES.get(number, "{program} could not be started ({reason}); see `man 2 execve`")
    return text.format(program=program, reason=os.strerror(number), machine=os.uname().machine)


def _missing(program: str) -> str:
    if "/" not in program:
        return f"{program} is not on PATH; install it, or configure its full path"
    if Path(program).exists():
        # execve says "no such file" of a script whose interpreter, or a binary whose loader, is missing.
        return f"the interpreter or loader that {program} asks for does not exist; build it on this host"
    return f"{program} does not exist; install it, or correct its path"


def _refused(program: str) -> str:
    if Path(program).is_dir():
        return f"{program} is a directory, not a program; correct the path"
    if os.access(program, os.X_OK):
        return f"{program} may not be run: its file system is mounted noexec, or its interpreter is not executable"
    return f"{program} is not executable for this user; run `chmod +x {program}`"


def broken_trampoline(last_line: str) -> str:
    """The child ended before it became the command."""
    return f"the process could not be prepared ({last_line or 'no message'}); repair the Python that runs gpumond"


def exit_of(status: int | None) -> str:
    """Empty for 0, which needs no words."""
    if status is None:
        return "ended, but who traces it, or an ignored SIGCHLD, has its exit status"
    if status == 0:
        return ""
    if status > 0:
        return f"exited with status {status}"
    if -status == signal.SIGKILL:
        return (
            "was killed by SIGKILL from outside gpumond; the kernel's out-of-memory killer is a usual sender"
        )
    return f"was ended by {signal_name(-status)}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def why_ended(cause: Cause, limits: Limits, *, rows: int, reason: str) -> str:
    """Why gpumond ended a child."""
    match cause:
        case Cause.NO_FIRST_ROW:
            return f"printed no row within {limits.first_row_seconds:g} s"
        case Cause.ROW_STALLED:
            return f"printed no further row within {limits.row_seconds:g} s after row {rows}"
        case Cause.TOTAL_TIMEOUT:
            return f"did not end within {limits.total_seconds:g} s"
        case Cause.OUTPUT_LIMIT:
            return f"printed more than {limits.max_bytes} bytes"
        case Cause.CANCELLED:
            return reason or "cancelled"
        case _:
            return cause.value


def lost(pids: tuple[int, ...], limits: Limits, threads: str) -> str:
    """What survived SIGKILL hangs in the kernel; no signal, and not gpumond, can end it."""
    numbers = ", ".join(str(pid) for pid in pids)
    return (
        f"still there {limits.lost_seconds:g} s after SIGKILL: pid {numbers} ({threads or 'no thread readable'}); "
        "look at `dmesg`, and reboot the host if it does not go"
    )
