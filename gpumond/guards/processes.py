"""Nobody else computes on the GPUs, by the driver's own process lists. Pure: it is given the lists.

Open device files prove nothing: a monitor holds the same ones as a CUDA job (measured on two H200s). The process list
does tell them apart, as soon as a process has a context, 0.4 s after its start. A client of MPS is in the list of MPS
or behind the server's entry, so it needs no list of its own here. With MIG a GPU is several, each of which may be
somebody's: it is never idle as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gpumond.guards.report import GuardName, GuardReport, GuardSubject, ProcessLists
from gpumond.model.identity import GpuUuid
from gpumond.model.reading import NotSupported, Unreadable, Value
from gpumond.model.topology import Snapshot
from gpumond.model.watch import ForeignProcess

NAME_LENGTH_MAX = 15
"""The kernel cuts a process's name there (TASK_COMM_LEN)."""

SHOWN_MAX = 8


@dataclass(frozen=True, slots=True)
class Presence:
    """Who is on some GPUs besides us. With `doubts` nobody can tell: a list is missing or unreadable."""

    foreign: tuple[ForeignProcess, ...] = ()
    doubts: tuple[str, ...] = ()
    own_pids: frozenset[int] = frozenset()

    @property
    def is_nobody(self) -> bool:
        return not self.foreign and not self.doubts

    def __str__(self) -> str:
        texts = [*(str(process) for process in self.foreign), *self.doubts]
        more = f"; and {len(texts) - SHOWN_MAX} more" if len(texts) > SHOWN_MAX else ""
        return "; ".join(texts[:SHOWN_MAX]) + more


def find_foreign(
    lists: ProcessLists,
    uuids: Collection[GpuUuid],
    *,
    owns: Callable[[int], bool],
    name_of: Callable[[int], str],
    allowed: Collection[str],
) -> Presence:
    """Every process on `uuids` that is neither ours nor allowed by its name."""
    allowed_names = {name[:NAME_LENGTH_MAX] for name in allowed if name}
    foreign: list[ForeignProcess] = []
    doubts: list[str] = []
    own_pids: set[int] = set()
    for uuid in uuids:
        reading = lists.get(uuid)
        if not isinstance(reading, Value):
            doubts.append(_doubt(uuid, reading))
            continue
        for process in reading.value:
            if owns(process.pid):
                own_pids.add(process.pid)
                continue
            name = name_of(process.pid)
            if name not in allowed_names:
                foreign.append(ForeignProcess(process.pid, process.kind, uuid, name))
    return Presence(tuple(foreign), tuple(doubts), frozenset(own_pids))


def _doubt(uuid: GpuUuid, reading: NotSupported | Unreadable | None) -> str:
    match reading:
        case None:
            return f"{uuid} did not answer"
        case NotSupported():
            return f"{uuid} has no process list"
        case Unreadable(reason):
            return f"the process list of {uuid} is unreadable ({reason.value})"


class ProcessesGuard:
    """`find` is `find_foreign` with all but its first two arguments."""

    def __init__(self, find: Callable[[ProcessLists, Collection[GpuUuid]], Presence]) -> None:
        self._find = find

    @property
    def name(self) -> GuardName:
        return GuardName.BUSY

    def check(self, subject: GuardSubject) -> GuardReport:
        divided = _divided(subject.snapshot, subject.uuids)
        if divided:
            return GuardReport(self.name, is_clear=False, evidence="; ".join(divided[:SHOWN_MAX]))
        presence = self._find(subject.process_lists, subject.uuids)
        if not presence.is_nobody:
            return GuardReport(self.name, is_clear=False, evidence=str(presence))
        return GuardReport(self.name, is_clear=True, evidence=f"no process on {len(subject.uuids)} GPUs")


def _divided(snapshot: Snapshot, uuids: Collection[GpuUuid]) -> list[str]:
    """The GPUs that MIG divides, or may divide."""
    found = []
    for gpu in snapshot.gpus:
        if gpu.uuid not in uuids:
            continue
        if isinstance(gpu.mig_mode, Unreadable):
            found.append(f"the MIG mode of {gpu.uuid} is unreadable ({gpu.mig_mode.reason.value})")
        elif isinstance(gpu.mig_mode, Value) and gpu.mig_mode.value:
            found.append(f"MIG divides {gpu.uuid}")
    return found
