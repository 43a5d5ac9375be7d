"""What /proc says about processes: who they are, whether they live, what their threads wait for. Reads, never signals.

A process is identified by pid and start ticks (field 22 of stat), so that a reused pid is another process. Only files
that take no lock of the process are read without care: `environ`, `cmdline` and `stack` of a process that hangs in a
driver can block the reader for ever, as everybody knows who has seen `ps` hang.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

THREADS_READ_MAX = 512
"""A rank of NCCL has about 20 threads; evidence needs no more than this of a process that has gone wild."""

_PROC = Path("/proc")
_DEAD_STATES = frozenset("ZXx")


@dataclass(frozen=True, slots=True, order=True)
class ProcessIdentity:
    """One process and no later one with its number, in one boot."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """One line of /proc/PID/stat, or of one thread."""

    pid: int
    name: str
    state: str
    """One letter as ps prints it: R runs, S sleeps, D sleeps and takes no signal, T stopped, t traced, Z dead."""
    parent: int
    session: int
    start_ticks: int

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.start_ticks)


@dataclass(frozen=True, slots=True)
class ThreadState:
    """Evidence of a hang: in which kernel function a thread waits; empty where it runs or may not be asked."""

    pid: int
    thread: int
    name: str
    state: str
    waits_in: str


def parse_stat(text: bytes) -> ProcessStat:
    """Raises ValueError where `text` is no stat line. The name may hold spaces, brackets and line feeds."""
    start, end = text.find(b"("), text.rfind(b")")
    fields = text[end + 1 :].split()
    if start < 0 or end < start or len(fields) < 20:  # noqa: PLR2004 - start time is the 20th after the name
        raise ValueError(f"not a stat line: {text[:80]!r}")
    return ProcessStat(
        pid=int(text[:start]),
        name=text[start + 1 : end].decode(errors="replace"),
        state=fields[0].decode(),
        parent=int(fields[1]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
    )


def read_uptime_seconds(proc: Path = _PROC) -> float | None:
    """Since the boot of this host, with the time that it was suspended. None where the kernel does not say."""
    try:
        return float((proc / "uptime").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None


def read_stat(pid: int) -> ProcessStat | None:
    """None where there is no such process (any more)."""
    return _read_stat(_PROC / str(pid) / "stat")


def read_all_stats() -> list[ProcessStat]:
    stats = (read_stat(pid) for pid in _numbers_in(_PROC))
    return [stat for stat in stats if stat is not None]


def process_is_alive(pid: int, start_ticks: int) -> bool:
    """Whether this very process still runs anything.

    A process whose main thread has ended shows as a zombie while another thread of it hangs in a driver: it still
    holds its GPU, so it lives.
    """
    stat = read_stat(pid)
    if stat is None or stat.start_ticks != start_ticks:
        return False
    return stat.state not in _DEAD_STATES or any(
        thread.state not in _DEAD_STATES for thread in _read_thread_stats(pid)
    )


def read_thread_states(pids: Iterable[int]) -> tuple[ThreadState, ...]:
    """Every thread of these processes, as far as there still are any."""
    return tuple(
        ThreadState(pid, thread.pid, thread.name, thread.state, _read_wait_channel(pid, thread.pid))
        for pid in pids
        for thread in _read_thread_stats(pid)
        if thread.state not in _DEAD_STATES
    )


def summarise_threads(threads: Sequence[ThreadState]) -> str:
    """`7 x S in futex_do_wait, 1 x D in nv_wait`: most frequent first."""
    counts = Counter((thread.state, thread.waits_in) for thread in threads)
    return ", ".join(
        f"{count} x {state} in {place}" if place else f"{count} x {state}"
        for (state, place), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def find_family(
    pid: int, start_ticks: int, marker: str, known: Iterable[ProcessStat] = ()
) -> list[ProcessStat]:
    """Every process, dead ones too, that belongs to a supervised child, whether the child itself still exists or not.

    Those are: the child; its session, while its pid is still its own; who was `known` to belong; whoever carries its
    `marker` (`NAME=value`) in the environment; and the descendants of all these. Without the child its session number
    does not count: it may meanwhile belong to somebody's login.
    """
    younger = [stat for stat in read_all_stats() if stat.start_ticks >= start_ticks]
    identities = {(stat.pid, stat.start_ticks) for stat in known} | {(pid, start_ticks)}
    family = {stat.pid: stat for stat in younger if (stat.pid, stat.start_ticks) in identities}
    if pid in family:
        family |= {stat.pid: stat for stat in younger if stat.session == pid}
    family |= _descendants(family, younger)
    strangers = [stat for stat in younger if stat.pid not in family]
    bearers = {stat.pid: stat for stat in strangers if carries_marker(stat.pid, marker)}
    return list({**family, **bearers, **_descendants(bearers, younger)}.values())


def _descendants(roots: Iterable[int], stats: Sequence[ProcessStat]) -> dict[int, ProcessStat]:
    found: dict[int, ProcessStat] = {}
    parents = set(roots)
    while parents:
        children = {stat.pid: stat for stat in stats if stat.parent in parents and stat.pid not in found}
        found |= children
        parents = set(children)
    return found


def carries_marker(pid: int, marker: str) -> bool:
    directory = _PROC / str(pid)
    try:
        # Children run as we do. Other users' processes are none of our business, also when we are root.
        if directory.stat().st_uid != os.geteuid():
            return False
        # environ takes the memory lock, which a thread in state D may hold for ever.
        if any(thread.state == "D" for thread in _read_thread_stats(pid)):
            return False
        return marker.encode() in (directory / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _read_thread_stats(pid: int) -> list[ProcessStat]:
    directory = _PROC / str(pid) / "task"
    threads = (_read_stat(directory / str(thread) / "stat") for thread in _numbers_in(directory))
    return [thread for thread in threads if thread is not None][:THREADS_READ_MAX]


def _read_wait_channel(pid: int, thread: int) -> str:
    with suppress(OSError, UnicodeDecodeError):
        name = (_PROC / str(pid) / "task" / str(thread) / "wchan").read_text(encoding="ascii").strip()
        return "" if name == "0" else name
    return ""


def _read_stat(path: Path) -> ProcessStat | None:
    # A process that ends while it is read gives ESRCH or nothing at all.
    with suppress(OSError, ValueError):
        return parse_stat(path.read_bytes())
    return None


def _numbers_in(directory: Path) -> Iterator[int]:
    with suppress(OSError):
        for name in os.listdir(directory):  # noqa: PTH208 - ten times as fast as iterdir on a host with 5000 processes
            if name.isdigit():
                yield int(name)
