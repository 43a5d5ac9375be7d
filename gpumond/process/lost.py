"""Remembers the processes that survived SIGKILL, until those very processes are gone or the host has rebooted.

Such a process sits in a call of the driver that does not return, and whatever makes the same call will join it there. So
who starts probes or benchmarks asks here first. The file is for whoever asks after us: a daemon that starts again, a
command, a job of Slurm's. It is read at every question, since any of these may have written it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from gpumond.process.child import boot_id
from gpumond.process.procfs import ProcessIdentity, process_is_alive


class LostProcesses:
    """`memory_file` None remembers them in this process only. Used by several threads; a doubtful file is no memory."""

    def __init__(
        self,
        memory_file: Path | None = None,
        *,
        is_alive: Callable[[int, int], bool] = process_is_alive,
    ) -> None:
        self._memory_file = memory_file
        self._is_alive = is_alive
        # What a full disk keeps out of the file.
        self._own: frozenset[ProcessIdentity] = frozenset()

    @property
    def living_pids(self) -> tuple[int, ...]:
        """Those that are still there."""
        return tuple(sorted(process.pid for process in self._living()))

    def remember(self, processes: Iterable[ProcessIdentity]) -> None:
        found = frozenset(processes)
        if found:
            self._own |= found
            self._write(self._living())

    def forget_gone(self) -> None:
        """Drop those that are gone; the file with the last of them."""
        living = self._living()
        self._own &= living
        if living != self._recall():
            self._write(living)

    def _living(self) -> frozenset[ProcessIdentity]:
        known = self._own | self._recall()
        return frozenset(it for it in known if self._is_alive(it.pid, it.start_ticks))

    def _recall(self) -> frozenset[ProcessIdentity]:
        """What the file says of this boot: after another one the same numbers are other processes."""
        if self._memory_file is None:
            return frozenset()
        try:
            document = json.loads(self._memory_file.read_text(encoding="ascii"))
            if document["boot_id"] != boot_id():
                return frozenset()
            return frozenset(ProcessIdentity(int(pid), int(ticks)) for pid, ticks in document["processes"])
        except (OSError, ValueError, TypeError, LookupError):
            return frozenset()

    def _write(self, processes: frozenset[ProcessIdentity]) -> None:
        """Whole or not at all. A disk that is full as well: then only a restart forgets them."""
        if self._memory_file is None:
            return
        with contextlib.suppress(OSError):
            if not processes:
                self._memory_file.unlink(missing_ok=True)
                return
            pairs = sorted((it.pid, it.start_ticks) for it in processes)
            new = self._memory_file.with_name(f"{self._memory_file.name}.{os.getpid()}")
            new.write_text(json.dumps({"boot_id": boot_id(), "processes": pairs}), encoding="ascii")
            new.replace(self._memory_file)
