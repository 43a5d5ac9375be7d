"""A recipe spelled out as a `Scenario`: every link, every directed pair, every identity. Pure."""

from __future__ import annotations

from typing import assert_never

from gpumond.model.identity import GpuUuid, PciBusId
from gpumond.model.topology import NvLinkRemote, P2pCapability, P2pStatus, PathLevel, Vendor, XgmiLinkState
from gpumond.simulate.faults import fault_from
from gpumond.simulate.recipe import (
    CurveRecipe,
    MeshNvlink,
    ModelRecipe,
    NicRecipe,
    NoNvlink,
    NvlinkRecipe,
    P2pRecipe,
    ScenarioRecipe,
    SwitchNvlink,
    XgmiRecipe,
)
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
    ScenarioXgmi,
    ScenarioXgmiPath,
)

UNSIGNED = 1
"""NVML's value type of a field value that is written as a bare number."""

HIVE_ID_BASE = 0x5A5A_0000_0000_0001

_MADE_UP_UUIDS = {
    # The form of the capture, so that nobody takes a made-up GPU for a real one.
    Vendor.NVIDIA: "GPU-00000000-0000-4000-8000-00000000a{number:03d}",
    Vendor.AMD: "GPU-1a2b3c4d5e6f{number:04d}",
}


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
        uuid=GpuUuid(gpu.uuid or _MADE_UP_UUIDS[model.vendor].format(number=number)),
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
        xgmi=_xgmi(number, recipe.xgmi),
        compute_partition=gpu.compute_partition if model.vendor is Vendor.AMD else "",
        memory_partition=gpu.memory_partition if model.vendor is Vendor.AMD else "",
    )


def _xgmi(number: int, recipe: XgmiRecipe | None) -> ScenarioXgmi | None:
    """A board has a link for each place of its hive, its own one included, which leads nowhere."""
    place = None if recipe is None else recipe.hive_of(number)
    if recipe is None or place is None:
        return None
    members = recipe.hives[place]
    links = (XgmiLinkState.DISABLED if member == number else XgmiLinkState.UP for member in members)
    return ScenarioXgmi(hive_id=HIVE_ID_BASE + place, links=tuple(links))


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
            path = _xgmi_path(recipe.xgmi, gpu, peer)
            is_linked = path is not None or links_between(gpu, peer) > 0
            p2p = _p2p(recipe.p2p, level, is_linked=is_linked)
            pairs.append(ScenarioPair(number, peer_number, level, p2p, path))
    return tuple(pairs)


def _xgmi_path(recipe: XgmiRecipe | None, gpu: ScenarioGpu, peer: ScenarioGpu) -> ScenarioXgmiPath | None:
    if recipe is None or gpu.xgmi is None or peer.xgmi is None or gpu.xgmi.hive_id != peer.xgmi.hive_id:
        return None
    return ScenarioXgmiPath(recipe.weight, recipe.bandwidth_mbps)


def _p2p(recipe: P2pRecipe, level: PathLevel, *, is_linked: bool) -> dict[P2pCapability, P2pStatus]:
    if is_linked:
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
