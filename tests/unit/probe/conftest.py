"""A sysfs tree in a directory, as small as the probe's questions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

NVIDIA = "0x10de"
MELLANOX = "0x15b3"


@dataclass(frozen=True)
class SysfsTree:
    root: Path

    def add_pci(
        self, chain: str, *, vendor: str = NVIDIA, pci_class: str = "0x030200", numa: int = -1, **files: str
    ) -> Path:
        """A device at the end of `chain`: host bridge, ports and the device, joined by `/`."""
        real = self.root / "devices" / chain
        real.mkdir(parents=True, exist_ok=True)
        for name, text in {"vendor": vendor, "class": pci_class, "numa_node": str(numa), **files}.items():
            path = real / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        links = self.root / "bus/pci/devices"
        links.mkdir(parents=True, exist_ok=True)
        (links / real.name).symlink_to(real)
        return real

    def add_nic(
        self,
        name: str,
        chain: str,
        *,
        numa: int = -1,
        state: str = "4: ACTIVE",
        rate: str = "400 Gb/sec (4X NDR)",
    ) -> Path:
        real = self.add_pci(chain, vendor=MELLANOX, pci_class="0x020700", numa=numa)
        return self._add_rdma(name, state, rate, real)

    def add_software_nic(self, name: str) -> Path:
        return self._add_rdma(name, "4: ACTIVE", "2.5 Gb/sec (1X SDR)", None)

    def _add_rdma(self, name: str, state: str, rate: str, device: Path | None) -> Path:
        nic = self.root / "class/infiniband" / name
        port = nic / "ports/1"
        port.mkdir(parents=True)
        (nic / "node_guid").write_text(f"0000:0000:0000:{name[-4:]}\n")
        (port / "state").write_text(f"{state}\n")
        (port / "rate").write_text(f"{rate}\n")
        (port / "link_layer").write_text("InfiniBand\n")
        if device is not None:
            (nic / "device").symlink_to(device)
        return nic

    def add_node(self, number: int, cpus: str) -> None:
        node = self.root / f"devices/system/node/node{number}"
        node.mkdir(parents=True)
        (node / "cpulist").write_text(f"{cpus}\n")

    def add_driver(self, device: Path, name: str) -> None:
        driver = self.root / "bus/pci/drivers" / name
        driver.mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(driver)

    def add_iommu_group(self, device: Path, number: int, kind: str) -> None:
        group = self.root / f"kernel/iommu_groups/{number}"
        group.mkdir(parents=True)
        (group / "type").write_text(f"{kind}\n")
        (device / "iommu_group").symlink_to(group)


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    return SysfsTree(tmp_path / "sys")
