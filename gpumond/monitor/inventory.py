"""The numbers that people see: the place of each GPU, ordered by PCI bus id, of the moment when it was accepted. Pure."""

from __future__ import annotations

from gpumond.model.reading import value_or_none
from gpumond.model.status import InventoryEntry
from gpumond.model.topology import Snapshot


def inventory_of(snapshot: Snapshot) -> tuple[InventoryEntry, ...]:
    """The GPUs that answered, numbered by PCI bus id."""
    gpus = sorted(snapshot.gpus, key=lambda gpu: gpu.pci_bus_id)
    return tuple(
        InventoryEntry(number, gpu.uuid, gpu.pci_bus_id, value_or_none(gpu.name) or "")
        for number, gpu in enumerate(gpus)
    )
