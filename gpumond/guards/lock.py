"""Exclusive locks on files, with the holder's name inside.

Two locks exist: one per store ("one daemon"), one per machine ("one benchmark"). The second one's descriptor is handed
to the benchmark, so that it outlives a killed daemon for exactly as long as the orphan does (engineering.md 3.2).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpumond.clock import Clock
from gpumond.errors import HostError, LockedError
from gpumond.process.procfs import process_is_alive, read_stat

_MODE = 0o660  # the daemon and administrators share the machine-wide lock through its group


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who took a lock. The lock itself may have been inherited: by a benchmark that outlived this process."""

    pid: int
    start_ticks: int
    purpose: str
    since: str

    @property
    def is_alive(self) -> bool:
        return process_is_alive(self.pid, self.start_ticks)

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.purpose}, since {self.since})"


@dataclass(frozen=True, slots=True)
class HeldLock:
    path: Path
    fd: int


@contextlib.contextmanager
def hold_lock(path: Path, *, purpose: str, clock: Clock) -> Iterator[HeldLock]:
    """Hold the lock for the length of the block. Raises LockedError when somebody else has it, HostError when no
    lock file can be made there.
    """
    fd = _open(path)
    try:
        if not _try_lock(fd, path):
            holder = _read_holder(fd)
            raise LockedError(
                f"{path} is held by {holder or 'another process'}",
                holder=str(holder or ""),
                hint="Wait until it has finished. If the process named above is gone, `fuser` names what is left of it.",
            )
        _write_holder(fd, purpose, clock)
        yield HeldLock(path, fd)
    finally:
        # Closing gives up our share only: a benchmark that inherited the descriptor keeps the lock.
        os.close(fd)


def holder_of(path: Path) -> LockHolder | None:
    """Who holds the lock now; None where nobody does. Makes no file. Raises HostError where that cannot be told."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        if _try_lock(fd, path):
            return None
        return _read_holder(fd) or LockHolder(0, 0, "unknown", "unknown")
    finally:
        os.close(fd)


def _unusable(path: Path, error: OSError) -> HostError:
    return HostError(
        f"cannot open the lock file {path}: {error.strerror}",
        hint=f"Make {path.parent} writable for this user, run as root or as the daemon's user, or set another lock_file.",
    )


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o775, parents=True, exist_ok=True)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        except FileExistsError:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        _share(fd, path.parent)
    except OSError as error:
        raise _unusable(path, error) from error
    return fd


def _share(fd: int, directory: Path) -> None:
    """A lock that root made must not lock out the daemon's user: the directory says who that is."""
    os.fchmod(fd, _MODE)
    if os.geteuid() == 0:
        owner = directory.stat()
        os.fchown(fd, owner.st_uid, owner.st_gid)


def _try_lock(fd: int, path: Path) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise HostError(f"cannot lock {path}: {error.strerror}") from error
    return True


def _write_holder(fd: int, purpose: str, clock: Clock) -> None:
    pid = os.getpid()
    stat = read_stat(pid)
    holder = {
        "pid": pid,
        "start_ticks": stat.start_ticks if stat else 0,
        "purpose": purpose,
        "since": clock.now().isoformat(timespec="seconds"),
    }
    # A lock that is held but cannot be described (full disk) is still a lock.
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(holder).encode(), 0)


def _read_holder(fd: int) -> LockHolder | None:
    try:
        holder = json.loads(os.pread(fd, 4096, 0))
        return LockHolder(
            int(holder["pid"]), int(holder["start_ticks"]), str(holder["purpose"]), str(holder["since"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
