"""A scenario as the part of /sys and /proc that describes PCI devices, NUMA nodes, RDMA devices and the host.

Directories nest as the kernel nests them (the chain of bridges is the path), and `bus/pci/devices` holds links into
them. Nothing is read back and nothing outside the given directory is touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpumond.model.topology import Vendor
from gpumond.simulate.amd_driver import is_shown
from gpumond.simulate.hardware import struck
from gpumond.simulate.kfd import write_kfd
from gpumond.simulate.world import NumaNode, Scenario, ScenarioGpu, ScenarioHost, ScenarioNic

NVIDIA_VENDOR = "0x10de"
AMD_VENDOR = "0x1002"
MELLANOX_VENDOR = "0x15b3"
CLASS_3D_CONTROLLER = "0x030200"
CLASS_VGA_CONTROLLER = "0x030000"
CLASS_ACCELERATOR = "0x120000"
CLASS_INFINIBAND = "0x020700"
CLASS_BRIDGE_OTHER = "0x068000"
CLASS_PCI_BRIDGE = "0x060400"

CONFIGURATION_SPACE_BYTES = 4096
"""All zero: as root sees a bridge without Access Control Services."""

_SPEEDS = {
    1: "2.5 GT/s PCIe",
    2: "5.0 GT/s PCIe",
    3: "8.0 GT/s PCIe",
    4: "16.0 GT/s PCIe",
    5: "32.0 GT/s PCIe",
    6: "64.0 GT/s PCIe",
}


@dataclass(frozen=True, slots=True)
class FakeRoots:
    """What to hand to the probe as `--sysfs` and `--proc`."""

    sysfs: Path
    proc: Path


def write_sysfs(scenario: Scenario, directory: Path, *, elapsed_seconds: float = 0.0) -> FakeRoots:
    """The trees of `scenario` below `directory`, which must not hold one yet."""
    world = struck(scenario, elapsed_seconds)
    roots = FakeRoots(directory / "sys", directory / "proc")
    (roots.sysfs / "bus/pci/devices").mkdir(parents=True)
    _write_host(world.host, roots)
    _write_driver(world, roots)
    for node in world.host.numa_nodes:
        _write_node(node, roots.sysfs)
    for group, gpu in enumerate(world.gpus):
        _write_gpu(gpu, roots.sysfs, group=group, iommu=world.host.iommu)
        if gpu.model.vendor is Vendor.NVIDIA:
            _bind(gpu, roots.sysfs, "nvidia")
            _write(
                roots.proc / f"driver/nvidia/gpus/{gpu.pci_bus_id}/information",
                f"Device Minor: \t {gpu.minor}",
            )
        elif is_shown(group, world.faults):
            _bind(gpu, roots.sysfs, "amdgpu")
    if world.vendor is Vendor.AMD:
        write_kfd(world, roots.sysfs)
    for nic in world.nics:
        _write_nic(nic, roots.sysfs, _cpus(world, nic.numa_node))
    for switch in world.nvswitches:
        # Where NVSwitches hang is not part of a scenario; they are on the first host bridge.
        bridge = world.host.host_bridges[0]
        _write_device(
            roots.sysfs,
            (bridge.name,),
            switch,
            vendor=NVIDIA_VENDOR,
            pci_class=CLASS_BRIDGE_OTHER,
            numa_node=bridge.numa_node,
        )
    return roots


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content + "\n", encoding="utf-8")


def _write_host(host: ScenarioHost, roots: FakeRoots) -> None:
    _write(roots.proc / "sys/kernel/osrelease", host.kernel)
    _write(roots.proc / "sys/kernel/random/boot_id", host.boot_id)
    _write(roots.proc / "uptime", f"{host.uptime_seconds:.2f} {host.uptime_seconds * host.cpu_count:.2f}")
    flags = "fpu vme de pse tsc" + (" hypervisor" if host.is_virtual else "")
    _write(roots.proc / "cpuinfo", f"processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: {flags}\n")
    _write(roots.sysfs / "devices/system/cpu/online", f"0-{host.cpu_count - 1}")


def _write_driver(world: Scenario, roots: FakeRoots) -> None:
    version = world.host.driver_version
    if world.vendor is Vendor.AMD:
        _write(roots.sysfs / "module/amdgpu/version", version)
        return
    kind = "NVIDIA UNIX Open Kernel Module for x86_64"
    _write(roots.proc / "driver/nvidia/version", f"NVRM version: {kind}  {version}  Release Build")


def _bind(gpu: ScenarioGpu, sysfs: Path, driver: str) -> None:
    directory = sysfs / "bus/pci/drivers" / driver
    directory.mkdir(parents=True, exist_ok=True)
    (sysfs / "devices" / Path(*gpu.path) / gpu.pci_bus_id / "driver").symlink_to(directory)


def _write_node(node: NumaNode, sysfs: Path) -> None:
    _write(sysfs / f"devices/system/node/node{node.id}/cpulist", node.cpus)


def _cpus(world: Scenario, node_id: int) -> str:
    """The CPUs near a device: those of its node, or all where the node is unknown."""
    every = f"0-{world.host.cpu_count - 1}"
    return next((node.cpus for node in world.host.numa_nodes if node.id == node_id), every)


def _write_device(
    sysfs: Path, path: tuple[str, ...], bus_id: str, *, vendor: str, pci_class: str, numa_node: int
) -> Path:
    """One PCI device below the bridges of `path`, which are made where they are not there yet."""
    for depth in range(1, len(path)):
        bridge = sysfs / "devices" / Path(*path[: depth + 1])
        if not bridge.exists():
            _write_entry(sysfs, bridge, vendor="0x8086", pci_class=CLASS_PCI_BRIDGE, numa_node=numa_node)
            (bridge / "config").write_bytes(bytes(CONFIGURATION_SPACE_BYTES))
    device = sysfs / "devices" / Path(*path) / bus_id
    _write_entry(sysfs, device, vendor=vendor, pci_class=pci_class, numa_node=numa_node)
    return device


def _write_entry(sysfs: Path, device: Path, *, vendor: str, pci_class: str, numa_node: int) -> None:
    _write(device / "vendor", vendor)
    _write(device / "class", pci_class)
    _write(device / "numa_node", str(numa_node))
    link = sysfs / "bus/pci/devices" / device.name
    # Three levels up from bus/pci/devices, as the kernel writes it.
    link.symlink_to(Path("../../..") / device.relative_to(sysfs))


def _write_gpu(gpu: ScenarioGpu, sysfs: Path, *, group: int, iommu: str) -> None:
    vendor, pci_class = _kind_of(gpu)
    device = _write_device(
        sysfs, gpu.path, gpu.pci_bus_id, vendor=vendor, pci_class=pci_class, numa_node=gpu.numa_node
    )
    _write(device / "device", f"0x{gpu.model.pci_device_id >> 16:04x}")
    _write(device / "current_link_speed", _SPEEDS[gpu.pcie_generation])
    _write(device / "max_link_speed", _SPEEDS[gpu.model.pcie_generation_max])
    _write(device / "current_link_width", str(gpu.pcie_width))
    _write(device / "max_link_width", str(gpu.model.pcie_width_max))
    _write(device / "power/runtime_status", "suspended" if gpu.is_runtime_suspended else "active")
    if iommu:
        _write(sysfs / f"kernel/iommu_groups/{group}/type", iommu)
        (device / "iommu_group").symlink_to(sysfs / f"kernel/iommu_groups/{group}")


def _kind_of(gpu: ScenarioGpu) -> tuple[str, str]:
    if gpu.model.vendor is Vendor.AMD:
        return AMD_VENDOR, CLASS_ACCELERATOR
    return NVIDIA_VENDOR, CLASS_3D_CONTROLLER if gpu.model.has_ecc else CLASS_VGA_CONTROLLER


def _write_nic(nic: ScenarioNic, sysfs: Path, cpus: str) -> None:
    device = _write_device(
        sysfs,
        nic.path,
        nic.pci_bus_id,
        vendor=MELLANOX_VENDOR,
        pci_class=CLASS_INFINIBAND,
        numa_node=nic.numa_node,
    )
    _write(device / "local_cpulist", cpus)
    entry = device / "infiniband" / nic.name
    _write(entry / "node_guid", nic.node_guid)
    _write(entry / "node_type", "1: CA")
    _write(entry / "ports/1/state", "4: ACTIVE" if nic.is_up else "1: DOWN")
    _write(entry / "ports/1/phys_state", "5: LinkUp" if nic.is_up else "3: Disabled")
    _write(entry / "ports/1/rate", f"{nic.rate_gbps} Gb/sec (4X NDR)")
    _write(entry / "ports/1/link_layer", nic.link_layer)
    (entry / "device").symlink_to(device)
    (sysfs / "class/infiniband").mkdir(parents=True, exist_ok=True)
    (sysfs / "class/infiniband" / nic.name).symlink_to(entry)
