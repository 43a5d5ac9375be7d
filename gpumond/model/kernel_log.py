"""What the kernel said about the GPUs: Xids (NVIDIA's driver), SXids (its NVSwitches), AER (the PCIe bus).

An event is one message. A tally is all events of one kind, device and code: so many, the first and the last of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from gpumond.model.change import Level
from gpumond.model.identity import PciBusId

_PROCESS = re.compile(r"\b(?:pid|name)=(?:'[^']*'|[^,]*),?\s*")
"""`pid=1234, name=python, `; from a driver that does not know it, `pid='<unknown>', name=<unknown>, `."""


class KernelEventKind(StrEnum):
    XID = "xid"
    SXID = "sxid"
    AER = "aer"


class AerSeverity(StrEnum):
    """The `code` of an AER event."""

    CORRECTED = "corrected"
    NON_FATAL = "nonfatal"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """`code` is the number of an Xid or SXid, or an AerSeverity. `detail` is what the kernel printed, on one line."""

    at: datetime
    kind: KernelEventKind
    pci_bus_id: PciBusId
    code: str
    level: Level
    detail: str


@dataclass(frozen=True, slots=True)
class KernelTally:
    """`level` and `detail` are those of the newest event."""

    kind: KernelEventKind
    pci_bus_id: PciBusId
    code: str
    level: Level
    count: int
    first_at: datetime
    last_at: datetime
    detail: str

    @property
    def key(self) -> tuple[KernelEventKind, PciBusId, str]:
        return self.kind, self.pci_bus_id, self.code


def tally_of(event: KernelEvent) -> KernelTally:
    return KernelTally(
        event.kind, event.pci_bus_id, event.code, event.level, 1, event.at, event.at, event.detail
    )


def merged(one: KernelTally, other: KernelTally) -> KernelTally:
    """Both counted together; they must be of one kind, device and code."""
    if one.key != other.key:
        raise ValueError(f"{one.key} and {other.key} are not the same")
    newer = other if other.last_at >= one.last_at else one
    return replace(newer, count=one.count + other.count, first_at=min(one.first_at, other.first_at))


def without_process(tally: KernelTally) -> KernelTally:
    """Without the process that an Xid names: what users run is not for everybody who may read metrics."""
    return replace(tally, detail=_PROCESS.sub("", tally.detail))


def name_of(kind: KernelEventKind, code: str) -> str:
    """As people say it: `Xid 79`, `SXid 20034`, `AER fatal`."""
    word = {KernelEventKind.XID: "Xid", KernelEventKind.SXID: "SXid", KernelEventKind.AER: "AER"}[kind]
    return f"{word} {code}"
