"""The kernel log -> Xids, SXids and AER errors. Pure: entries of `journalctl -o json`, or lines of `dmesg`.

Owns what a line of NVIDIA's driver and of the kernel's AER looks like, and how bad each Xid is. A line that is none of
them is no error: nearly all are not. Formats and their history: docs/architecture.md, "Kernel log".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from gpumond.model.change import Level
from gpumond.model.identity import PciBusId, normalise_pci_bus_id
from gpumond.model.kernel_log import AerSeverity, KernelEvent, KernelEventKind

DETAIL_CHARACTERS_MAX: Final = 240
_CURSOR_CHARACTERS_MAX: Final = 1000
"""systemd's are about 130 long."""

_PCI: Final = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?"
# `NVRM: Xid (PCI:0000:3b:00): 79, pid=...`; before driver 361 without `PCI:`.
_XID: Final = re.compile(rf"NVRM:\s+(?:GPU\S*\s+)?Xid \((?:PCI:)?({_PCI})\): (\d{{1,5}})\b", re.IGNORECASE)
# Every SXid has further lines without the word of severity; they are no events of their own.
_SXID: Final = re.compile(
    rf"nvidia-nvswitch\d+: SXid \(PCI:({_PCI})\): (\d{{1,6}}), (Fatal|Non-fatal)\b", re.IGNORECASE
)
# The reporting port says `AER: ... error received`, then the device itself this; `AER:` came with Linux 5.10.
_AER: Final = re.compile(
    rf"\b({_PCI}): (?:AER: )?PCIe Bus Error: severity=(Correct|Uncorrect)\w*(?: \((Non-)?Fatal\))?",
    re.IGNORECASE,
)

_NEEDS_RESET: Final = frozenset(
    {46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, *range(143, 151), 155, 156, 158}
)
"""What NVIDIA's Xid catalogue answers with a GPU reset, a restart of the host or an NVLink work-flow
(docs.nvidia.com/deploy/xid-errors, read on 2026-11-29; 48 and 79 among them by its work-flows)."""

_OF_THE_APPLICATION: Final = frozenset(
    {8, 11, 13, 25, 31, 32, 37, 39, 40, 41, 43, 44, 45, 60, 63, 66, 67, 68, 69, 70, 71, 72, 75, 76, 77, 80}
    | {82, 83, 84, 85, 86, 88, 89, 96, 97, *range(98, 109), *range(126, 136), 139, 141}
)
"""What it answers with a restart of the application, or not at all."""

_DMESG_TIME: Final = re.compile(r"^\S*?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One object of `journalctl -o json`. `cursor` is where the next reading goes on."""

    cursor: str
    at: datetime
    message: str


def read_entry(line: str) -> JournalEntry | None:
    """The entry in a line of `journalctl -o json`; None where it is none, or misses what we need."""
    try:
        document = json.loads(line)
        cursor = document["__CURSOR"]
        at = _EPOCH + timedelta(microseconds=int(document["__REALTIME_TIMESTAMP"]))
        message = _message(document.get("MESSAGE"))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    if not isinstance(cursor, str) or not 0 < len(cursor) <= _CURSOR_CHARACTERS_MAX:
        return None
    return JournalEntry(cursor, at, message)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _message(value: object) -> str:
    """Text, or the bytes of a message that is no UTF-8, as numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return bytes(value).decode("utf-8", errors="replace")
    return ""


def kernel_event(message: str, at: datetime) -> KernelEvent | None:
    """The event that a message tells of; None for all others."""
    if found := _XID.search(message):
        return _event(
            KernelEventKind.XID, found[1], found[2], xid_level(int(found[2])), at=at, message=message
        )
    if found := _SXID.search(message):
        level = Level.CRITICAL if found[3].lower() == "fatal" else Level.WARNING
        return _event(KernelEventKind.SXID, found[1], found[2], level, at=at, message=message)
    if found := _AER.search(message):
        severity = _aer_severity(found)
        return _event(
            KernelEventKind.AER, found[1], severity.value, _AER_LEVELS[severity], at=at, message=message
        )
    return None


_AER_LEVELS: Final = {
    AerSeverity.CORRECTED: Level.INFO,
    AerSeverity.NON_FATAL: Level.WARNING,
    AerSeverity.FATAL: Level.CRITICAL,
}


def xid_level(xid: int) -> Level:
    """Critical where the GPU or the host must be reset, info where a program is at fault, else warning."""
    if xid in _NEEDS_RESET:
        return Level.CRITICAL
    return Level.INFO if xid in _OF_THE_APPLICATION else Level.WARNING


def events_in_text(text: str, *, read_at: datetime) -> Iterator[KernelEvent]:
    """The events in what `dmesg` or `journalctl -k` printed, whichever way they were told to print the time.

    Only ISO times (`dmesg --time-format iso`, `journalctl -o short-iso`) say when an event was; `read_at` stands for
    all others.
    """
    for line in text.splitlines():
        event = kernel_event(line, _time_of(line) or read_at)
        if event is not None:
            yield event


def _time_of(line: str) -> datetime | None:
    found = _DMESG_TIME.match(line)
    if found is None:
        return None
    stamp = found[0].replace(",", ".")
    try:
        at = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _aer_severity(found: re.Match[str]) -> AerSeverity:
    if found[2].lower() == "correct":
        return AerSeverity.CORRECTED
    return AerSeverity.NON_FATAL if found[3] else AerSeverity.FATAL


def _event(
    kind: KernelEventKind, bus_id: str, code: str, level: Level, *, at: datetime, message: str
) -> KernelEvent:
    line = " ".join("".join(it if it.isprintable() else " " for it in message).split())
    return KernelEvent(
        at,
        kind,
        normalise_pci_bus_id(bus_id),
        str(int(code)) if code.isdigit() else code,
        level,
        line[:DETAIL_CHARACTERS_MAX],
    )


def _bus_id(text: str) -> PciBusId:
    return normalise_pci_bus_id(text)
