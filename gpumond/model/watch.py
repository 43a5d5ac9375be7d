"""What the watch child says while a benchmark runs, and what of it is kept with the run.

A look holds the process list of every watched GPU, and now and then its load. What is kept is small: the spread of
each load value, the OR of the event reasons, and how the GPUs were given back where somebody came for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Self

from gpumond.model.identity import GpuUuid, PciBusId, normalise_pci_bus_id
from gpumond.model.reading import Reading
from gpumond.model.topology import GpuProcess

_EVENT_REASONS: Final = {
    0x001: "idle",
    0x002: "application clocks",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal",
    0x040: "hardware thermal",
    0x080: "power brake",
    0x100: "display clocks",
}
"""NVML's clocks event reasons."""

_THROTTLING: Final = 0x008 | 0x020 | 0x040 | 0x080
"""Those that say that something is wrong. A power cap alone is normal under load."""


@dataclass(frozen=True, slots=True)
class WatchTarget:
    """A GPU to watch: opened by its bus id, because a lost GPU spoils the other ways in, and known by its UUID."""

    uuid: GpuUuid
    pci_bus_id: PciBusId

    def __str__(self) -> str:
        return f"{self.uuid}@{self.pci_bus_id}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError where `text` is not what `str` makes."""
        uuid, at, pci_bus_id = text.partition("@")
        if not (uuid and at):
            raise ValueError(f"not UUID@PCI_BUS_ID: {text!r}")
        return cls(GpuUuid(uuid), normalise_pci_bus_id(pci_bus_id))


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """What a GPU did at one instant. `event_reasons` is NVML's bit mask, kept as it is: drivers add bits. What AMD's
    GPUs say is put into it, since the last sample. The SM clock of an AMD GPU is that of its compute units.
    """

    utilisation_ratio: Reading[float]
    memory_utilisation_ratio: Reading[float]
    memory_used_bytes: Reading[int]
    sm_clock_hertz: Reading[int]
    power_watts: Reading[float]
    temperature_celsius: Reading[int]
    event_reasons: Reading[int]
    pcie_generation: Reading[int]
    pcie_width_lanes: Reading[int]


@dataclass(frozen=True, slots=True)
class WatchedGpu:
    """One GPU in one look; `load` is None in the looks between."""

    uuid: GpuUuid
    processes: Reading[tuple[GpuProcess, ...]]
    load: GpuLoad | None = None


@dataclass(frozen=True, slots=True)
class WatchLook:
    """One line of the watch child. `at_seconds` is the host's monotonic clock before the first list was read."""

    at_seconds: float
    gpus: tuple[WatchedGpu, ...]


@dataclass(frozen=True, slots=True)
class ForeignProcess:
    """A process on a watched GPU that is not ours. `name` is empty where it was gone before it could be asked."""

    pid: int
    kind: str
    uuid: GpuUuid
    name: str = ""

    def __str__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"pid {self.pid}{name} ({self.kind}) on {self.uuid}"


@dataclass(frozen=True, slots=True)
class Spread:
    minimum: float
    median: float
    maximum: float


@dataclass(frozen=True, slots=True)
class LoadSummary:
    """One GPU over one run; None where not one sample could be read."""

    uuid: GpuUuid
    samples: int
    sm_clock_hertz: Spread | None = None
    power_watts: Spread | None = None
    temperature_celsius: Spread | None = None
    memory_utilisation_ratio: Spread | None = None
    pcie_generation: Spread | None = None
    pcie_width_lanes: Spread | None = None
    event_reasons: int = 0
    """The OR of all samples."""
    last: GpuLoad | None = None
    """The last sample while the benchmark ran: what a hang looks like."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Somebody came, and our benchmark had to go. Seconds count from the look that first showed the foreigner.

    None: that instant was not seen, because the benchmark had ended by itself, or because the watch ended first.
    """

    foreign: tuple[ForeignProcess, ...]
    kill_sent_seconds: float | None = None
    gone_seconds: float | None = None
    """Until the last of our processes was gone."""
    clear_seconds: float | None = None
    """Until the driver listed none of ours any more."""


@dataclass(frozen=True, slots=True)
class RunWatch:
    """What the watch saw during one run. `doubt` says why the run is not proven to have been alone, empty if it is."""

    looks: int
    longest_gap_seconds: float
    cpu_load_average: float
    """Of the last minute, at the end of the run: small messages are slower on a busy CPU."""
    doubt: str = ""
    preemption: Preemption | None = None
    gpus: tuple[LoadSummary, ...] = field(default=())


def event_reasons(mask: int) -> str:
    """The names of the bits; bits without a name as a number."""
    names = [name for bit, name in _EVENT_REASONS.items() if mask & bit]
    rest = mask & ~sum(_EVENT_REASONS)
    return ", ".join([*names, *([f"0x{rest:x}"] if rest else [])])


def throttling_of(watch: RunWatch) -> str:
    """Which GPUs were held back by heat or power during the run, and by what; empty for none."""
    held = ((gpu.uuid, gpu.event_reasons & _THROTTLING) for gpu in watch.gpus)
    return "; ".join(f"{uuid}: {event_reasons(mask)}" for uuid, mask in held if mask)
