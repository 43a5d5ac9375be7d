"""What a guard is asked and what it answers. An error is a no: idle is proven, never assumed (DESIGN rule 8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from gpumond.errors import GpumondError
from gpumond.model.identity import GpuUuid
from gpumond.model.reading import Reading
from gpumond.model.topology import GpuProcess, Snapshot

ProcessLists: TypeAlias = Mapping[GpuUuid, Reading[tuple[GpuProcess, ...]]]


class GuardName(StrEnum):
    """Also what a refusal is counted under (sweep.reasons)."""

    UNKILLABLE = "unkillable"
    PAUSED = "paused"
    INHIBITED = "inhibited"
    BUSY = "busy"
    NOT_QUIET = "not_quiet"
    SLURM = "slurm"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class GuardSubject:
    """What must be idle: the GPUs of a set and all that share a switch with them (guards.scope).

    `process_lists` is newer than the snapshot. `is_scheduled` tells a sweep of the timetable from one that somebody
    asks for and waits for.
    """

    uuids: tuple[GpuUuid, ...]
    snapshot: Snapshot
    process_lists: ProcessLists
    is_scheduled: bool


@dataclass(frozen=True, slots=True)
class GuardReport:
    """`evidence` is one sentence with the facts that the answer rests on; it is stored with every refusal."""

    guard: GuardName
    is_clear: bool
    evidence: str


class Guard(Protocol):
    """One way to prove that nobody needs the GPUs."""

    @property
    def name(self) -> GuardName: ...

    def check(self, subject: GuardSubject) -> GuardReport:
        """The answer. May raise: `ask_all` makes a no of it."""
        ...


def ask_all(guards: Iterable[Guard], subject: GuardSubject) -> tuple[GuardReport, ...]:
    """Every guard's answer, in their order. All must be clear."""
    return tuple(_ask(guard, subject) for guard in guards)


def _ask(guard: Guard, subject: GuardSubject) -> GuardReport:
    try:
        return guard.check(subject)
    except GpumondError as error:
        return GuardReport(guard.name, is_clear=False, evidence=f"could not be asked: {error.message}")
    except Exception as error:  # noqa: BLE001 - whatever went wrong, nothing is proven
        return GuardReport(guard.name, is_clear=False, evidence=f"could not be asked: {error!r}")
