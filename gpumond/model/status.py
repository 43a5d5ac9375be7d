"""What the exporter, the page and the command line show: one immutable value, swapped as a whole.

Everything here was either just measured about the hardware (exported at once) or is on disk already (results).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from gpumond.model.baseline import BaselineState
from gpumond.model.benchmark import Collective, Placement
from gpumond.model.change import ChangeCount, OpenChange
from gpumond.model.finding import Finding
from gpumond.model.identity import GpuUuid, PciBusId
from gpumond.model.kernel_log import KernelTally
from gpumond.model.run import Engine, GpuSet, Verdict
from gpumond.model.topology import P2pCapability, Snapshot


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """A GPU of the accepted inventory. `number` is what people see as `gpu`: its place, ordered by PCI bus id."""

    number: int
    uuid: GpuUuid
    pci_bus_id: PciBusId
    name: str


@dataclass(frozen=True, slots=True)
class CollectorStatus:
    """A source of facts: did it work, when, how long, how often. `detail` is one sentence where it did not."""

    name: str
    is_successful: bool
    interval_seconds: float
    duration_seconds: float = 0.0
    last_success: datetime | None = None
    detail: str = ""
    is_evaluated: bool = True
    """False where this host or this user does not let it work: no failure, and nothing to say."""


@dataclass(frozen=True, slots=True)
class SweepStatus:
    """A configured sweep as monitoring sees it. Counters count since the store was made."""

    name: str
    interval_seconds: float
    timeout_seconds: float
    overdue_grace_seconds: float
    due_at: datetime | None = None
    running_since: datetime | None = None
    last_run_at: datetime | None = None
    last_run_duration_seconds: float = 0.0
    last_run_success: bool | None = None
    last_success_at: datetime | None = None
    consecutive_failures: int = 0
    consecutive_skips: int = 0
    runs: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    skips: dict[str, int] = field(default_factory=dict)
    preemptions: int = 0


@dataclass(frozen=True, slots=True)
class LatestPoint:
    """The newest value of one exported series: one placement, the newest parameters."""

    sweep: str
    engine: Engine
    gpu_set: str
    collective: Collective
    datatype: str
    size_bytes: int
    placement: Placement
    measured_at: datetime
    time_seconds: float
    algbw_bytes_per_second: float
    busbw_bytes_per_second: float
    wrong_elements: int | None


@dataclass(frozen=True, slots=True)
class CollectiveVerdict:
    sweep: str
    engine: Engine
    gpu_set: str
    collective: Collective
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class CollectiveScore:
    """How the newest run of a collective compares with its baseline; 1 is as normal, less is worse."""

    sweep: str
    engine: Engine
    gpu_set: str
    collective: Collective
    score: float


@dataclass(frozen=True, slots=True)
class CollectiveBaseline:
    """What is normal for a collective: busbw by size, in bytes per second, and how far it is known."""

    sweep: str
    engine: Engine
    gpu_set: str
    collective: Collective
    state: BaselineState
    datatype: str
    busbw: dict[int, float]
    transport: str = ""


@dataclass(frozen=True, slots=True)
class CollectiveTransport:
    """How NCCL moved the data of a collective: channels by transport (model/transport.py)."""

    sweep: str
    engine: Engine
    gpu_set: str
    collective: Collective
    channels: dict[str, int]


@dataclass(frozen=True, slots=True)
class LoadedPcieLink:
    """The PCIe link of a GPU as the newest watched run saw it at work: at rest it sleeps, and tells nothing."""

    uuid: GpuUuid
    generation: int


@dataclass(frozen=True, slots=True)
class P2pExpectation:
    """What the driver said of a directed pair when the state was accepted, where it says something else now."""

    gpu: GpuUuid
    peer: GpuUuid
    capability: P2pCapability
    is_supported: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """No sweep starts until somebody resumes."""

    at: datetime
    by: str
    reason: str

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"paused by {self.by} since {self.at.isoformat(timespec='seconds')}{why}"


@dataclass(frozen=True, slots=True)
class DurationCounts:
    """A histogram that only grows. `counts` are of each bucket alone: as many as bounds, and one for what is beyond."""

    bounds_seconds: tuple[float, ...]
    counts: tuple[int, ...]
    sum_seconds: float


PREEMPTION_BOUNDS_SECONDS = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Around what was measured (0.24-0.31 s from SIGKILL to a clear GPU) and what is promised (1 s)."""


@dataclass(frozen=True, slots=True)
class HostStatus:
    """The whole state of one gpumond."""

    version: str
    started_at: datetime
    is_ready: bool = False
    simulated: str = ""
    snapshot: Snapshot | None = None
    inventory: tuple[InventoryEntry, ...] = ()
    gpu_sets: tuple[GpuSet, ...] = ()
    collectors: tuple[CollectorStatus, ...] = ()
    sweeps: tuple[SweepStatus, ...] = ()
    points: tuple[LatestPoint, ...] = ()
    verdicts: tuple[CollectiveVerdict, ...] = ()
    transports: tuple[CollectiveTransport, ...] = ()
    scores: tuple[CollectiveScore, ...] = ()
    baselines: tuple[CollectiveBaseline, ...] = ()
    heartbeat_at: datetime | None = None
    config_loaded_at: datetime | None = None
    is_config_current: bool = True
    is_store_writable: bool = True
    accepted_at: datetime | None = None
    """When the state that changes are told against was accepted; None before the first acceptance."""
    changes: tuple[OpenChange, ...] = ()
    """The open ones, in the order in which they opened."""
    p2p_expectations: tuple[P2pExpectation, ...] = ()
    loaded_pcie_links: tuple[LoadedPcieLink, ...] = ()
    kernel_tallies: tuple[KernelTally, ...] = ()
    """What the kernel said about our devices since the store was made, newest first; without names of processes."""
    change_counts: tuple[ChangeCount, ...] = ()
    last_change_at: datetime | None = None
    """When a change last opened or ended."""
    findings: tuple[Finding, ...] = ()
    """The open ones."""
    pause: Pause | None = None
    preemptions: DurationCounts = field(
        default=DurationCounts(PREEMPTION_BOUNDS_SECONDS, (0,) * (len(PREEMPTION_BOUNDS_SECONDS) + 1), 0.0)
    )
    """From the first sight of a foreign process until the last of ours was gone."""
    unkillable_pids: tuple[int, ...] = ()
