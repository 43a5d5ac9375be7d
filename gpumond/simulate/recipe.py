"""How a made-up host is written down: short TOML, with patterns for what repeats.

The files say only what differs; `gpumond.simulate.expand` generates link tables, directed pairs, UUIDs and serial
numbers. Nothing is checked here beyond the shape: whether the result could exist is for `gpumond.simulate.rules`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gpumond.model.benchmark import Collective
from gpumond.model.topology import P2pCapability, P2pStatus, PathLevel, Vendor
from gpumond.simulate.world import ScenarioProcess

FABRIC_COMPLETED = 3

_BusId = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")]
"""As sysfs prints it."""
_Path = Annotated[
    str,
    Field(pattern=r"^pci[0-9a-f]{4}:[0-9a-f]{2}( [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])*$"),
]
"""The host bridge and the bridges below it, down to the device: `pci0000:15 0000:15:01.0`."""
_CpuList = Annotated[str, Field(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")]
_Version = Annotated[str, Field(pattern=r"^\d+(\.\d+)+$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HostRecipe(_Part):
    kernel: str
    boot_id: str = "11111111-2222-4333-8444-555555555555"
    uptime_seconds: float = 86_400.0
    cpu_count: int
    iommu: str = ""
    driver_version: _Version
    nvml_version: _Version | Literal[""] = ""
    cuda_version: int = 0
    amdsmi_version: _Version | Literal[""] = ""
    rocm_version: _Version | Literal[""] = ""
    is_virtual: bool = False
    numa_nodes: tuple[_CpuList, ...]
    """The CPU list of each node, in the order of their numbers."""


class LinkErrorsRecipe(_Part):
    """Counts by link; empty for all zero."""

    crc_data: tuple[int, ...] = ()
    ecc_data: tuple[int, ...] = ()


class GpuRecipe(_Part):
    pci: _BusId
    path: _Path
    numa: int
    memory_node: int | None = None
    gpu_numa_id: int | None = None
    module: int | None = None
    serial: str | None = None
    uuid: str | None = None
    replays: int = 0
    errors: LinkErrorsRecipe = LinkErrorsRecipe()
    processes: tuple[ScenarioProcess, ...] = ()
    memory_used_bytes: int = 0
    utilisation_percent: int = 0
    power_milliwatts: int | None = None
    ecc_errors: tuple[int, int] = (0, 0)
    recovery_action: int = 0
    is_runtime_suspended: bool = False
    pcie_generation: int | None = None
    pcie_width: int | None = None
    compute_partition: str = "SPX"
    memory_partition: str = "NPS1"
    """Of AMD GPUs only."""
    fields: dict[int, int | tuple[int, int, int]] = Field(default_factory=dict)


class NoNvlink(_Part):
    pattern: Literal["none"] = "none"


class SwitchNvlink(_Part):
    """Every link of every GPU ends at a switch, in turn; `hidden` switches show no bus id (passthrough)."""

    pattern: Literal["nvswitch"]
    switches: tuple[_BusId, ...] = ()
    hidden: bool = False
    fabric_state: int | None = FABRIC_COMPLETED
    """None on boards whose driver has no fabric (before Hopper)."""

    @model_validator(mode="after")
    def _has_switches_or_hides_them(self) -> Self:
        if bool(self.switches) == self.hidden:
            raise ValueError("name the switches, or say that they are hidden")
        return self


class MeshNvlink(_Part):
    """Links from GPU to GPU: `[gpu, peer, links]`."""

    pattern: Literal["mesh"]
    pairs: tuple[tuple[int, int, int], ...]


NvlinkRecipe: TypeAlias = NoNvlink | SwitchNvlink | MeshNvlink


class XgmiRecipe(_Part):
    """xGMI of AMD boards: GPUs of one hive are connected, one link from each to each other."""

    hives: tuple[tuple[int, ...], ...]
    weight: int
    bandwidth_mbps: int
    """Of one link and direction; zero where the driver does not say."""

    def hive_of(self, number: int) -> int | None:
        return next((place for place, hive in enumerate(self.hives) if number in hive), None)


class P2pRecipe(_Part):
    """What the driver answers for each capability: `linked` between GPUs with NVLink or xGMI, `unlinked` without.

    `by_level` refines `unlinked` where the PCIe path decides.
    """

    linked: dict[P2pCapability, P2pStatus] = Field(default_factory=dict)
    unlinked: dict[P2pCapability, P2pStatus] = Field(default_factory=dict)
    by_level: dict[PathLevel, dict[P2pCapability, P2pStatus]] = Field(default_factory=dict)


class NicRecipe(_Part):
    name: str
    pci: _BusId
    path: _Path
    numa: int
    guid: str
    is_up: bool = True
    rate_gbps: int = 400
    link_layer: str = "InfiniBand"


class CurveRecipe(_Part):
    collectives: tuple[Collective, ...]
    min_ranks: int = 2
    peak_gbps: float
    half_size_bytes: int
    steepness: float = 0.56
    latency_us: float = 20.0
    noise_cv: float = 0.003


class ModelRecipe(_Part):
    name: str
    vendor: Vendor = Vendor.NVIDIA
    xgmi_links_max: int = 0
    pci_device_id: int
    pci_subsystem_id: int
    vbios_version: str
    memory_total_bytes: int
    memory_reserved_bytes: int = 0
    pcie_generation_max: int
    pcie_width_max: int = 16
    nvlinks_max: int = 0
    nvlink_version: int = 0
    nvlink_speed_mbps: int = 0
    has_ecc: bool = True
    has_mig: bool = False
    has_row_remapping: bool = True
    has_serial: bool = True
    has_fabric: bool = False
    power_milliwatts: int
    temperature_celsius: int = 30
    clocks_mhz: tuple[int, int, int, int] = (210, 210, 405, 555)
    answers: dict[str, int | str | tuple[int, ...]] = Field(default_factory=dict)
    fields: dict[int, int | tuple[int, int, int]] = Field(default_factory=dict)


class ScenarioRecipe(_Part):
    """One scenario file."""

    description: str
    model: str
    host: HostRecipe
    gpus: tuple[GpuRecipe, ...]
    nvlink: NvlinkRecipe = Field(default=NoNvlink(), discriminator="pattern")
    xgmi: XgmiRecipe | None = None
    p2p: P2pRecipe = P2pRecipe()
    nics: tuple[NicRecipe, ...] = ()
    curves: tuple[CurveRecipe, ...]
    faults: tuple[dict[str, Any], ...] = ()

    @model_validator(mode="after")
    def _mesh_joins_gpus_that_are_there(self) -> Self:
        pairs = self.nvlink.pairs if isinstance(self.nvlink, MeshNvlink) else ()
        for gpu, peer, _ in pairs:
            if not {gpu, peer} <= set(range(len(self.gpus))):
                raise ValueError(f"nvlink.pairs joins GPU {gpu} and GPU {peer} of {len(self.gpus)}")
        return self

    @model_validator(mode="after")
    def _hives_hold_gpus_that_are_there(self) -> Self:
        members = [number for hive in (self.xgmi.hives if self.xgmi else ()) for number in hive]
        for number in members:
            if not 0 <= number < len(self.gpus) or members.count(number) > 1:
                raise ValueError(f"xgmi.hives holds GPU {number} of {len(self.gpus)}, or holds it twice")
        return self
