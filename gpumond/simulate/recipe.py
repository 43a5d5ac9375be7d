"""How a made-up host is written down: short TOML, with patterns for what repeats. Expanded into a `Scenario` here.

The files say only what differs; link tables, directed pairs, UUIDs and serial numbers are generated. Nothing is
checked here beyond the shape: whether the result could exist is for `gpumond.simulate.rules`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias, assert_never

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gpumond.model.benchmark import Collective
from gpumond.model.identity import GpuUuid, PciBusId
from gpumond.model.topology import NvLinkRemote, P2pCapability, P2pStatus, PathLevel
from gpumond.simulate.faults import fault_from
from gpumond.simulate.wiring import links_between, path_level
from gpumond.simulate.world import (
    BusbwCurve,
    FieldAnswer,
    GpuModel,
    HostBridge,
    NumaNode,
    Scenario,
    ScenarioFabric,
    ScenarioGpu,
    ScenarioHost,
    ScenarioLink,
    ScenarioNic,
    ScenarioPair,
    ScenarioProcess,
)

UNSIGNED = 1
UNSIGNED_LONG_LONG = 3
"""NVML's value types that occur in field values here."""

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
    nvml_version: _Version
    cuda_version: int
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


class P2pRecipe(_Part):
    """What the driver answers for each capability: `linked` between GPUs with NVLink, `unlinked` without.

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
    pci_device_id: int
    pci_subsystem_id: int
    vbios_version: str
    memory_total_bytes: int
    memory_reserved_bytes: int
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


def expand(name: str, recipe: ScenarioRecipe, models: dict[str, ModelRecipe]) -> Scenario:
    """The host that `recipe` describes. Raises KeyError where it names no known GPU model."""
    model = _model(recipe.model, models[recipe.model])
    switches = (
        tuple(PciBusId(switch) for switch in recipe.nvlink.switches)
        if isinstance(recipe.nvlink, SwitchNvlink)
        else ()
    )
    gpus = tuple(_gpu(number, recipe, model) for number in range(len(recipe.gpus)))
    return Scenario(
        name=name,
        description=recipe.description,
        host=_host(name, recipe),
        gpus=gpus,
        nvswitches=switches,
        pairs=_pairs(recipe, gpus),
        nics=tuple(_nic(nic) for nic in recipe.nics),
        curves=tuple(curve for group in recipe.curves for curve in _curves(group)),
        faults=tuple(fault_from(fault) for fault in recipe.faults),
    )


def _model(key: str, recipe: ModelRecipe) -> GpuModel:
    return GpuModel(
        key=key,
        **recipe.model_dump(exclude={"answers", "fields"}),
        answers={
            call: (answer,) if isinstance(answer, int) else answer for call, answer in recipe.answers.items()
        },
        fields=_fields(recipe.fields),
    )


def _fields(recipe: dict[int, int | tuple[int, int, int]]) -> dict[int, FieldAnswer]:
    """A bare number is an unsigned value; `[status, type, value]` says all of it."""
    return {
        field: FieldAnswer(0, UNSIGNED, answer) if isinstance(answer, int) else FieldAnswer(*answer)
        for field, answer in recipe.items()
    }


def _host(name: str, recipe: ScenarioRecipe) -> ScenarioHost:
    places = [(nic.path, nic.numa) for nic in recipe.nics] + [(gpu.path, gpu.numa) for gpu in recipe.gpus]
    bridges = {path.split()[0]: numa for path, numa in places}
    return ScenarioHost(
        name=f"sim-{name}",
        **recipe.host.model_dump(exclude={"numa_nodes"}),
        numa_nodes=tuple(NumaNode(number, cpus) for number, cpus in enumerate(recipe.host.numa_nodes)),
        host_bridges=tuple(HostBridge(bridge, node) for bridge, node in sorted(bridges.items())),
    )


def _gpu(number: int, recipe: ScenarioRecipe, model: GpuModel) -> ScenarioGpu:
    gpu = recipe.gpus[number]
    return ScenarioGpu(
        # The form of the capture, so that nobody takes a made-up GPU for a real one.
        uuid=GpuUuid(gpu.uuid or f"GPU-00000000-0000-4000-8000-00000000a{number:03d}"),
        pci_bus_id=PciBusId(gpu.pci),
        path=tuple(gpu.path.split()),
        model=model,
        serial=(gpu.serial or f"{number:013d}") if model.has_serial else "",
        minor=number,
        module_id=gpu.module,
        numa_node=gpu.numa,
        memory_node=gpu.numa if gpu.memory_node is None else gpu.memory_node,
        gpu_numa_id=gpu.gpu_numa_id,
        pcie_generation=gpu.pcie_generation or model.pcie_generation_max,
        pcie_width=gpu.pcie_width or model.pcie_width_max,
        pcie_replays=gpu.replays,
        links=_links(number, recipe, model),
        fabric=_fabric(recipe.nvlink, model),
        processes=gpu.processes,
        memory_used_bytes=gpu.memory_used_bytes,
        utilisation_percent=gpu.utilisation_percent,
        power_milliwatts=gpu.power_milliwatts or model.power_milliwatts,
        ecc_errors=gpu.ecc_errors,
        recovery_action=gpu.recovery_action,
        is_runtime_suspended=gpu.is_runtime_suspended,
        fields=_fields(gpu.fields),
    )


def _fabric(nvlink: NvlinkRecipe, model: GpuModel) -> ScenarioFabric | None:
    if not isinstance(nvlink, SwitchNvlink) or nvlink.fabric_state is None or not model.has_fabric:
        return None
    return ScenarioFabric(state=nvlink.fabric_state)


def _links(number: int, recipe: ScenarioRecipe, model: GpuModel) -> tuple[ScenarioLink, ...]:
    errors = recipe.gpus[number].errors
    return tuple(
        ScenarioLink(
            link=link,
            is_up=True,
            remote_type=remote,
            peer=None if peer is None else PciBusId(peer),
            errors=(0, 0, 0, _at(errors.crc_data, link), _at(errors.ecc_data, link)),
        )
        for link, (remote, peer) in enumerate(_link_ends(number, recipe, model))
    )


def _link_ends(number: int, recipe: ScenarioRecipe, model: GpuModel) -> list[tuple[NvLinkRemote, str | None]]:
    """Where the links of GPU `number` lead, in link order."""
    match recipe.nvlink:
        case SwitchNvlink(hidden=True):
            return [(NvLinkRemote.SWITCH, None)] * model.nvlinks_max
        case SwitchNvlink(switches=switches):
            return [
                (NvLinkRemote.SWITCH, switches[link % len(switches)]) for link in range(model.nvlinks_max)
            ]
        case MeshNvlink() as mesh:
            return [(NvLinkRemote.GPU, recipe.gpus[peer].pci) for peer in _mesh_peers(number, mesh)]
        case NoNvlink():
            return []
    assert_never(recipe.nvlink)


def _mesh_peers(number: int, nvlink: MeshNvlink) -> list[int]:
    """The GPUs at the other ends of the links of GPU `number`, in link order."""
    peers: list[int] = []
    for gpu, peer, links in nvlink.pairs:
        if number in (gpu, peer):
            peers += [peer if number == gpu else gpu] * links
    return peers


def _at(counts: tuple[int, ...], link: int) -> int:
    return counts[link] if link < len(counts) else 0


def _pairs(recipe: ScenarioRecipe, gpus: tuple[ScenarioGpu, ...]) -> tuple[ScenarioPair, ...]:
    pairs = []
    for number, gpu in enumerate(gpus):
        for peer_number, peer in enumerate(gpus):
            if number == peer_number:
                continue
            level = path_level(gpu.path, gpu.numa_node, peer.path, peer.numa_node)
            pairs.append(ScenarioPair(number, peer_number, level, _p2p(recipe.p2p, gpu, peer, level)))
    return tuple(pairs)


def _p2p(
    recipe: P2pRecipe, gpu: ScenarioGpu, peer: ScenarioGpu, level: PathLevel
) -> dict[P2pCapability, P2pStatus]:
    if links_between(gpu, peer):
        return recipe.linked
    return recipe.unlinked | recipe.by_level.get(level, {})


def _nic(nic: NicRecipe) -> ScenarioNic:
    return ScenarioNic(
        name=nic.name,
        pci_bus_id=PciBusId(nic.pci),
        path=tuple(nic.path.split()),
        node_guid=nic.guid,
        numa_node=nic.numa,
        is_up=nic.is_up,
        rate_gbps=nic.rate_gbps,
        link_layer=nic.link_layer,
    )


def _curves(recipe: CurveRecipe) -> list[BusbwCurve]:
    values = recipe.model_dump(exclude={"collectives"})
    return [BusbwCurve(collective=collective, **values) for collective in recipe.collectives]
