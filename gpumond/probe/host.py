"""What surrounds the GPUs: kernel, boot, CPUs, IOMMU, hypervisor. From /proc and /sys, whose roots are parameters."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpumond.model.identity import PciBusId
from gpumond.model.reading import NOT_SUPPORTED, Reading, Value
from gpumond.probe.acs import read_redirects
from gpumond.probe.confinement import read_container_devices, read_cpuset
from gpumond.probe.lists import members_of_list
from gpumond.probe.sysfs import PciInventory, text_of
from gpumond.process.procfs import read_uptime_seconds

# /proc/cpuinfo repeats itself for each CPU; on a 512-CPU host the whole of it costs 100 ms.
_CPUINFO_HEAD_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The part of `Host` that needs no GPU driver."""

    kernel: str
    boot_id: str
    uptime_seconds: float
    cpu_count: int
    iommu: Reading[str]
    is_virtual: Reading[bool]
    acs_redirects: Reading[tuple[PciBusId, ...]]
    cpuset: Reading[str]
    container_devices: Reading[str]


def read(sysfs: Path, proc: Path, pci: PciInventory) -> Surroundings:
    return Surroundings(
        kernel=text_of(proc / "sys/kernel/osrelease"),
        boot_id=text_of(proc / "sys/kernel/random/boot_id"),
        uptime_seconds=read_uptime_seconds(proc) or 0.0,
        cpu_count=len(members_of_list(text_of(sysfs / "devices/system/cpu/online"))) or os.cpu_count() or 0,
        iommu=_iommu(pci),
        is_virtual=_is_virtual(sysfs, proc),
        acs_redirects=read_redirects(sysfs, pci),
        cpuset=read_cpuset(proc),
        container_devices=read_container_devices(os.environ),
    )


def _iommu(pci: PciInventory) -> Reading[str]:
    """How the GPUs' memory accesses are translated: `off`, or the kernel's words (`identity`, `DMA`, `DMA-FQ`).

    P2P that the driver calls OK hangs or returns wrong data behind some of them (NVIDIA/nccl-tests#117).
    """
    if not pci.gpus:
        return NOT_SUPPORTED
    kinds = {device.iommu_group_type or "off" for device in pci.gpus}
    return Value(",".join(sorted(kinds)))


def _is_virtual(sysfs: Path, proc: Path) -> Reading[bool]:
    """x86 guests carry the CPU flag `hypervisor`; other architectures do not say it in one place."""
    try:
        with (proc / "cpuinfo").open(encoding="utf-8", errors="replace") as cpuinfo:
            head = cpuinfo.read(_CPUINFO_HEAD_BYTES)
    except OSError:
        return NOT_SUPPORTED
    flags = next((line for line in head.splitlines() if line.startswith("flags")), None)
    if flags is not None:
        return Value("hypervisor" in flags.split())
    return Value(value=True) if text_of(sysfs / "hypervisor/type") else NOT_SUPPORTED
