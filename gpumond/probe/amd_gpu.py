"""One AMD GPU, or one partition of one, read through amdsmi: identity, links, placement, modes, health.

Each value stands alone: one that cannot be read leaves the others as they are. What only NVIDIA has is not supported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar

from gpumond.model.identity import GpuUuid, PciBusId, normalise_pci_bus_id
from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, Value
from gpumond.model.topology import Gpu, PcieLink, XgmiLinkState
from gpumond.probe import amd_codes
from gpumond.probe.amd import AmdSmiLibrary, Handle
from gpumond.probe.amd_place import Place
from gpumond.probe.kfd import KfdGpu
from gpumond.probe.readings import mapped, or_else, then
from gpumond.probe.sysfs import PciDevice

T = TypeVar("T")

_MICROWATTS_PER_WATT = 1_000_000
_PAGE_PENDING = 1
_PAGE_UNRESERVABLE = 2
"""Of amdsmi_memory_page_status_t, by number."""


@dataclass(frozen=True, slots=True)
class OpenGpu:
    """A GPU with its handle, good for as long as the library is open."""

    handle: Handle
    gpu: Gpu


@dataclass(frozen=True, slots=True)
class _Identity:
    uuid: GpuUuid
    pci_bus_id: PciBusId
    index: int


def read_bus_id(library: AmdSmiLibrary, handle: Handle) -> Reading[PciBusId]:
    return library.ask("amdsmi_get_gpu_device_bdf", handle, convert=normalise_pci_bus_id)


def read_gpu(
    library: AmdSmiLibrary, handle: Handle, *, index: int, bus_id: PciBusId, place: Place
) -> OpenGpu | Unreadable:
    """The GPU behind `handle`, or why it counts as silent: the library does not say who it is."""
    uuid = read_uuid(library, handle, place.node)
    if isinstance(uuid, Unreadable):
        return uuid
    identity = _Identity(uuid or GpuUuid(f"GPU-XX-{bus_id}"), bus_id, index)
    return OpenGpu(handle, _read_facts(library, handle, identity, place))


def read_uuid(library: AmdSmiLibrary, handle: Handle, node: KfdGpu | None) -> GpuUuid | Unreadable | None:
    """KFD's, as ROCr knows it; else the one inside amdsmi's. None for a GPU without: ROCr calls it GPU-XX."""
    if node is not None and node.uuid is not None:
        return node.uuid
    reading = library.ask("amdsmi_get_gpu_device_uuid", handle, convert=amd_codes.unique_id_of)
    if isinstance(reading, Unreadable):
        return reading
    unique_id = reading.value if isinstance(reading, Value) else None
    return amd_codes.rocr_uuid(unique_id or 0)


def _read_facts(library: AmdSmiLibrary, handle: Handle, identity: _Identity, place: Place) -> Gpu:
    def ask(call: str, convert: Callable[[Any], T]) -> Reading[T]:
        return library.ask(f"amdsmi_get_{call}", handle, convert=convert)

    def ask_for(call: str, key: str, convert: Callable[[Any], Reading[T]]) -> Reading[T]:
        return then(ask(call, itemgetter(key)), convert)

    node = place.numa_node(_driver_node(library, handle))
    pages = ask("gpu_bad_page_info", lambda found: {int(page["status"]) for page in found})
    percent = ask_for("gpu_activity", "gfx_activity", amd_codes.number)
    return Gpu(
        pci_bus_id=identity.pci_bus_id,
        uuid=identity.uuid,
        index=identity.index,
        name=ask_for("gpu_asic_info", "market_name", amd_codes.text),
        vbios_version=ask_for("gpu_vbios_info", "version", amd_codes.text),
        minor_number=or_else(
            ask_for("gpu_enumeration_info", "drm_render", amd_codes.number), place.render_minor()
        ),
        module_id=ask_for("gpu_asic_info", "oam_id", amd_codes.number),
        memory_total_bytes=library.memory_bytes("total", handle),
        memory_used_bytes=library.memory_bytes("usage", handle),
        utilisation_ratio=mapped(percent, lambda it: it / 100),
        processes=library.processes(handle),
        pcie=_read_pcie(ask, place.device),
        nvlinks=NOT_SUPPORTED,
        fabric=NOT_SUPPORTED,
        numa_node=node,
        gpu_numa_id=NOT_SUPPORTED,
        cpu_affinity=place.cpu_affinity(node),
        memory_affinity=mapped(node, str),
        persistence_mode=NOT_SUPPORTED,
        mig_mode=NOT_SUPPORTED,
        mig_mode_pending=NOT_SUPPORTED,
        ecc_mode=ask("gpu_ecc_enabled", bool),
        ecc_mode_pending=NOT_SUPPORTED,
        ecc_errors=ask("gpu_total_ecc_count", _ecc_errors),
        # HBM pages that are retired do here what remapped rows do there.
        remapped_rows_pending=mapped(pages, lambda states: _PAGE_PENDING in states),
        remapped_rows_failure=mapped(pages, lambda states: _PAGE_UNRESERVABLE in states),
        recovery_action=NOT_SUPPORTED,
        performance_state=NOT_SUPPORTED,
        xgmi_links=_read_links(library, handle),
        xgmi_hive=then(ask("xgmi_info", lambda it: int(it["xgmi_hive_id"])), amd_codes.hive),
        compute_partition=then(ask("gpu_compute_partition", str), amd_codes.text),
        memory_partition=then(ask("gpu_memory_partition", str), amd_codes.text),
        power_limit_watts=mapped(
            ask_for("power_cap_info", "power_cap", amd_codes.number_not_zero),
            lambda microwatts: microwatts / _MICROWATTS_PER_WATT,
        ),
    )


def _driver_node(library: AmdSmiLibrary, handle: Handle) -> Reading[int | None]:
    return library.ask("amdsmi_topo_get_numa_node_number", handle, convert=amd_codes.numa_node)


def _read_links(library: AmdSmiLibrary, handle: Handle) -> Reading[tuple[XgmiLinkState, ...]]:
    letters = library.ask("amdsmi_get_gpu_xgmi_link_status", handle, convert=lambda it: list(it["status"]))
    if not isinstance(letters, Value):
        return letters
    return amd_codes.link_states(letters.value, is_trusted=library.is_own(handle))


def _read_pcie(
    ask: Callable[[str, Callable[[Any], dict[str, Any]]], Reading[dict[str, Any]]], device: PciDevice | None
) -> PcieLink:
    """From amdsmi, which knows the switches inside a board; where that has no answer, from sysfs."""
    static = ask("pcie_info", lambda it: dict(it["pcie_static"]))
    metric = ask("pcie_info", lambda it: dict(it["pcie_metric"]))
    link = PcieLink(
        generation=then(metric, lambda it: amd_codes.pcie_generation(it["pcie_speed"])),
        generation_max=then(static, lambda it: amd_codes.pcie_generation(it["max_pcie_speed"])),
        width_lanes=then(metric, lambda it: amd_codes.lanes(it["pcie_width"])),
        width_lanes_max=then(static, lambda it: amd_codes.lanes(it["max_pcie_width"])),
        replays=then(metric, lambda it: amd_codes.number(it.get("pcie_replay_count", "N/A"))),
    )
    return link if device is None else link_or_sysfs(link, device.link)


def link_or_sysfs(link: PcieLink, sysfs: PcieLink) -> PcieLink:
    return PcieLink(
        generation=or_else(link.generation, sysfs.generation),
        generation_max=or_else(link.generation_max, sysfs.generation_max),
        width_lanes=or_else(link.width_lanes, sysfs.width_lanes),
        width_lanes_max=or_else(link.width_lanes_max, sysfs.width_lanes_max),
        replays=link.replays,
    )


def _ecc_errors(answer: dict[str, int]) -> dict[str, int]:
    names = {
        "corrected": "correctable_count",
        "uncorrected": "uncorrectable_count",
        "deferred": "deferred_count",
    }
    return {name: int(answer[key]) for name, key in names.items() if key in answer}
