"""What a fault of the driver makes a call answer. Pure.

NVML's order of things: an initialisation that fails hides everything else; a GPU that is lost, or that may not be
opened, is refused at its handle; any single call may fail, hang or crash by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from gpumond.probe.nvml_codes import NvmlStatus
from gpumond.simulate.faults import (
    CallCrashes,
    CallFails,
    CallHangs,
    DriverMismatch,
    DriverNotLoaded,
    Fault,
    GpuLost,
    NoPermission,
    NotSupported,
)
from gpumond.simulate.nvml_calls import HANDLE_CALLS, INIT_CALLS, symbols_of

HANG = "hang"
CRASH = "crash"

Status: TypeAlias = int | str
"""An nvmlReturn_t, or HANG, or CRASH."""

_STATUS: dict[type[Fault], Status] = {
    DriverMismatch: NvmlStatus.LIB_RM_VERSION_MISMATCH.value,
    DriverNotLoaded: NvmlStatus.DRIVER_NOT_LOADED.value,
    GpuLost: NvmlStatus.GPU_IS_LOST.value,
    NoPermission: NvmlStatus.NO_PERMISSION.value,
    NotSupported: NvmlStatus.NOT_SUPPORTED.value,
    CallHangs: HANG,
    CallCrashes: CRASH,
}


def fault_status(call: str, gpu: int | None, faults: Iterable[Fault]) -> Status | None:
    """What the first fault that strikes `call` (a symbol) on `gpu` makes it answer; None where none does."""
    for fault in faults:
        if _strikes(fault, call, gpu):
            return fault.status if isinstance(fault, CallFails) else _STATUS[type(fault)]
    return None


def struck_calls(faults: Iterable[Fault], gpu_count: int) -> Iterator[tuple[str, int]]:
    """The symbols and GPUs that faults of single calls strike, also where the host has no answer otherwise."""
    for fault in faults:
        if isinstance(fault, CallFails | NotSupported | CallHangs | CallCrashes):
            targets = range(gpu_count) if fault.gpu is None else (fault.gpu,)
            yield from ((symbol, gpu) for symbol in symbols_of(fault.call) for gpu in targets)


def _strikes(fault: Fault, call: str, gpu: int | None) -> bool:
    match fault:
        case DriverMismatch() | DriverNotLoaded():
            return call in INIT_CALLS
        case GpuLost():
            return gpu == fault.gpu
        case NoPermission():
            return gpu == fault.gpu and call in HANDLE_CALLS
        case CallFails() | NotSupported() | CallHangs() | CallCrashes():
            return call in symbols_of(fault.call) and fault.gpu in (None, gpu)
        case _:
            return False
