"""Ends whatever a supervised child left behind: grandchildren with a session of their own, orphans of a dead daemon.

A process is signalled through a pidfd that was opened before its identity was checked: never a process that merely has
a number which once was ours. What scrubs its environment *and* leaves the session *and* outlives its parent unseen is
not found: only a cgroup holds that (KillMode of the unit).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpumond.clock import Clock
from gpumond.process import child
from gpumond.process.procfs import ProcessStat, find_family, process_is_alive, read_stat

LEFTOVER_WAIT_SECONDS = 5.0
POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class KillReport:
    """`killed` got SIGKILL; `remaining` are those of them that were still there when the time was over."""

    killed: tuple[int, ...] = ()
    remaining: tuple[int, ...] = ()


def kill_leftover(
    pid: int,
    start_ticks: int,
    *,
    clock: Clock,
    wait_seconds: float = LEFTOVER_WAIT_SECONDS,
    known: Iterable[ProcessStat] = (),
) -> KillReport:
    """SIGKILL the child with this identity and all that it started, whether it still exists or not, and wait for the
    end of them, at most `wait_seconds`. For runs that a dead daemon left open, and for the end of every run.
    """
    deadline = clock.monotonic() + wait_seconds
    killed: set[int] = set()
    while living := living_family(pid, start_ticks, known):
        killed |= signal_all(living, signal.SIGKILL)
        if not _wait_until_gone(living, deadline, clock):
            break
    return KillReport(tuple(sorted(killed)), tuple(sorted(stat.pid for stat in living)))


def _wait_until_gone(processes: Sequence[ProcessStat], deadline: float, clock: Clock) -> bool:
    """Looks at these processes only: a look at all of /proc costs 50 ms on a large host."""
    while any(process_is_alive(stat.pid, stat.start_ticks) for stat in processes):
        if clock.monotonic() >= deadline:
            return False
        clock.sleep(POLL_SECONDS)
    return True


def living_family(pid: int, start_ticks: int, known: Iterable[ProcessStat] = ()) -> list[ProcessStat]:
    """`known` is who belonged to it at an earlier look: it still does, also after its parent's end."""
    marker = f"{child.MARKER}={child.marker_of(pid, start_ticks, child.boot_id())}"
    family = find_family(pid, start_ticks, marker, known)
    return [stat for stat in family if process_is_alive(stat.pid, stat.start_ticks)]


def family_is_alive(pid: int, start_ticks: int) -> bool:
    """Whether anything of a supervised child is left, be it only a grandchild: the question after LOST."""
    return bool(living_family(pid, start_ticks))


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
