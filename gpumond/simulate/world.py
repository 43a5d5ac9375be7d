"""A made-up host, spelled out: what its hardware is, what its driver answers, how fast its collectives run.

Plain values without behaviour. Everything that can be seen of a simulated host is rendered from one `Scenario`: the
answers of the fake driver library, the sysfs tree, the snapshot, the benchmark's rows (DESIGN rule 3). Whether a
scenario could exist at all is decided in `gpumond.simulate.rules`; how it is written down compactly, in `recipe`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpumond.model.benchmark import Collective
from gpumond.model.identity import GpuUuid, PciBusId
from gpumond.model.topology import (
    NvLinkRemote,
    P2pCapability,
    P2pStatus,
    PathLevel,
    Vendor,
    XgmiLinkState,
)
from gpumond.simulate.faults import Fault

NUMA_UNKNOWN = -1
"""What sysfs prints where the firmware does not say."""

ERROR_COUNTERS = ("replay", "recovery", "crc_flit", "crc_data", "ecc_data")
"""NVML's NVLink error counters, by the number that `nvmlDeviceGetNvLinkErrorCounter` takes."""


@dataclass(frozen=True, slots=True)
class NumaNode:
    """A NUMA node and its CPUs, as the kernel prints the list."""

    id: int
    cpus: str


@dataclass(frozen=True, slots=True)
class HostBridge:
    """The root of a PCI tree (`pci0000:15`) and the NUMA node that sysfs gives for it."""

    name: str
    numa_node: int


@dataclass(frozen=True, slots=True)
class ScenarioHost:
    """What surrounds the GPUs. `iommu` is the kernel's word for how devices are translated, empty for no IOMMU."""

    name: str
    kernel: str
    boot_id: str
    uptime_seconds: float
    cpu_count: int
    iommu: str
    driver_version: str
    is_virtual: bool
    numa_nodes: tuple[NumaNode, ...]
    host_bridges: tuple[HostBridge, ...]
    nvml_version: str = ""
    cuda_version: int = 0
    """As the driver counts: 13000 is 13.0."""
    amdsmi_version: str = ""
    rocm_version: str = ""


@dataclass(frozen=True, slots=True)
class FieldAnswer:
    """One entry of `nvmlDeviceGetFieldValues`: its own status, its value type, its value."""

    status: int
    type: int
    value: int


@dataclass(frozen=True, slots=True)
class GpuModel:
    """What every GPU of one product has in common.

    `answers` holds NVML calls that gpumond itself does not make, verbatim, so that the capture can be replayed whole.
    """

    key: str
    name: str
    pci_device_id: int
    pci_subsystem_id: int
    vbios_version: str
    memory_total_bytes: int
    memory_reserved_bytes: int
    pcie_generation_max: int
    pcie_width_max: int
    nvlinks_max: int
    nvlink_version: int
    nvlink_speed_mbps: int
    """Per link and direction, raw, in 10^6 bytes/s, as field 164 has it."""
    has_ecc: bool
    has_mig: bool
    has_row_remapping: bool
    has_serial: bool
    has_fabric: bool
    power_milliwatts: int
    """At rest."""
    temperature_celsius: int
    clocks_mhz: tuple[int, int, int, int]
    """Graphics, SM, memory, video; at rest."""
    answers: dict[str, tuple[int, ...] | str] = field(default_factory=dict)
    fields: dict[int, FieldAnswer] = field(default_factory=dict)
    vendor: Vendor = Vendor.NVIDIA
    xgmi_links_max: int = 0


@dataclass(frozen=True, slots=True)
class ScenarioXgmi:
    """The xGMI side of an AMD GPU: its hive, and the state of each of its links."""

    hive_id: int
    links: tuple[XgmiLinkState, ...]


@dataclass(frozen=True, slots=True)
class ScenarioXgmiPath:
    """What the driver says of the xGMI connection of a pair; zero for what it does not know."""

    weight: int
    bandwidth_mbps: int


@dataclass(frozen=True, slots=True)
class ScenarioLink:
    """One NVLink as its GPU sees it.

    `peer` is the bus id at the other end; empty where the driver hides it (passthrough into a VM answers
    FFFFFFFF:FF:FF.0).
    """

    link: int
    is_up: bool
    remote_type: NvLinkRemote
    peer: PciBusId | None
    errors: tuple[int, ...] = (0, 0, 0, 0, 0)
    """By `ERROR_COUNTERS`."""


@dataclass(frozen=True, slots=True)
class ScenarioFabric:
    """NVLink fabric registration, in NVML's numbers (`gpumond.model.topology.Fabric`)."""

    state: int
    status: int = 0
    clique_id: int = 0
    cluster_uuid: str = "00000000-0000-0000-0000-000000000000"
    health_mask: int = 0
    health_summary: int = 0


@dataclass(frozen=True, slots=True)
class ScenarioProcess:
    """A process on a GPU; `kind` is compute, graphics or mps."""

    pid: int
    kind: str
    used_memory_bytes: int


@dataclass(frozen=True, slots=True)
class ScenarioGpu:
    """One GPU. `path` leads from the host bridge to the bridge above it, as sysfs nests the directories."""

    uuid: GpuUuid
    pci_bus_id: PciBusId
    path: tuple[str, ...]
    model: GpuModel
    serial: str
    minor: int
    module_id: int | None
    numa_node: int
    """As sysfs has it."""
    memory_node: int
    """As the driver has it; it may know where sysfs does not."""
    gpu_numa_id: int | None
    """The node that the GPU itself is (Grace); None elsewhere."""
    pcie_generation: int
    pcie_width: int
    pcie_replays: int
    links: tuple[ScenarioLink, ...]
    fabric: ScenarioFabric | None
    processes: tuple[ScenarioProcess, ...]
    memory_used_bytes: int
    utilisation_percent: int
    power_milliwatts: int
    ecc_errors: tuple[int, int]
    """Volatile: corrected, uncorrected."""
    recovery_action: int
    is_runtime_suspended: bool
    fields: dict[int, FieldAnswer] = field(default_factory=dict)
    """Field values of this GPU alone; the model's apply where none stands here."""
    xgmi: ScenarioXgmi | None = None
    compute_partition: str = ""
    memory_partition: str = ""


@dataclass(frozen=True, slots=True)
class ScenarioPair:
    """What the driver says of the directed way from GPU number `gpu` to GPU number `peer`."""

    gpu: int
    peer: int
    level: PathLevel
    p2p: dict[P2pCapability, P2pStatus]
    xgmi: ScenarioXgmiPath | None = None


@dataclass(frozen=True, slots=True)
class ScenarioNic:
    """An RDMA device with one port."""

    name: str
    pci_bus_id: PciBusId
    path: tuple[str, ...]
    node_guid: str
    numa_node: int
    is_up: bool
    rate_gbps: int
    link_layer: str


@dataclass(frozen=True, slots=True)
class BusbwCurve:
    """How busbw of one collective grows with the size, for `min_ranks` GPUs and more.

    busbw(s) = peak / (1 + (half_size / s) ^ steepness), and an operation never takes less than the latency. Fitted to
    the sweep of two H200s (`ar_std`): within 10 % from 1 MiB to 2 GiB.
    """

    collective: Collective
    min_ranks: int
    peak_gbps: float
    half_size_bytes: int
    steepness: float
    latency_us: float
    noise_cv: float
    """Coefficient of variation from run to run, at sizes where bandwidth decides."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A made-up host with the faults that it is to show. GPUs are in the driver's order."""

    name: str
    description: str
    host: ScenarioHost
    gpus: tuple[ScenarioGpu, ...]
    nvswitches: tuple[PciBusId, ...]
    pairs: tuple[ScenarioPair, ...]
    nics: tuple[ScenarioNic, ...]
    curves: tuple[BusbwCurve, ...]
    faults: tuple[Fault, ...] = ()

    @property
    def vendor(self) -> Vendor:
        return self.gpus[0].model.vendor if self.gpus else Vendor.NVIDIA
