"""Which GPUs of a made-up host a CUDA or ROCm process sees, and whether it could use them. Pure."""

from __future__ import annotations

from gpumond.model.topology import Vendor
from gpumond.simulate.amd_driver import AmdDriver
from gpumond.simulate.driver import Driver
from gpumond.simulate.faults import GpuLost, NoPermission
from gpumond.simulate.world import Scenario, ScenarioGpu

FABRIC_COMPLETED = 3
GPU_PREFIX = "GPU-"

VARIABLES = {Vendor.NVIDIA: "CUDA_VISIBLE_DEVICES", Vendor.AMD: "ROCR_VISIBLE_DEVICES"}
"""What chooses the GPUs of a process, below HIP on AMD."""


def visible_gpus(world: Scenario, names: str | None) -> tuple[ScenarioGpu, ...]:
    """The GPUs that `names` (of the vendor's variable; None where it is not set) leaves visible, in its order.

    As CUDA and ROCr do: UUIDs may be shortened, and the first name that is none ends the list.
    """
    driver = AmdDriver(world) if world.vendor is Vendor.AMD else Driver(world)
    if driver.failure_at_start() is not None:
        return ()
    usable = _usable(world)
    if names is None:
        return usable
    chosen: list[ScenarioGpu] = []
    for name in filter(None, (part.strip() for part in names.split(","))):
        gpu = _named(usable, name)
        if gpu is None or gpu in chosen:
            break
        chosen.append(gpu)
    return tuple(chosen)


def find_failure(gpus: tuple[ScenarioGpu, ...]) -> str | None:
    """Why CUDA would not start on `gpus`: on a board with NVSwitch it waits for the fabric."""
    if any(gpu.fabric is not None and gpu.fabric.state != FABRIC_COMPLETED for gpu in gpus):
        return "system not yet initialized"
    return None


def _usable(world: Scenario) -> tuple[ScenarioGpu, ...]:
    """In the order of the bus ids, without those that are lost or forbidden."""
    barred = {fault.gpu for fault in world.faults if isinstance(fault, GpuLost | NoPermission)}
    usable = [gpu for number, gpu in enumerate(world.gpus) if number not in barred]
    return tuple(sorted(usable, key=lambda gpu: gpu.pci_bus_id))


def _named(gpus: tuple[ScenarioGpu, ...], name: str) -> ScenarioGpu | None:
    if name.startswith(GPU_PREFIX):
        matching = [gpu for gpu in gpus if gpu.uuid.startswith(name)]
        return matching[0] if len(matching) == 1 else None
    return gpus[int(name)] if name.isdecimal() and int(name) < len(gpus) else None
