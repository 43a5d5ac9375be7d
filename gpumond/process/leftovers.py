"""Ends whatever a supervised child left behind: grandchildren with a session of their own, orphans of a dead daemon.

A process is signalled through a pidfd that was opened before its identity was checked: never a process that merely has
a number which once was ours. What scrubs its environment *and* leaves the session *and* outlives its parent unseen is
not found: only a cgroup holds that, of the run (cgroup.py) or of the whole unit (its KillMode).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpumond.clock import Clock
from gpumond.process import cgroup as cgroups
from gpumond.process import child
from gpumond.process.procfs import ProcessIdentity, ProcessStat, find_family, process_is_alive, read_stat

LEFTOVER_WAIT_SECONDS = 5.0
POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class KillReport:
    """`killed` got SIGKILL; `remaining` are those of them that were still there when the time was over."""

    killed: tuple[int, ...] = ()
    remaining: tuple[ProcessIdentity, ...] = ()


def kill_leftover(
    pid: int,
    start_ticks: int,
    *,
    clock: Clock,
    wait_seconds: float = LEFTOVER_WAIT_SECONDS,
    known: Iterable[ProcessStat] = (),
    cgroup: Path | None = None,
) -> KillReport:
    """SIGKILL the child with this identity and all that it started, whether it still exists or not, and wait for the
    end of them, at most `wait_seconds`. For runs that a dead daemon left open, and for the end of every run. With a
    `cgroup` the end is proven: the kernel says that nothing alive is in it.
    """
    deadline = clock.monotonic() + wait_seconds
    killed: set[int] = set()
    while (living := living_family(pid, start_ticks, known, cgroup)) or _is_populated(cgroup):
        if cgroup is not None:
            cgroups.kill(cgroup)
        killed |= signal_all(living, signal.SIGKILL)
        if not _wait_until_gone(living, cgroup, deadline, clock):
            break
    return KillReport(tuple(sorted(killed)), tuple(sorted(stat.identity for stat in living)))


def kill_all_in(runs: Path, *, clock: Clock, wait_seconds: float = LEFTOVER_WAIT_SECONDS) -> KillReport:
    """SIGKILL everything in the cgroups of runs, which are nobody's: our daemon has just begun. Removes what is empty."""
    killed = {stat.pid for stat in members_of(runs)}
    for cgroup in cgroups.below(runs):
        cgroups.kill(cgroup)
    deadline = clock.monotonic() + wait_seconds
    while cgroups.is_populated(runs) and clock.monotonic() < deadline:
        clock.sleep(POLL_SECONDS)
    for cgroup in cgroups.below(runs):
        cgroups.remove(cgroup)
    return KillReport(tuple(sorted(killed)), tuple(sorted(stat.identity for stat in members_of(runs))))


def _is_populated(cgroup: Path | None) -> bool:
    return cgroup is not None and cgroups.is_populated(cgroup)


def _wait_until_gone(
    processes: Sequence[ProcessStat], cgroup: Path | None, deadline: float, clock: Clock
) -> bool:
    """Looks at these processes and this cgroup only: a look at all of /proc costs 50 ms on a large host."""
    while any(process_is_alive(stat.pid, stat.start_ticks) for stat in processes) or _is_populated(cgroup):
        if clock.monotonic() >= deadline:
            return False
        clock.sleep(POLL_SECONDS)
    return True


def living_family(
    pid: int, start_ticks: int, known: Iterable[ProcessStat] = (), cgroup: Path | None = None
) -> list[ProcessStat]:
    """`known` is who belonged to it at an earlier look: it still does, also after its parent's end. So does whoever is
    in its `cgroup`.
    """
    marker = f"{child.MARKER}={child.marker_of(pid, start_ticks, child.boot_id())}"
    family = find_family(pid, start_ticks, marker, (*known, *members_of(cgroup)))
    return [stat for stat in family if process_is_alive(stat.pid, stat.start_ticks)]


def members_of(cgroup: Path | None) -> list[ProcessStat]:
    pids = cgroups.members(cgroup) if cgroup is not None else ()
    return [stat for stat in map(read_stat, pids) if stat is not None]


def signal_all(processes: Sequence[ProcessStat], number: signal.Signals) -> set[int]:
    """The pids of those that got the signal."""
    return {stat.pid for stat in processes if signal_process(stat.pid, stat.start_ticks, number)}


def signal_process(pid: int, start_ticks: int, number: signal.Signals) -> bool:
    """Whether exactly this process was there to get the signal."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        stat = read_stat(pid)
        if stat is None or stat.start_ticks != start_ticks:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
