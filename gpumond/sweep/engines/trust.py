"""Whether a program may be started with our privileges: root must not run what somebody else can replace.

A program with set-user-ID bits is refused for every user: it would not be what we supervise, and the loader would drop the
library path. Looks at the resolved path and every directory above it; a sticky directory such as /tmp protects its entries.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from gpumond.errors import HostError

ROOT_UID = 0


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who may replace a file or directory."""

    path: Path
    uid: int
    mode: int

    @property
    def is_writable_for_others(self) -> bool:
        is_sticky = stat.S_ISDIR(self.mode) and self.mode & stat.S_ISVTX
        return bool(self.mode & stat.S_IWOTH) and not is_sticky

    @property
    def is_set_id(self) -> bool:
        return stat.S_ISREG(self.mode) and bool(self.mode & (stat.S_ISUID | stat.S_ISGID))


def objection(chain: Iterable[Ownership], *, euid: int, trusted_uids: Collection[int]) -> str:
    """Why a program, given with the directories above it, is not to be started by `euid`; empty where it may. Pure."""
    for item in chain:
        if item.is_set_id:
            return f"{item.path} has a set-user-ID or set-group-ID bit"
        if euid != ROOT_UID:
            continue
        if item.is_writable_for_others:
            return f"{item.path} is writable for everybody"
        if item.uid not in {ROOT_UID, *trusted_uids}:
            return f"{item.path} belongs to user {item.uid}, who could replace what root would run"
    return ""


def require_trusted(program: Path, *, trusted_uids: Collection[int] = (), euid: int | None = None) -> None:
    """Raises HostError where `program` must not be started with our privileges."""
    real = program.resolve()
    reason = objection(
        map(_ownership, (real, *real.parents)),
        euid=os.geteuid() if euid is None else euid,
        trusted_uids=trusted_uids,
    )
    if reason:
        raise HostError(
            reason,
            hint="Run gpumond as a user of its own, as its unit does; or give root a copy that only root can write; or "
            "name the owner in engines.trusted_owners.",
        )


def _ownership(path: Path) -> Ownership:
    status = path.stat()
    return Ownership(path, status.st_uid, status.st_mode)
