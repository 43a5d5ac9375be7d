"""What amdsmi says of the directed way from one AMD GPU to another."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import GpuPair, IoLinkCapability, P2pCapability, P2pStatus, XgmiPath
from gpumond.probe import amd_codes
from gpumond.probe.amd import AmdSmiLibrary
from gpumond.probe.amd_gpu import OpenGpu
from gpumond.probe.amd_place import Place
from gpumond.probe.readings import mapped, then

BYTES_PER_MB = 10**6


def read_pair(library: AmdSmiLibrary, one: OpenGpu, other: OpenGpu, places: tuple[Place, Place]) -> GpuPair:
    """Never of a GPU with itself: the library answers that with a PCIe link."""
    here, there = places
    capabilities = _ask(library, "topo_get_p2p_status", one, other, itemgetter("cap"))
    found = then(capabilities, amd_codes.capabilities)
    access = _ask(library, "is_P2P_accessible", one, other, amd_codes.access_status)
    return GpuPair(
        gpu=one.gpu.uuid,
        peer=other.gpu.uuid,
        level=here.level_to(there),
        nvlinks=NOT_SUPPORTED,
        p2p=p2p_answers(access, mapped(found, amd_codes.atomics_status)),
        xgmi=_read_xgmi(library, one, other, found),
    )


def p2p_answers(
    access: Reading[P2pStatus], atomics: Reading[P2pStatus]
) -> dict[P2pCapability, Reading[P2pStatus]]:
    """AMD knows one access, in both directions of a copy."""
    return {
        P2pCapability.READ: access,
        P2pCapability.WRITE: access,
        P2pCapability.NVLINK: NOT_SUPPORTED,
        P2pCapability.ATOMICS: atomics,
        P2pCapability.PCI: NOT_SUPPORTED,
    }


def _read_xgmi(
    library: AmdSmiLibrary, one: OpenGpu, other: OpenGpu, found: Reading[tuple[IoLinkCapability, ...]]
) -> Reading[XgmiPath]:
    kind = _ask(library, "topo_get_link_type", one, other, lambda it: int(it["type"]))
    if not isinstance(kind, Value):
        return kind
    if kind.value == amd_codes.LINK_PCIE:
        return NOT_SUPPORTED
    if kind.value != amd_codes.LINK_XGMI:
        return Unreadable(UnreadableReason.MALFORMED, f"amdsmi_topo_get_link_type: link type {kind.value}")
    bandwidth = _ask(library, "get_minmax_bandwidth_between_processors", one, other, dict)
    return Value(
        XgmiPath(
            weight=then(_ask(library, "topo_get_link_weight", one, other, int), amd_codes.number_not_zero),
            bandwidth_min_bytes_per_second=_bandwidth(bandwidth, "min_bandwidth"),
            bandwidth_max_bytes_per_second=_bandwidth(bandwidth, "max_bandwidth"),
            capabilities=found,
        )
    )


def _bandwidth(answer: Reading[dict[str, int]], key: str) -> Reading[int]:
    rate = then(answer, lambda it: amd_codes.number_not_zero(it[key]))
    return mapped(rate, lambda mbps: mbps * BYTES_PER_MB)


def _ask(library: AmdSmiLibrary, call: str, one: OpenGpu, other: OpenGpu, convert: Any) -> Reading[Any]:
    return library.ask(f"amdsmi_{call}", one.handle, other.handle, convert=convert)
