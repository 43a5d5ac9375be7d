"""The state directory and the history file as files: made, owned, locked, moved aside. Knows nothing of SQL.

- Made by root in somebody's directory, a file belongs to that somebody: a daemon that runs as its own user must be able
  to write what an administrator's command has made. SQLite does the same for -wal and -shm (it copies owner and mode
  of the database when its effective user is root), so nothing root does here locks the daemon out.
- Nothing is followed through a symbolic link, because root works in a directory that another user may write.
- The directory itself carries a flock: alone (exclusive) a process may create, check, migrate or move aside the history;
  everybody else shares it. So a file is never replaced under a process that has it open.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path

from gpumond.clock import Clock
from gpumond.errors import StoreError, StoreErrorKind

HISTORY_NAME = "history.db"
DIRECTORY_MODE = 0o750
FILE_MODE = 0o640
LOCK_TIMEOUT_SECONDS = 5.0
LOCK_POLL_SECONDS = 0.02
_MOUNT_POINT_FIELD = 4
_SIDE_FILES = ("-wal", "-shm")
_OCTAL = re.compile(r"\\([0-7]{3})")  # how mountinfo writes space, tab, newline and backslash

# WAL shares memory between processes through the file system; over a network it loses data (sqlite.org/wal.html).
_NETWORK_FILE_SYSTEMS = frozenset(
    {
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.ceph",
        "fuse.glusterfs",
        "fuse.sshfs",
        "gfs2",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "ocfs2",
        "smb3",
        "smbfs",
    }
)

_KINDS = {
    errno.ENOSPC: StoreErrorKind.FULL,
    errno.EDQUOT: StoreErrorKind.FULL,
    errno.EROFS: StoreErrorKind.READ_ONLY,
    errno.EACCES: StoreErrorKind.READ_ONLY,
    errno.EPERM: StoreErrorKind.READ_ONLY,
}


def make_directory(directory: Path) -> None:
    """Make the state directory where it is missing. Raises StoreError."""
    try:
        directory.mkdir(mode=DIRECTORY_MODE, parents=True)
    except FileExistsError:
        if not directory.is_dir():
            raise StoreError(
                f"the state directory {directory} is not a directory",
                kind=StoreErrorKind.UNAVAILABLE,
                hint="Move that file away, or choose another state directory.",
            ) from None
    except OSError as error:
        raise file_error(f"cannot make the state directory {directory}", directory, error) from error
    else:
        directory.chmod(DIRECTORY_MODE)  # whatever the umask is


def make_file(path: Path) -> None:
    """Make an empty history file that belongs to the owner of its directory. Raises StoreError."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise file_error(f"cannot make {path}", path.parent, error) from error
    try:
        _give_to_owner(fd, path.parent)
    finally:
        os.close(fd)


def adopt_file(path: Path) -> None:
    """Give a file that SQLite itself has made (a copy) the mode and the owner that it must have."""
    with contextlib.suppress(OSError):  # the copy is good as it is; at worst only its maker can read it
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _give_to_owner(fd, path.parent)
        finally:
            os.close(fd)


def _give_to_owner(fd: int, directory: Path) -> None:
    os.fchmod(fd, FILE_MODE)
    if os.geteuid() == 0:
        owner = directory.stat()
        os.fchown(fd, owner.st_uid, owner.st_gid)


def require_writable(path: Path) -> None:
    """Raises StoreError where this user may not write the history file, or beside it."""
    _require_access(path.parent, os.W_OK | os.X_OK)
    if size_of(path) is not None:
        _require_access(path, os.R_OK | os.W_OK)


def _require_access(place: Path, rights: int) -> None:
    if not os.access(place, rights, effective_ids=True):
        raise StoreError(
            f"{place} is not writable for this process",
            kind=StoreErrorKind.READ_ONLY,
            hint=hint_for(StoreErrorKind.READ_ONLY, place),
        )


def size_of(path: Path) -> int | None:
    """The size of the history file, None where there is none. Raises StoreError where it is no regular file."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(
            f"cannot look at {path}: {error.strerror}",
            kind=StoreErrorKind.UNAVAILABLE,
            hint=hint_for(StoreErrorKind.READ_ONLY, path),
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(
            f"{path} is not a regular file",
            kind=StoreErrorKind.UNAVAILABLE,
            hint="The history must be a file of its own; to keep it elsewhere, set another state directory.",
        )
    return status.st_size


def identity_of(path: Path) -> tuple[int, int] | None:
    """What stays the same while a file only changes its contents; None where there is no file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def starts_with(path: Path, beginning: bytes) -> bool:
    """Whether the file begins with those bytes. Raises StoreError.

    Only for a process that is alone with the history: closing any descriptor of a file gives up every POSIX lock that
    the process has on it, also those of SQLite (sqlite.org/howtocorrupt.html).
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return os.read(fd, len(beginning)) == beginning
        finally:
            os.close(fd)
    except OSError as error:
        raise file_error(f"cannot read {path}", path, error) from error


def has_wal(path: Path) -> bool:
    """Whether changes wait beside the history that are not in it yet."""
    try:
        return Path(f"{path}-wal").stat().st_size > 0
    except OSError:
        return False


def move_aside(path: Path, now: datetime) -> Path:
    """Rename a damaged history with its WAL, so that it can be looked at later; returns its new name."""
    target = free_name(path, "corrupt", now)
    try:
        path.rename(target)
        for suffix in _SIDE_FILES:
            with contextlib.suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{target}{suffix}")
    except OSError as error:
        raise file_error(f"cannot move the damaged {path} aside", path.parent, error) from error
    return target


def free_name(path: Path, label: str, now: datetime) -> Path:
    """`history.db.LABEL-20261129T020000Z`, with a number behind it where that exists."""
    base = f"{path}.{label}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    name, number = Path(base), 1
    while name.exists() or name.is_symlink():
        number += 1
        name = Path(f"{base}.{number}")
    return name


class DirectoryLock:
    """The flock of the state directory, held as long as a store is open for writing."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        try:
            self._fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise file_error(f"cannot open the state directory {directory}", directory, error) from error

    def acquire(self) -> bool:
        """True: this process is alone with the history. False: others have it open, or just had."""
        deadline = self._clock.monotonic() + LOCK_TIMEOUT_SECONDS
        while True:
            if self._try(fcntl.LOCK_EX):
                return True
            if self._try(fcntl.LOCK_SH):
                return False
            if self._clock.monotonic() >= deadline:
                raise StoreError(
                    f"another process has been preparing {self._directory / HISTORY_NAME} for {LOCK_TIMEOUT_SECONDS:g} s",
                    kind=StoreErrorKind.BUSY,
                    hint=hint_for(StoreErrorKind.BUSY, self._directory),
                )
            self._clock.sleep(LOCK_POLL_SECONDS)

    def give_up(self) -> None:
        """Step back, so that whoever prepares the history can get on."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def share(self) -> None:
        """Let others in, when the history is ready."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def release(self) -> None:
        os.close(self._fd)

    def _try(self, operation: int) -> bool:
        try:
            fcntl.flock(self._fd, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def refuse_network_file_system(directory: Path, mounts: str | None = None) -> None:
    """Raises StoreError where the directory is on a file system that other hosts may share."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
        except OSError:
            return  # no proc: nothing can be said, and nothing is refused
    kind = file_system_of(directory.resolve(), mounts)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise StoreError(
            f"{directory} is on a network file system ({kind})",
            kind=StoreErrorKind.UNAVAILABLE,
            hint="SQLite's WAL needs a local disk: set `state_directory` to one.",
        )


def file_system_of(path: Path, mounts: str) -> str:
    """The type of the file system of `path`, out of /proc/self/mountinfo (proc(5)); empty where it is not listed."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        fields, _, source = line.partition(" - ")
        words = fields.split()
        if len(words) <= _MOUNT_POINT_FIELD or not source:
            continue
        mount_point = Path(_unescape(words[_MOUNT_POINT_FIELD]))
        # Later lines are mounted over earlier ones.
        if path.is_relative_to(mount_point) and len(mount_point.parts) >= best:
            best, kind = len(mount_point.parts), source.split()[0]
    return kind


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def free_bytes(directory: Path) -> int:
    """What this user may still write. Raises StoreError."""
    try:
        status = os.statvfs(directory)
    except OSError as error:
        raise file_error(f"cannot ask for the free space of {directory}", directory, error) from error
    return status.f_bavail * status.f_frsize


def file_error(message: str, path: Path, error: OSError) -> StoreError:
    """The StoreError for an OSError at `path`."""
    kind = _KINDS.get(error.errno or 0, StoreErrorKind.UNAVAILABLE)
    return StoreError(f"{message}: {error.strerror}", kind=kind, hint=hint_for(kind, path))


def hint_for(kind: StoreErrorKind, path: Path) -> str:
    """What to do about `kind` at `path`."""
    match kind:
        case StoreErrorKind.FULL:
            return f"Free space on the file system of {path}; nothing that is stored is lost."
        case StoreErrorKind.BUSY:
            return f"Another process holds the write lock; `fuser -v {path}` names it. Try again when it has finished."
        case StoreErrorKind.CORRUPT:
            return "Stop every gpumond on this host and start the daemon: it moves the file aside and begins a new one."
        case StoreErrorKind.NEWER_SCHEMA:
            return "Install the newer gpumond again, or set another state directory."
        case StoreErrorKind.READ_ONLY:
            return (
                f"{_owner_of(path)} Run the command as that user or as root, or set another state directory."
            )
        case StoreErrorKind.UNAVAILABLE:
            return f"Look at {path} and at the file system that it is on."


def _owner_of(path: Path) -> str:
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):
            status = place.stat()
            return (
                f"{place} belongs to uid {status.st_uid} (mode {stat.S_IMODE(status.st_mode):04o}), "
                f"this process is uid {os.geteuid()}."
            )
    return f"This process is uid {os.geteuid()}."
