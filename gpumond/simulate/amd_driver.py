"""What the simulated amdsmi answers to one call of the probe: a value, or what its faults leave. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, Value
from gpumond.probe.amd_codes import AmdSmiStatus, cause_of, driver_cause_of
from gpumond.simulate.amd_calls import BUS_ID_CALL, HANDLES_CALL, INIT_CALL
from gpumond.simulate.driver import CallDoesNotReturn
from gpumond.simulate.faults import (
    CallCrashes,
    CallFails,
    CallHangs,
    DriverNotLoaded,
    Fault,
    GpuLost,
    NoPermission,
    NotSupported,
)
from gpumond.simulate.nvml_faults import CRASH, HANG, Status
from gpumond.simulate.world import Scenario

T = TypeVar("T")

_STATUS: dict[type[Fault], Status] = {
    DriverNotLoaded: AmdSmiStatus.DRIVER_NOT_LOADED.value,
    NoPermission: AmdSmiStatus.NO_PERM.value,
    NotSupported: AmdSmiStatus.NOT_SUPPORTED.value,
    CallHangs: HANG,
    CallCrashes: CRASH,
}


def fault_status(call: str, gpu: int | None, faults: Iterable[Fault]) -> Status | None:
    """What the first fault that strikes `call` on `gpu` makes it answer; None where none does."""
    for fault in faults:
        if _strikes(fault, call, gpu):
            return fault.status if isinstance(fault, CallFails) else _STATUS[type(fault)]
    return None


def is_shown(gpu: int, faults: Iterable[Fault]) -> bool:
    """A GPU whose driver gave up on it is still on the bus, and neither amdsmi nor KFD has it any more."""
    return not any(isinstance(fault, GpuLost) and fault.gpu == gpu for fault in faults)


def is_in_kfd(gpu: int, faults: Iterable[Fault]) -> bool:
    """The node of a GPU that this process may not open reads as empty."""
    barred = any(isinstance(fault, NoPermission) and fault.gpu == gpu for fault in faults)
    return is_shown(gpu, faults) and not barred


@dataclass(frozen=True, slots=True)
class AmdDriver:
    """The driver and its library on a host whose hardware faults have struck."""

    world: Scenario

    @property
    def shown(self) -> list[int]:
        """The numbers of the GPUs that the library lists, in its order."""
        return [number for number in range(len(self.world.gpus)) if is_shown(number, self.world.faults)]

    def failure_at_start(self) -> Unreadable | None:
        status = self._status(INIT_CALL, None)
        return None if status is None else driver_cause_of(status, INIT_CALL)

    def handles(self) -> Reading[list[int]]:
        return self.ask(HANDLES_CALL, None, self.shown)

    def ask(self, call: str, gpu: int | None, value: T | None) -> Reading[T]:
        """The answer to a call; `value` is None where the hardware has none."""
        status = self._status(call, gpu)
        if status is not None and status != 0:
            return cause_of(status, call)
        return NOT_SUPPORTED if value is None else Value(value)

    def _status(self, call: str, gpu: int | None) -> int | None:
        status = fault_status(call, gpu, self.world.faults)
        if status in (HANG, CRASH):
            raise CallDoesNotReturn(call, is_crash=status == CRASH)
        return None if status is None else int(status)


def _strikes(fault: Fault, call: str, gpu: int | None) -> bool:
    match fault:
        case DriverNotLoaded():
            return call == INIT_CALL
        case NoPermission():
            return gpu == fault.gpu and call != BUS_ID_CALL
        case CallFails() | NotSupported() | CallHangs() | CallCrashes():
            return call == fault.call and fault.gpu in (None, gpu)
        case _:
            return False
