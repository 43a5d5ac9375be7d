"""Faults of the hardware, applied: the host as it is once they have struck. Pure.

Other faults stay in the scenario: they change what a driver answers or how a benchmark runs, not what is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never, get_args

from gpumond.model.topology import NvLinkRemote, P2pCapability, P2pStatus, XgmiLinkState
from gpumond.simulate.faults import (
    FabricInProgress,
    Fault,
    GpuBusy,
    GpuFault,
    GpuMissing,
    HardwareFault,
    LinkDown,
    LinkErrors,
    NicDown,
    PcieWidth,
)
from gpumond.simulate.wiring import links_between
from gpumond.simulate.world import Scenario, ScenarioFabric, ScenarioGpu, ScenarioLink, ScenarioProcess

FABRIC_IN_PROGRESS = 2
BUSY_MEMORY_BYTES = 925_696_000
BUSY_POWER_MILLIWATTS = 690_195
POWER_LIMIT_MILLIWATTS = 700_000
SM_CLOCK_LIMIT_MEGAHERTZ = 1980
"""Limits of an H200 (captures/h200x2); every made-up GPU has them."""
"""What one CUDA process with a small matrix held and drew (capture of the busy pair)."""


def struck(scenario: Scenario, elapsed_seconds: float = 0.0) -> Scenario:
    """`scenario` after `elapsed_seconds`: due faults of the hardware are done, other due ones are left, later ones gone."""
    due = tuple(fault for fault in scenario.faults if fault.after_seconds <= elapsed_seconds)
    result = replace(scenario, faults=tuple(fault for fault in due if not isinstance(fault, HardwareFault)))
    for fault in due:
        if isinstance(fault, HardwareFault) and not isinstance(fault, GpuMissing):
            result = _apply(result, fault)
    # A missing GPU moves the numbers of all behind it, so these come last, and the last GPU first.
    for number in sorted({fault.gpu for fault in due if isinstance(fault, GpuMissing)}, reverse=True):
        result = _without_gpu(result, number)
    return result


def _apply(
    scenario: Scenario, fault: LinkDown | LinkErrors | FabricInProgress | PcieWidth | GpuBusy | NicDown
) -> Scenario:
    match fault:
        case LinkDown():
            return _with_link_down(scenario, fault)
        case FabricInProgress():
            return _without_fabric(scenario)
        case NicDown():
            nics = tuple(replace(nic, is_up=nic.is_up and nic.name != fault.nic) for nic in scenario.nics)
            return replace(scenario, nics=nics)
        case LinkErrors() | PcieWidth() | GpuBusy():
            return _with_gpu(scenario, fault.gpu, _changed(scenario.gpus[fault.gpu], fault))
    assert_never(fault)


def _changed(gpu: ScenarioGpu, fault: LinkErrors | PcieWidth | GpuBusy) -> ScenarioGpu:
    match fault:
        case LinkErrors():
            link = gpu.links[fault.link]
            return _with_link(gpu, replace(link, errors=(fault.count, *link.errors[1:])))
        case PcieWidth():
            return replace(gpu, pcie_width=fault.lanes)
        case GpuBusy():
            return _busy(gpu, fault.pid)
    assert_never(fault)


def _with_gpu(scenario: Scenario, number: int, gpu: ScenarioGpu) -> Scenario:
    return replace(scenario, gpus=(*scenario.gpus[:number], gpu, *scenario.gpus[number + 1 :]))


def _with_link(gpu: ScenarioGpu, link: ScenarioLink) -> ScenarioGpu:
    return replace(gpu, links=(*gpu.links[: link.link], link, *gpu.links[link.link + 1 :]))


def _with_link_down(scenario: Scenario, fault: LinkDown) -> Scenario:
    gpu = scenario.gpus[fault.gpu]
    if gpu.xgmi is not None:
        return _with_xgmi_down(scenario, fault.gpu, fault.link)
    link = gpu.links[fault.link]
    result = _with_gpu(scenario, fault.gpu, _with_link(gpu, replace(link, is_up=False)))
    if link.remote_type is NvLinkRemote.GPU and link.is_up:
        result = _with_peer_end_down(result, gpu, link)
    return _with_p2p_of_links(result)


def _with_xgmi_down(scenario: Scenario, number: int, link: int) -> Scenario:
    """Both ends: a GPU's place in its hive is the number of its peers' link to it, and of its own idle one."""
    result = _with_gpu(scenario, number, _with_xgmi_link_down(scenario.gpus[number], link))
    gpu = scenario.gpus[number]
    for peer_number, peer in enumerate(scenario.gpus):
        is_of_hive = gpu.xgmi and peer.xgmi and gpu.xgmi.hive_id == peer.xgmi.hive_id
        if is_of_hive and peer_number != number and _place_in_hive(peer) == link:
            end_down = _with_xgmi_link_down(peer, _place_in_hive(gpu))
            result = _with_gpu(result, peer_number, end_down)
    return result


def _with_xgmi_link_down(gpu: ScenarioGpu, link: int) -> ScenarioGpu:
    if gpu.xgmi is None or gpu.xgmi.links[link] is XgmiLinkState.DISABLED:
        return gpu
    links = tuple(XgmiLinkState.DOWN if place == link else it for place, it in enumerate(gpu.xgmi.links))
    return replace(gpu, xgmi=replace(gpu.xgmi, links=links))


def _place_in_hive(gpu: ScenarioGpu) -> int:
    return gpu.xgmi.links.index(XgmiLinkState.DISABLED) if gpu.xgmi else 0


def _with_peer_end_down(scenario: Scenario, gpu: ScenarioGpu, link: ScenarioLink) -> Scenario:
    """Take down the other end: of several links between two GPUs, the one at the same place."""
    place = [it.link for it in gpu.links if it.peer == link.peer].index(link.link)
    number = next(number for number, it in enumerate(scenario.gpus) if it.pci_bus_id == link.peer)
    peer = scenario.gpus[number]
    end = [it for it in peer.links if it.peer == gpu.pci_bus_id][place]
    return _with_gpu(scenario, number, _with_link(peer, replace(end, is_up=False)))


def _with_p2p_of_links(scenario: Scenario) -> Scenario:
    """Where the last link of a pair is down, P2P over NVLink is no longer there."""
    pairs = tuple(
        pair
        if links_between(scenario.gpus[pair.gpu], scenario.gpus[pair.peer])
        else replace(pair, p2p=_without_nvlink(pair.p2p))
        for pair in scenario.pairs
    )
    return replace(scenario, pairs=pairs)


def _without_nvlink(p2p: dict[P2pCapability, P2pStatus]) -> dict[P2pCapability, P2pStatus]:
    if p2p.get(P2pCapability.NVLINK) is not P2pStatus.OK:
        return p2p
    return p2p | {P2pCapability.NVLINK: P2pStatus.NS}


def _without_fabric(scenario: Scenario) -> Scenario:
    """Seen on real hosts: links are up, the GPUs are not registered, P2P is not usable (leptonai/gpud#1106)."""
    gpus = tuple(
        replace(gpu, fabric=ScenarioFabric(state=FABRIC_IN_PROGRESS)) if gpu.fabric else gpu
        for gpu in scenario.gpus
    )
    pairs = tuple(replace(pair, p2p=dict.fromkeys(pair.p2p, P2pStatus.NS)) for pair in scenario.pairs)
    return replace(scenario, gpus=gpus, pairs=pairs)


def _busy(gpu: ScenarioGpu, pid: int) -> ScenarioGpu:
    process = ScenarioProcess(pid, "compute", BUSY_MEMORY_BYTES)
    return replace(
        gpu,
        processes=(*gpu.processes, process),
        memory_used_bytes=gpu.memory_used_bytes + BUSY_MEMORY_BYTES,
        utilisation_percent=96,
        power_milliwatts=BUSY_POWER_MILLIWATTS,
    )


def _without_gpu(scenario: Scenario, missing: int) -> Scenario:
    """The GPU is gone: the driver's order closes up, and links to it have no end any more."""
    gone = scenario.gpus[missing]
    gpus = tuple(_without_links_to(gpu, gone) for gpu in scenario.gpus if gpu is not gone)
    pairs = tuple(
        replace(pair, gpu=_closed_up(pair.gpu, missing), peer=_closed_up(pair.peer, missing))
        for pair in scenario.pairs
        if missing not in (pair.gpu, pair.peer)
    )
    faults = tuple(_renumbered(fault, missing) for fault in scenario.faults if not _strikes(fault, missing))
    return replace(scenario, gpus=gpus, pairs=pairs, faults=faults)


def _without_links_to(gpu: ScenarioGpu, gone: ScenarioGpu) -> ScenarioGpu:
    """The ends of its links stay on the board; what they lead to is unknown now."""
    if gpu.xgmi and gone.xgmi and gpu.xgmi.hive_id == gone.xgmi.hive_id:
        return _with_xgmi_link_down(gpu, _place_in_hive(gone))
    links = tuple(
        replace(link, is_up=False, peer=None) if link.peer == gone.pci_bus_id else link for link in gpu.links
    )
    return replace(gpu, links=links)


def _closed_up(number: int, missing: int) -> int:
    return number - (number > missing)


def _strikes(fault: Fault, gpu: int) -> bool:
    return isinstance(fault, get_args(GpuFault)) and fault.gpu == gpu


def _renumbered(fault: Fault, missing: int) -> Fault:
    if not isinstance(fault, get_args(GpuFault)) or fault.gpu is None:
        return fault
    result: Fault = replace(fault, gpu=_closed_up(fault.gpu, missing))
    return result
