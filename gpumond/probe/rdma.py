"""RDMA network devices, from sysfs: who they are, whether their ports are up, how near they are to each GPU.

Virtual functions whose physical function is visible too are left out: they are 10-30 rows that say the same
(sgl-project/sglang#3538).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpumond.model.identity import GpuUuid
from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import Gpu, Nic, PathLevel
from gpumond.probe.sysfs import PciDevice, PciInventory, path_level, read_pci_device, text_of

_ACTIVE = "4"  # `4: ACTIVE`
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")  # `400 Gb/sec (4X NDR)`
_NUMBERS = re.compile(r"\d+|\D+")


def read_nics(sysfs: Path, pci: PciInventory, gpus: Sequence[Gpu]) -> tuple[Nic, ...]:
    """Every RDMA device, in the order in which people count them: mlx5_2 before mlx5_10."""
    try:
        entries = sorted((sysfs / "class/infiniband").iterdir(), key=_natural_order)
    except OSError:
        return ()
    devices = {
        entry: read_pci_device(entry / "device", sysfs)
        for entry in entries
        if not (entry / "device/physfn").exists()
    }
    return tuple(_read_nic(entry, devices, pci, gpus) for entry in devices)


def _read_nic(
    entry: Path, devices: Mapping[Path, PciDevice | None], pci: PciInventory, gpus: Sequence[Gpu]
) -> Nic:
    ports = {int(port.name): port for port in sorted((entry / "ports").glob("[0-9]*"))}
    ports_up = {number: text_of(port / "state").startswith(_ACTIVE) for number, port in ports.items()}
    layers = {text_of(port / "link_layer") for port in ports.values()}
    device = devices[entry]
    return Nic(
        name=entry.name,
        pci_bus_id=None if device is None else device.bus_id,
        node_guid=text_of(entry / "node_guid"),
        numa_node=NOT_SUPPORTED if device is None or device.numa_node is None else Value(device.numa_node),
        ports_up=ports_up,
        rate_bits_per_second=_rate([port for number, port in ports.items() if ports_up[number]]),
        link_layer=",".join(sorted(layers)),
        levels={} if device is None else _levels(device, pci, gpus),
        nic_levels={} if device is None else _nic_levels(device, devices),
    )


def _levels(nic: PciDevice, pci: PciInventory, gpus: Sequence[Gpu]) -> dict[GpuUuid, PathLevel]:
    levels = {}
    for gpu in gpus:
        device = pci.gpu(gpu.pci_bus_id)
        if device is None:
            continue
        # The driver may know the node where sysfs does not.
        node = gpu.numa_node.value if isinstance(gpu.numa_node, Value) else None
        level = path_level(nic.path, device.path, nic.numa_node, node)
        if level is not None:
            levels[gpu.uuid] = level
    return levels


def _nic_levels(nic: PciDevice, devices: Mapping[Path, PciDevice | None]) -> dict[str, PathLevel]:
    levels = {}
    for entry, peer in devices.items():
        if peer is None or peer is nic:
            continue
        level = path_level(nic.path, peer.path, nic.numa_node, peer.numa_node)
        if level is not None:
            levels[entry.name] = level
    return levels


def _rate(ports_up: list[Path]) -> Reading[int]:
    """The fastest port. One that is down shows some lower rate, which would look like a change."""
    if not ports_up:
        return Unreadable(UnreadableReason.ERROR, "no port is up")
    rates = [
        match for match in (_RATE.match(text_of(port / "rate")) for port in ports_up) if match is not None
    ]
    if not rates:
        return NOT_SUPPORTED
    return Value(max(round(float(match[1]) * 10**9) for match in rates))


def _natural_order(entry: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _NUMBERS.findall(entry.name)]
