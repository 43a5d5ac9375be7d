"""One snapshot of this host, put together from the driver, sysfs and /proc. Runs in the probe child only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gpumond.clock import Clock
from gpumond.model.reading import Unreadable, Value
from gpumond.model.topology import Host, Snapshot, Vendor
from gpumond.probe import host, nvidia, rocm
from gpumond.probe.rdma import read_nics
from gpumond.probe.report import DriverReport
from gpumond.probe.sysfs import PciInventory, pci_inventory, text_of

_VENDOR_NAMES = {Vendor.NVIDIA: "NVIDIA", Vendor.AMD: "AMD"}


def take(*, sysfs: Path, proc: Path, with_errors: bool, clock: Clock) -> Snapshot:
    taken_at, start = clock.now(), clock.monotonic()
    inventories = {vendor: pci_inventory(sysfs, vendor) for vendor in Vendor}
    asked = _ask_vendors(inventories, sysfs, proc, with_errors=with_errors)
    report, pci = asked.report, inventories[asked.vendor]
    return Snapshot(
        taken_at=taken_at,
        host=_host(host.read(sysfs, proc, pci), report),
        # NVIDIA also where sysfs shows nothing and its driver answers (WSL2).
        vendor=asked.vendor if isinstance(report.driver, Value) or pci.gpus else None,
        driver=report.driver,
        gpus=report.gpus,
        silent_gpus=report.silent_gpus,
        pairs=report.pairs,
        nics=read_nics(sysfs, pci, report.gpus),
        duration_seconds=clock.monotonic() - start,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    vendor: Vendor
    report: DriverReport


def _ask_vendors(
    inventories: Mapping[Vendor, PciInventory], sysfs: Path, proc: Path, *, with_errors: bool
) -> _Asked:
    """The vendor whose driver answers and shows GPUs. A snapshot has one: of two, the one with more GPUs.

    Only vendors whose GPUs sysfs shows are asked, since loading a library is not free; without any, NVIDIA.
    """
    first: _Asked | None = None
    for vendor in _by_gpu_count(inventories):
        pci = inventories[vendor]
        asked = _Asked(vendor, _report_of(vendor, pci, sysfs, proc, with_errors=with_errors))
        if asked.report.gpus:
            return asked
        first = first or asked
    if first is None:
        raise AssertionError("there is no vendor to ask")
    return _naming_the_other(first, inventories)


def _by_gpu_count(inventories: Mapping[Vendor, PciInventory]) -> Iterator[Vendor]:
    """Most GPUs first. At a tie NVIDIA: beside one NVIDIA card, one AMD GPU is the graphics unit of the CPU."""
    ranked = sorted(Vendor, key=lambda vendor: (-len(inventories[vendor].gpus), vendor is not Vendor.NVIDIA))
    found = [vendor for vendor in ranked if inventories[vendor].gpus]
    yield from found or [Vendor.NVIDIA]


def _report_of(
    vendor: Vendor, pci: PciInventory, sysfs: Path, proc: Path, *, with_errors: bool
) -> DriverReport:
    match vendor:
        case Vendor.NVIDIA:
            return nvidia.read(pci, with_errors=with_errors)
        case Vendor.AMD:
            return rocm.read(sysfs, pci, kernel=text_of(proc / "sys/kernel/osrelease"))


def _naming_the_other(asked: _Asked, inventories: Mapping[Vendor, PciInventory]) -> _Asked:
    """No driver shows a GPU, so whoever reads why must know that there are GPUs of another vendor as well."""
    others = [vendor for vendor in Vendor if vendor is not asked.vendor and inventories[vendor].gpus]
    if not others or not isinstance(asked.report.driver, Unreadable):
        return asked
    counts = ", ".join(f"{len(inventories[vendor].gpus)} of {_VENDOR_NAMES[vendor]}" for vendor in others)
    detail = f"{asked.report.driver.detail}; the host also has GPUs whose driver does not answer: {counts}"
    return replace(asked, report=replace(asked.report, driver=replace(asked.report.driver, detail=detail)))


def _host(around: host.Surroundings, report: DriverReport) -> Host:
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
        rocm_version=report.rocm_version,
        acs_redirects=around.acs_redirects,
        cpuset=around.cpuset,
        container_devices=around.container_devices,
    )
