"""One snapshot of this host, put together from the driver, sysfs and /proc. Runs in the probe child only."""

from __future__ import annotations

from pathlib import Path

from gpumond.clock import Clock
from gpumond.model.reading import Reading, Value
from gpumond.model.topology import Host, Snapshot, Vendor
from gpumond.probe import host, nvidia
from gpumond.probe.nvidia import NvidiaReport
from gpumond.probe.rdma import read_nics
from gpumond.probe.sysfs import PciInventory, pci_inventory


def take(*, sysfs: Path, proc: Path, with_errors: bool, clock: Clock) -> Snapshot:
    taken_at, start = clock.now(), clock.monotonic()
    pci = pci_inventory(sysfs)
    report = nvidia.read(pci, with_errors=with_errors)
    return Snapshot(
        taken_at=taken_at,
        host=_host(host.read(sysfs, proc, pci), report),
        vendor=_vendor(report.driver, pci),
        driver=report.driver,
        gpus=report.gpus,
        silent_gpus=report.silent_gpus,
        pairs=report.pairs,
        nics=read_nics(sysfs, pci, report.gpus),
        duration_seconds=clock.monotonic() - start,
    )


def _host(around: host.Surroundings, report: NvidiaReport) -> Host:
    return Host(
        kernel=around.kernel,
        boot_id=around.boot_id,
        uptime_seconds=around.uptime_seconds,
        cpu_count=around.cpu_count,
        iommu=around.iommu,
        driver_version=report.driver,
        driver_library_version=report.library_version,
        cuda_version=report.cuda_version,
        is_virtual=around.is_virtual,
    )


def _vendor(driver: Reading[str], pci: PciInventory) -> Vendor | None:
    """NVIDIA where its driver answers, or where its GPUs are plugged in although it does not."""
    return Vendor.NVIDIA if isinstance(driver, Value) or pci.gpus else None
