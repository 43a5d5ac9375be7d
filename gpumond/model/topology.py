"""What a host's GPUs are and how they are connected, at one instant.

A snapshot is what one probe child read. It is complete in itself: nothing in it needs a library or the host to be
understood. Pairs are directed, because drivers answer differently for (a, b) and (b, a).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum

from gpumond.model.identity import GpuUuid, PciBusId
from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, Value

SNAPSHOT_SCHEMA = 1
"""Raised whenever a document of this module can no longer be read by older code."""


class Vendor(StrEnum):
    NVIDIA = "nvidia"
    AMD = "amd"


class PathLevel(StrEnum):
    """The PCIe path between two devices, in nvidia-smi's words, nearest first."""

    PIX = "PIX"  # at most one PCIe switch
    PXB = "PXB"  # several switches, no host bridge
    PHB = "PHB"  # through a host bridge
    NODE = "NODE"  # between host bridges of one NUMA node
    SYS = "SYS"  # across NUMA nodes


class P2pStatus(StrEnum):
    """nvidia-smi's words for NVML's P2P status."""

    OK = "OK"
    CNS = "CNS"  # chipset not supported
    GNS = "GNS"  # GPU not supported
    TNS = "TNS"  # topology not supported
    DR = "DR"  # disabled by registry key
    NS = "NS"  # not supported
    U = "U"  # unknown: neither yes nor no


class P2pCapability(StrEnum):
    READ = "read"
    WRITE = "write"
    NVLINK = "nvlink"
    ATOMICS = "atomics"
    PCI = "pci"


class NvLinkRemote(IntEnum):
    """NVML's remote device type of an NVLink."""

    GPU = 0
    NPU = 1
    SWITCH = 2
    UNKNOWN = 255


class XgmiLinkState(StrEnum):
    """An xGMI link as its GPU sees it; the driver does not say where a link leads."""

    UP = "up"
    DOWN = "down"
    DISABLED = "disabled"  # not wired: on a board of eight, one of eight


class IoLinkCapability(StrEnum):
    """What an xGMI connection can do besides carrying copies."""

    COHERENT = "coherent"
    ATOMICS_32BIT = "atomics_32bit"
    ATOMICS_64BIT = "atomics_64bit"
    DMA = "dma"
    BIDIRECTIONAL = "bidirectional"


@dataclass(frozen=True, slots=True)
class XgmiPath:
    """The xGMI connection from one GPU to another. The driver's "hops" are left out: 1 means any xGMI."""

    weight: Reading[int]
    """15 for each physical hop."""
    bandwidth_min_bytes_per_second: Reading[int]
    bandwidth_max_bytes_per_second: Reading[int]
    capabilities: Reading[tuple[IoLinkCapability, ...]]


@dataclass(frozen=True, slots=True)
class NvLink:
    """One NVLink of one GPU. `errors` is counter name -> count since the driver was loaded."""

    link: int
    is_up: Reading[bool]
    remote_type: Reading[NvLinkRemote]
    remote_pci_bus_id: Reading[PciBusId]
    version: Reading[int]
    speed_bytes_per_second: Reading[int]
    errors: Reading[dict[str, int]]


@dataclass(frozen=True, slots=True)
class PcieLink:
    """The PCIe link of a GPU. The current generation drops at idle on purpose; width does not."""

    generation: Reading[int]
    generation_max: Reading[int]
    width_lanes: Reading[int]
    width_lanes_max: Reading[int]
    replays: Reading[int]


@dataclass(frozen=True, slots=True)
class Fabric:
    """NVLink fabric registration of a GPU (Hopper and later behind NVSwitch): raw NVML numbers, named in topology.classify."""

    state: int  # 0 not supported, 1 not started, 2 in progress, 3 completed
    status: int  # an nvmlReturn_t; means something only when completed
    clique_id: int
    cluster_uuid: str
    health_mask: int
    health_summary: int | None  # v3 structs only


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds a context on a GPU."""

    pid: int
    kind: str  # compute, graphics, mps
    used_memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU that answered. `index` is the driver's order today: for display, never a key."""

    pci_bus_id: PciBusId
    uuid: GpuUuid
    index: int
    name: Reading[str]
    vbios_version: Reading[str]
    minor_number: Reading[int]
    module_id: Reading[int]
    memory_total_bytes: Reading[int]
    memory_used_bytes: Reading[int]
    utilisation_ratio: Reading[float]
    processes: Reading[tuple[GpuProcess, ...]]
    pcie: PcieLink
    nvlinks: Reading[tuple[NvLink, ...]]
    fabric: Reading[Fabric]
    numa_node: Reading[int]
    gpu_numa_id: Reading[int]
    """Only where the GPU itself is a NUMA node (Grace)."""
    cpu_affinity: Reading[str]
    """A CPU list as the kernel prints it: `0-31,64-95`."""
    memory_affinity: Reading[str]
    persistence_mode: Reading[bool]
    mig_mode: Reading[bool]
    mig_mode_pending: Reading[bool]
    ecc_mode: Reading[bool]
    ecc_mode_pending: Reading[bool]
    ecc_errors: Reading[dict[str, int]]
    """`corrected`, `uncorrected`: volatile counts."""
    remapped_rows_pending: Reading[bool]
    remapped_rows_failure: Reading[bool]
    recovery_action: Reading[int]
    performance_state: Reading[int]
    xgmi_links: Reading[tuple[XgmiLinkState, ...]] = NOT_SUPPORTED
    """By link number."""
    xgmi_hive: Reading[str] = NOT_SUPPORTED
    """The set of GPUs that xGMI connects; a host may have two."""
    compute_partition: Reading[str] = NOT_SUPPORTED
    """AMD: `SPX`, `CPX`, ...: how many GPUs one board shows itself as."""
    memory_partition: Reading[str] = NOT_SUPPORTED
    """AMD: `NPS1`, `NPS4`, ..."""
    power_limit_watts: Reading[float] = NOT_SUPPORTED
    """What the driver enforces, after all who may set a limit."""
    sm_clock_limit_hertz: Reading[int] = NOT_SUPPORTED
    """The applications clock. A clock that is locked otherwise shows in what a run is watched at only."""


@dataclass(frozen=True, slots=True)
class SilentGpu:
    """A GPU that the driver counts, or that sysfs shows, and that would not answer."""

    index: int | None
    pci_bus_id: PciBusId | None
    cause: Unreadable


@dataclass(frozen=True, slots=True)
class GpuPair:
    """What the driver says of the directed way from one GPU to another (both by UUID)."""

    gpu: GpuUuid
    peer: GpuUuid
    level: Reading[PathLevel]
    nvlinks: Reading[int]
    """Active NVLinks on this way; behind NVSwitch, those of `gpu` towards switches."""
    p2p: dict[P2pCapability, Reading[P2pStatus]]
    xgmi: Reading[XgmiPath] = NOT_SUPPORTED
    """Not supported where PCIe connects the two."""


@dataclass(frozen=True, slots=True)
class Nic:
    """An RDMA device, from sysfs."""

    name: str
    pci_bus_id: PciBusId | None
    node_guid: str
    numa_node: Reading[int]
    ports_up: dict[int, bool]
    rate_bits_per_second: Reading[int]
    link_layer: str
    levels: dict[GpuUuid, PathLevel]
    """The PCIe path to each GPU, as far as sysfs tells."""
    nic_levels: dict[str, PathLevel] = field(default_factory=dict)
    """The same to each other RDMA device, by name."""


@dataclass(frozen=True, slots=True)
class Host:
    """What surrounds the GPUs."""

    kernel: str
    boot_id: str
    uptime_seconds: float
    cpu_count: int
    iommu: Reading[str]
    driver_version: Reading[str]
    driver_library_version: Reading[str]
    cuda_version: Reading[str]
    is_virtual: Reading[bool]
    rocm_version: Reading[str] = NOT_SUPPORTED
    cpuset: Reading[str] = NOT_SUPPORTED
    """The CPUs and memory nodes that the process that looked was allowed to use."""
    container_devices: Reading[str] = NOT_SUPPORTED
    """The GPUs that its container was given, in the container runtime's words; empty outside of one."""
    acs_redirects: Reading[tuple[PciBusId, ...]] = NOT_SUPPORTED
    """The bridges above the GPUs whose Access Control Services send P2P up to the root; only root may read that."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One read of one host.

    `vendor` is None on a host without a GPU driver; `driver` then says why (library missing, driver not loaded,
    library and kernel module differ). `simulated` names the scenario of a made-up host.
    """

    taken_at: datetime
    host: Host
    vendor: Vendor | None
    driver: Reading[str]
    gpus: tuple[Gpu, ...]
    silent_gpus: tuple[SilentGpu, ...]
    pairs: tuple[GpuPair, ...]
    nics: tuple[Nic, ...]
    duration_seconds: float
    simulated: str = ""
    schema: int = SNAPSHOT_SCHEMA

    def gpu(self, uuid: GpuUuid) -> Gpu | None:
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)

    def pair(self, gpu: GpuUuid, peer: GpuUuid) -> GpuPair | None:
        return next((pair for pair in self.pairs if pair.gpu == gpu and pair.peer == peer), None)


def link_label(pair: GpuPair) -> str:
    """How the vendor's tool would print this pair: `NV18`, `XGMI`, else the PCIe level in nvidia-smi's words, `?`."""
    if isinstance(pair.xgmi, Value):
        return "XGMI"
    if isinstance(pair.nvlinks, Value) and pair.nvlinks.value > 0:
        return f"NV{pair.nvlinks.value}"
    if isinstance(pair.nvlinks, Unreadable) or isinstance(pair.xgmi, Unreadable):
        # Here a PCIe label would claim that there is no NVLink, or no xGMI.
        return "?"
    return pair.level.value.value if isinstance(pair.level, Value) else "?"
