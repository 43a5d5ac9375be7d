"""A cgroup of its own for each benchmark, below one that systemd has delegated to us: no process can leave it unseen.

Session, mark and descent (leftovers.py) find all that does not hide on purpose; a cgroup holds what hides too, and
`cgroup.kill` ends all of it in one step, also what forks faster than it can be counted. That needs `Delegate=` in the
unit (deploy/systemd/gpumond.service.d/cgroup-delegation.conf). The cgroup of ours then has two leaves, because no cgroup may hold both
processes and groups with controllers:

    gpumond.service/main        the daemon, its probes and its watch
    gpumond.service/runs/<id>   one benchmark, with all that it has started

Invariants: a cgroup that nobody has delegated is never written to, also where root could: it is systemd's, or the
login's. No controller is enabled, no limit set. Names of this kernel interface: man 7 cgroups, cgroup-v2.rst.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from gpumond.errors import HostError

MAIN = "main"
RUNS = "runs"

PROCS = "cgroup.procs"
_KILL = "cgroup.kill"
_EVENTS = "cgroup.events"
_MARKS = ("user.delegate", "trusted.delegate")
"""What systemd writes on a cgroup that it delegates; before release 251 only the second, which only root can read."""


def claim() -> Path | None:
    """Move this process into the leaf `main` of its cgroup; returns where the cgroups of runs go.

    None where our cgroup is not delegated to us. Raises HostError where it is, and cannot be used all the same.
    """
    own = own_directory(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    if own is None:
        return None
    # After an exec of ourselves, or with DelegateSubgroup=main, we are in the leaf already.
    root = own.parent if own.name == MAIN and _is_delegated(own.parent) else own
    if not _is_delegated(root):
        return None
    try:
        for leaf in (root / MAIN, root / RUNS):
            leaf.mkdir(exist_ok=True)
        if root == own:
            (root / MAIN / PROCS).write_text("0")
    except OSError as error:
        raise HostError(
            f"the delegated cgroup {root} cannot be used: {error.strerror}",
            hint="Set ProtectControlGroups=no beside Delegate=, or leave the drop-in out.",
        ) from error
    if not (root / RUNS / _KILL).exists():
        raise HostError(f"{root} has no {_KILL}", hint="It came with Linux 5.14; leave the drop-in out.")
    return root / RUNS


def own_directory(cgroup: str, mountinfo: str) -> Path | None:
    """Where the cgroup of a process is in the file system, from the two files of /proc; None where cgroup v2 is not
    mounted, where it is the root, which nobody delegates, or outside what the mount shows.
    """
    own = next((line[3:] for line in cgroup.splitlines() if line.startswith("0::")), "/")
    if own == "/" or ".." in PurePosixPath(own).parts:
        return None
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        if source.split()[:1] == ["cgroup2"]:
            top, mount_point = mount.split()[3:5]
            if PurePosixPath(own).is_relative_to(top):
                return Path(mount_point) / PurePosixPath(own).relative_to(top)
    return None


def _is_delegated(directory: Path) -> bool:
    for mark in _MARKS:
        with suppress(OSError):
            if os.getxattr(directory, mark) == b"1":
                return True
    # An old systemd, asked by a user who may not see its mark: with Delegate= it gives the cgroup to User=.
    with suppress(OSError):
        return directory.stat().st_uid == os.geteuid() != directory.parent.stat().st_uid
    return False


def create(directory: Path) -> int:
    """Make a cgroup; returns a descriptor through which one process can enter it by writing `0`. Raises HostError."""
    try:
        directory.mkdir()
        return os.open(directory / PROCS, os.O_WRONLY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(
            f"the cgroup {directory} could not be made: {error.strerror}",
            hint="Restart gpumond, or remove the drop-in with Delegate=.",
        ) from error


def members(directory: Path) -> frozenset[int]:
    """Every process in it, or in a cgroup below it; none where it does not exist."""
    found: set[int] = set()
    for cgroup in _tree(directory):
        # A threaded cgroup does not list processes; its parent does.
        with suppress(OSError):
            found |= {int(line) for line in (cgroup / PROCS).read_text().split()}
    return frozenset(found - {0})  # 0: a process that our PID namespace does not show


def is_populated(directory: Path) -> bool:
    """Whether anything alive is in it or below it; zombies are not. The kernel's word, without a race."""
    with suppress(OSError):
        return "populated 1" in (directory / _EVENTS).read_text().splitlines()
    return False


def kill(directory: Path) -> None:
    """SIGKILL to all in it and below it, at once; what is forked meanwhile gets it too."""
    with suppress(OSError):
        (directory / _KILL).write_text("1")


def below(runs: Path) -> list[Path]:
    """The cgroups of single runs."""
    try:
        return sorted(path for path in runs.iterdir() if path.is_dir())
    except OSError:
        return []


def remove(directory: Path) -> None:
    """Remove it with all below it, as far as they are empty."""
    for cgroup in reversed(list(_tree(directory))):
        with suppress(OSError):
            cgroup.rmdir()


def _tree(directory: Path) -> Iterator[Path]:
    """Parents first."""
    for path, _, _ in os.walk(directory):
        yield Path(path)
