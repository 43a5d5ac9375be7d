"""The AMD GPUs of a host whose amdsmi cannot be used: what KFD and sysfs tell without it.

Identity, links and placement are complete, and equal to what amdsmi would have told. Whatever only the library knows is
unreadable, never "not supported": a library that breaks overnight is not a change of the hardware.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpumond.model.identity import GpuUuid, PciBusId
from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import Gpu, GpuPair, P2pStatus, PcieLink, SilentGpu, XgmiPath
from gpumond.probe import amd_codes
from gpumond.probe.amd_pairs import BYTES_PER_MB, p2p_answers
from gpumond.probe.amd_place import Place
from gpumond.probe.kfd import LINK_XGMI, KfdGpu, KfdLink
from gpumond.probe.readings import mapped
from gpumond.probe.report import DriverReport
from gpumond.probe.sysfs import PciInventory


def read(
    pci: PciInventory, nodes: Mapping[PciBusId, KfdGpu], *, driver: str, library: Unreadable
) -> DriverReport:
    """`library` is why there is no amdsmi."""
    shown = sorted(nodes.values(), key=lambda node: node.pci_bus_id)
    awake = [node for node in shown if not _is_asleep(node, pci)]
    gpus = {node.node: _gpu(node, index, pci, library) for index, node in enumerate(shown) if node in awake}
    absent = [device.bus_id for device in pci.gpus if device.bus_id not in nodes]
    silent = [SilentGpu(None, bus_id, _absence(pci, bus_id)) for bus_id in absent]
    silent += [SilentGpu(None, node.pci_bus_id, _ASLEEP) for node in shown if node not in awake]
    return DriverReport(
        driver=Value(driver),
        library_version=library,
        rocm_version=library,
        gpus=tuple(gpus.values()),
        silent_gpus=tuple(silent),
        pairs=tuple(
            _pair(one, other, gpus, pci, library) for one in awake for other in awake if one is not other
        ),
    )


_ASLEEP = Unreadable(UnreadableReason.ASLEEP, "in runtime suspend; reading it would wake it")


def _is_asleep(node: KfdGpu, pci: PciInventory) -> bool:
    device = pci.gpu(node.pci_bus_id)
    return device is not None and device.is_asleep


def _absence(pci: PciInventory, bus_id: PciBusId) -> Unreadable:
    device = pci.gpu(bus_id)
    if device is not None and not device.has_driver:
        return Unreadable(UnreadableReason.GPU_LOST, "no kernel driver is bound to it")
    return Unreadable(UnreadableReason.ERROR, "KFD does not show this GPU")


def _gpu(node: KfdGpu, index: int, pci: PciInventory, library: Unreadable) -> Gpu:
    place = Place.of(node.pci_bus_id, pci, {node.pci_bus_id: node})
    numa = place.numa_node()
    sysfs = place.device.link if place.device else None
    return Gpu(
        pci_bus_id=node.pci_bus_id,
        uuid=node.uuid or GpuUuid(f"GPU-XX-{node.pci_bus_id}"),
        index=index,
        name=library,
        vbios_version=library,
        minor_number=place.render_minor(),
        module_id=library,
        memory_total_bytes=library,
        memory_used_bytes=library,
        utilisation_ratio=library,
        processes=library,
        pcie=PcieLink(
            generation=sysfs.generation if sysfs else library,
            generation_max=sysfs.generation_max if sysfs else library,
            width_lanes=sysfs.width_lanes if sysfs else library,
            width_lanes_max=sysfs.width_lanes_max if sysfs else library,
            replays=library,
        ),
        nvlinks=NOT_SUPPORTED,
        fabric=NOT_SUPPORTED,
        numa_node=numa,
        gpu_numa_id=NOT_SUPPORTED,
        cpu_affinity=place.cpu_affinity(numa),
        memory_affinity=mapped(numa, str),
        persistence_mode=NOT_SUPPORTED,
        mig_mode=NOT_SUPPORTED,
        mig_mode_pending=NOT_SUPPORTED,
        ecc_mode=library,
        ecc_mode_pending=NOT_SUPPORTED,
        ecc_errors=library,
        remapped_rows_pending=library,
        remapped_rows_failure=library,
        recovery_action=NOT_SUPPORTED,
        performance_state=NOT_SUPPORTED,
        xgmi_links=library,
        xgmi_hive=amd_codes.hive(node.hive_id),
        compute_partition=library,
        memory_partition=library,
    )


def _pair(
    one: KfdGpu, other: KfdGpu, gpus: Mapping[int, Gpu], pci: PciInventory, library: Unreadable
) -> GpuPair:
    here, there = (Place.of(it.pci_bus_id, pci, {}) for it in (one, other))
    link = one.link_to(other)
    # Without a link KFD says nothing: peer access through the host may still be allowed.
    access: Reading[P2pStatus] = library if link is None else Value(P2pStatus.OK)
    return GpuPair(
        gpu=gpus[one.node].uuid,
        peer=gpus[other.node].uuid,
        level=here.level_to(there),
        nvlinks=NOT_SUPPORTED,
        p2p=p2p_answers(access, library),
        xgmi=NOT_SUPPORTED if link is None or link.kind != LINK_XGMI else Value(_path(link, library)),
    )


def _path(link: KfdLink, library: Unreadable) -> XgmiPath:
    def rate(mbps: int) -> Reading[int]:
        return mapped(amd_codes.number_not_zero(mbps), lambda it: it * BYTES_PER_MB)

    return XgmiPath(
        weight=amd_codes.number_not_zero(link.weight),
        bandwidth_min_bytes_per_second=rate(link.bandwidth_min_mbps),
        bandwidth_max_bytes_per_second=rate(link.bandwidth_max_mbps),
        capabilities=library,
    )
