"""Nobody else computes on the GPUs, by the driver's own process lists. Pure: it reads a snapshot.

Open device files prove nothing: a monitor holds the same ones as a CUDA job (measured on two H200s). The process list
does tell them apart, 0.4 s after a process has a context.
"""

from __future__ import annotations

from collections.abc import Collection

from gpumond.guards.report import GuardReport
from gpumond.model.identity import GpuUuid
from gpumond.model.reading import NotSupported, Unreadable
from gpumond.model.topology import Snapshot

GUARD = "processes"


def check_processes(
    snapshot: Snapshot, uuids: Collection[GpuUuid], *, own_pids: Collection[int] = ()
) -> GuardReport:
    """Clear when every GPU of the set answered and lists no process but `own_pids`."""
    foreign: list[str] = []
    for uuid in uuids:
        gpu = snapshot.gpu(uuid)
        if gpu is None:
            return GuardReport(GUARD, is_clear=False, evidence=f"{uuid} did not answer")
        if isinstance(gpu.processes, NotSupported):
            return GuardReport(GUARD, is_clear=False, evidence=f"{uuid} has no process list")
        if isinstance(gpu.processes, Unreadable):
            reason = gpu.processes.reason.value
            return GuardReport(
                GUARD, is_clear=False, evidence=f"the process list of {uuid} is unreadable ({reason})"
            )
        foreign += [
            f"pid {process.pid} ({process.kind}) on {uuid}"
            for process in gpu.processes.value
            if process.pid not in own_pids
        ]
    if foreign:
        return GuardReport(GUARD, is_clear=False, evidence="; ".join(foreign[:8]))
    return GuardReport(GUARD, is_clear=True, evidence=f"no process on {len(uuids)} GPUs")
