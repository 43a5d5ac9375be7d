"""What a supervised run is given and what it gives back. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpumond.model.run import Cause
from gpumond.process.procfs import ProcessIdentity, ThreadState


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. `environment` is complete: nothing is inherited. `pass_fds` stay open in the child and in whatever
    it starts: a lock among them outlives us exactly as long as they do.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    pass_fds: tuple[int, ...] = ()
    umask: int = 0o077
    cgroup: Path | None = None
    """A cgroup to be made for the child and all that it starts, below one that is ours (cgroup.py)."""

    def __post_init__(self) -> None:
        if not self.argv:
            raise ValueError("a command needs at least a program")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may take. Seconds are monotonic: a suspended host takes no time."""

    total_seconds: float
    first_row_seconds: float | None = None
    """None: the first row is not waited for."""
    row_seconds: float | None = None
    """From one row to the next, and from the last one to the end. None: the rows are not watched."""
    grace_seconds: float = 10.0
    """From SIGTERM to SIGKILL; 0 is SIGKILL at once."""
    lost_seconds: float = 60.0
    """From SIGKILL until the child is given up as lost: it hangs in the kernel."""
    head_bytes: int = 256 * 1024
    tail_bytes: int = 64 * 1024
    max_bytes: int = 16 * 1024 * 1024
    """Of both streams together; more ends the child. A full sweep prints 5 kB, with every line of NCCL 165 kB."""
    file_bytes_max: int | None = None
    """RLIMIT_FSIZE. None by default, because it counts for NCCL's segments in /dev/shm too."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How it went. `pid` and `start_ticks` are None where no process was made."""

    cause: Cause
    exit_status: int | None
    """As subprocess has it: a negative number is a signal. None where it is not over, or never began."""
    pid: int | None
    start_ticks: int | None
    duration_seconds: float
    output: bytes
    """Head, a marker line that counts what is missing, tail."""
    errors: bytes = b""
    """Standard error, where it was kept apart."""
    dropped_bytes: int = 0
    detail: str = ""
    """One sentence, where the cause is not EXITED with status 0."""
    cpu_seconds: float | None = None
    """User and system time of the child and of those of its children that it waited for."""
    signalled_at: float | None = None
    """The monotonic instant of our first signal; None where we sent none."""
    clear_seconds: float | None = None
    """From our first signal until nothing was left; None where we sent none."""
    evidence: tuple[ThreadState, ...] = ()
    """What its threads did when a limit was over, or when they had survived SIGKILL."""
    leftovers: tuple[ProcessIdentity, ...] = ()
    """What was still there after SIGKILL, the child itself among them."""

    @property
    def last_error_line(self) -> str:
        """The last thing that it said: of a Python traceback, the exception itself. Empty where it said nothing."""
        return self.errors.decode(errors="replace").strip().rpartition("\n")[2]
