"""What the kernel said since the last look: journal -> events of our devices -> store -> status board.

Runs beside the snapshots, and reads on from where it stopped, also after a restart: what the kernel said before the host
crashed is what one wants to know. A host without a journal, or a user who may not read it, is not evaluated, which is no
failure. Events of other devices (a disk's AER) are not ours.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from gpumond.board import StatusBoard
from gpumond.clock import Clock
from gpumond.errors import StoreError
from gpumond.log import get_logger
from gpumond.model.identity import PciBusId
from gpumond.model.kernel_log import KernelEventKind, KernelTally, merged, name_of, tally_of, without_process
from gpumond.model.run import Cause
from gpumond.model.status import CollectorStatus
from gpumond.model.topology import Snapshot
from gpumond.monitor.collectors import with_collector
from gpumond.parsers.kernel_log import kernel_event, read_entry
from gpumond.process import supervisor
from gpumond.process.command import Command, Limits
from gpumond.store.sqlite import Store

log = get_logger("kernel_log")

COLLECTOR: Final = "kernel_log"

JOURNALCTL: Final = ("journalctl",)
_OPTIONS: Final = ("--output=json", "--output-fields=MESSAGE", "--quiet", "--no-pager")
KERNEL_MESSAGES: Final = "_TRANSPORT=kernel"
"""Not `-k`, which is this and `-b`: the last words before a crash belong to the boot before this one."""

DEADLINE_SECONDS: Final = 20.0
OUTPUT_BYTES_MAX: Final = 256 << 20
"""A boot's kernel log is 5,000 lines of 350 bytes. A storm of AER may be longer: then the next look reads on."""

TALLIES_MAX: Final = 1000
"""Of one look, and of what waits for a store that cannot be written; more devices and codes than these are no host's."""

_TOLD_MAX: Final = 20
"""Log lines about one look."""

_NO_ACCESS_HINT: Final = "Add the daemon's user to the group systemd-journal: deploy/systemd/gpumond.service.d/kernel-log.conf does that."
_NO_JOURNAL_HINT: Final = "gpumond reads the kernel log through systemd's journal; `dmesg | gpumond kernel-log --from -` needs none."


def no_access_hint() -> str:
    """What to do where no kernel message can be read."""
    return _NO_ACCESS_HINT if shutil.which(JOURNALCTL[0]) else _NO_JOURNAL_HINT


class Tallies:
    """Events, counted as they come: a storm has a million of them, of a few kinds."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[KernelEventKind, PciBusId, str], KernelTally] = {}

    def add(self, tally: KernelTally) -> None:
        known = self._by_key.get(tally.key)
        if known is not None or len(self._by_key) < TALLIES_MAX:
            self._by_key[tally.key] = tally if known is None else merged(known, tally)

    def clear(self) -> None:
        self._by_key.clear()

    def __iter__(self) -> Iterator[KernelTally]:
        return iter(self._by_key.values())


@dataclass(slots=True)
class Reading:
    """What one run of journalctl gave. `failure` is a sentence; what was read before it is good."""

    cursor: str | None = None
    entries: int = 0
    tallies: Tallies = field(default_factory=Tallies)
    failure: str = ""


def read_journal(
    command: tuple[str, ...],
    *,
    after: str | None,
    environment: Mapping[str, str],
    clock: Clock,
    newer_than: datetime | None = None,
) -> Reading:
    """Kernel messages after the cursor `after`; without one, those of this boot. Never raises for journalctl's sake.

    Events that are not `newer_than` are passed over.
    """
    where = ("--boot",) if after is None else (f"--after-cursor={after}",)
    reading = Reading()

    def on_line(line: str) -> bool:
        entry = read_entry(line)
        if entry is not None:
            reading.cursor = entry.cursor
            reading.entries += 1
            event = kernel_event(entry.message, entry.at)
            if event is not None and (newer_than is None or event.at > newer_than):
                reading.tallies.add(tally_of(event))
        return entry is not None

    result = supervisor.run(
        Command((*command, *_OPTIONS, *where, KERNEL_MESSAGES), environment, Path("/")),
        Limits(
            total_seconds=DEADLINE_SECONDS,
            grace_seconds=1.0,
            head_bytes=4096,
            tail_bytes=0,
            max_bytes=OUTPUT_BYTES_MAX,
        ),
        clock=clock,
        merge_stderr=False,
        on_line=on_line,
    )
    if result.cause is not Cause.EXITED or result.exit_status != 0:
        said = result.last_error_line
        reading.failure = ": ".join(filter(None, (result.detail or result.cause.value, said)))
    return reading


class KernelLogMonitor:
    """`chain_of` gives the PCI bus ids between the host bridge and a device, with the device itself."""

    def __init__(
        self,
        *,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        chain_of: Callable[[PciBusId], Iterable[PciBusId]],
        store: Store,
        board: StatusBoard,
        clock: Clock,
    ) -> None:
        self._command = command
        self._environment = environment
        self._chain_of = chain_of
        self._store = store
        self._board = board
        self._clock = clock
        self._cursor: str | None = None
        self._stored_cursor: str | None = None
        self._pending = Tallies()
        self._said = ""

    def restore(self) -> None:
        """Take up what an earlier daemon read. Raises StoreError."""
        self._cursor = self._stored_cursor = self._store.kernel_log_cursor()
        shown = tuple(map(without_process, self._store.kernel_tallies()))
        self._board.update(lambda status: replace(status, kernel_tallies=shown))

    def take(self, *, interval_seconds: float) -> None:
        """Read what is new and publish it. Never raises."""
        start = self._clock.monotonic()
        reading = self._read()
        new = self._ours(reading.tallies)
        for tally in new:
            self._pending.add(tally)
        if reading.cursor is not None:
            self._cursor = reading.cursor
        self._tell(new, reading.failure)
        self._record(new)
        is_evaluated = self._cursor is not None
        collector = CollectorStatus(
            name=COLLECTOR,
            is_successful=is_evaluated and not reading.failure,
            is_evaluated=is_evaluated,
            interval_seconds=interval_seconds,
            duration_seconds=self._clock.monotonic() - start,
            detail=reading.failure or ("" if is_evaluated else "this user sees no kernel messages"),
        )
        now = self._clock.now()
        self._board.update(lambda status: with_collector(status, collector, now))

    def _read(self) -> Reading:
        reading = self._read_after(self._cursor)
        if reading.failure and reading.entries == 0 and self._cursor is not None:
            # The journal was rotated away or began anew: this boot again, without what is known already.
            known = max((tally.last_at for tally in self._board.status.kernel_tallies), default=None)
            again = self._read_after(None, newer_than=known)
            return again if again.entries else reading
        return reading

    def _read_after(self, cursor: str | None, newer_than: datetime | None = None) -> Reading:
        return read_journal(
            self._command,
            after=cursor,
            environment=self._environment,
            clock=self._clock,
            newer_than=newer_than,
        )

    def _ours(self, tallies: Iterable[KernelTally]) -> list[KernelTally]:
        """Xids and SXids, and the AER of what lies between the host bridges and our GPUs and NICs."""
        found = list(tallies)
        if not any(tally.kind is KernelEventKind.AER for tally in found):
            return found
        devices = _devices(self._board.status.snapshot)
        ours = {bus_id for device in devices for bus_id in (device, *self._chain_of(device))}
        return [tally for tally in found if tally.kind is not KernelEventKind.AER or tally.pci_bus_id in ours]

    def _tell(self, new: list[KernelTally], failure: str) -> None:
        for tally in new[:_TOLD_MAX]:
            log.warning(
                "kernel_event",
                what=name_of(tally.kind, tally.code),
                pci_bus_id=tally.pci_bus_id,
                level=tally.level.value,
                count=tally.count,
                at=tally.last_at.isoformat(),
                detail=tally.detail,
            )
        if failure and failure != self._said:
            log.warning("kernel_log_unreadable", detail=failure)
        self._said = failure

    def _record(self, new: list[KernelTally]) -> None:
        """Events and cursor go into the store together; where it cannot be written they wait, and are shown at once."""
        if self._cursor is None or self._cursor == self._stored_cursor:
            return
        try:
            self._store.add_kernel_tallies(self._pending, cursor=self._cursor)
            self._stored_cursor = self._cursor
            self._pending.clear()
            tallies = self._store.kernel_tallies()
        except StoreError as error:
            log.warning("kernel_events_not_stored", error=error.message, hint=error.hint)
            tallies = newest_first((*self._board.status.kernel_tallies, *new))
        shown = tuple(map(without_process, tallies))
        self._board.update(lambda status: replace(status, kernel_tallies=shown))


def newest_first(tallies: Iterable[KernelTally]) -> tuple[KernelTally, ...]:
    """One of each kind, device and code."""
    counted = Tallies()
    for tally in tallies:
        counted.add(tally)
    return tuple(sorted(counted, key=lambda it: it.last_at, reverse=True))


def _devices(snapshot: Snapshot | None) -> list[PciBusId]:
    if snapshot is None:
        return []
    silent = [gpu.pci_bus_id for gpu in snapshot.silent_gpus if gpu.pci_bus_id]
    nics = [nic.pci_bus_id for nic in snapshot.nics if nic.pci_bus_id]
    return [*(gpu.pci_bus_id for gpu in snapshot.gpus), *silent, *nics]
