"""Which processes are ours: the running benchmark with all that it started, and what of earlier ones fades.

A process that is gone may stay in a driver's list for a moment; one that took its number is somebody else.
"""

from __future__ import annotations

import threading
from pathlib import Path

from gpumond.process import cgroup, child
from gpumond.process.procfs import ProcessStat, carries_marker, read_stat

ANCESTORS_MAX = 64


class OwnProcesses:
    """Asked by the thread that watches, told by the one that runs benchmarks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._benchmark: tuple[int, int] | None = None
        self._cgroup: Path | None = None
        self._known: dict[int, int] = {}

    def add(self, pid: int, start_ticks: int, cgroup: Path | None = None) -> None:
        """From now on this child, a session leader, is ours, with whoever is in its `cgroup`."""
        with self._lock:
            self._benchmark = (pid, start_ticks)
            self._cgroup = cgroup
            self._known[pid] = start_ticks

    @property
    def is_unused(self) -> bool:
        """Whether nothing of ours has run yet."""
        return self._benchmark is None

    def owns(self, pid: int) -> bool:
        with self._lock:
            stat = read_stat(pid)
            if stat is None:
                return pid in self._known
            if self._known.get(pid) == stat.start_ticks:
                return True
            is_ours = self._benchmark is not None and _belongs(stat, *self._benchmark, self._cgroup)
            if is_ours:
                self._known[pid] = stat.start_ticks
            return is_ours


def name_of(pid: int) -> str:
    """As the kernel has it, cut at 15 characters; empty where there is no such process."""
    stat = read_stat(pid)
    return stat.name if stat is not None else ""


def _belongs(stat: ProcessStat, benchmark: int, start_ticks: int, directory: Path | None) -> bool:
    """By cgroup, by session, by descent, or by the mark in its environment: a launcher's daemon starts ranks outside
    all but the first and the last.
    """
    if stat.start_ticks < start_ticks:
        return False
    if directory is not None and stat.pid in cgroup.members(directory):
        return True
    leader = read_stat(benchmark)
    if leader is not None and leader.start_ticks == start_ticks and stat.session == benchmark:
        return True
    marker = f"{child.MARKER}={child.marker_of(benchmark, start_ticks, child.boot_id())}"
    return _descends(stat, benchmark, start_ticks) or carries_marker(stat.pid, marker)


def _descends(stat: ProcessStat, benchmark: int, start_ticks: int) -> bool:
    ancestor: ProcessStat | None = stat
    for _ in range(ANCESTORS_MAX):
        if ancestor is None or ancestor.start_ticks < start_ticks:
            return False
        if ancestor.pid == benchmark:
            return ancestor.start_ticks == start_ticks
        ancestor = read_stat(ancestor.parent)
    return False
