"""What the simulated driver answers to one call of the probe: a value, or what its version and its faults leave. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from gpumond.model.reading import NOT_SUPPORTED, NotSupported, Reading, Unreadable, Value
from gpumond.probe.nvml_codes import cause_of, driver_cause_of
from gpumond.simulate.nvml_answers import (
    FABRIC_V3_SINCE,
    LINK_FIELDS_SINCE,
    RECOVERY_ACTION_SINCE,
)
from gpumond.simulate.nvml_calls import absent_symbols, branch_of
from gpumond.simulate.nvml_faults import CRASH, HANG, Status, fault_status
from gpumond.simulate.world import Scenario

T = TypeVar("T")

# pynvml calls the newest version where its own name has none.
_SYMBOLS = {
    "nvmlDeviceGetCount": "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByPciBusId": "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetNvLinkRemotePciInfo": "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetPciInfo": "nvmlDeviceGetPciInfo_v3",
}


class CallDoesNotReturn(Exception):  # noqa: N818 - not an error of ours: the simulated caller hangs or crashes
    """The probe would hang (or crash) in `call`."""

    def __init__(self, call: str, *, is_crash: bool) -> None:
        super().__init__(call)
        self.call = call
        self.is_crash = is_crash


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver of a host whose hardware faults have struck."""

    world: Scenario

    @property
    def _branch(self) -> int:
        return branch_of(self.world.host.driver_version)

    @property
    def has_link_fields(self) -> bool:
        return self._branch >= LINK_FIELDS_SINCE

    @property
    def has_newest_fabric_struct(self) -> bool:
        return self._branch >= FABRIC_V3_SINCE

    def version(self) -> Reading[str]:
        """The driver's version, or why the driver as a whole cannot be used."""
        return self.failure() or self.ask("nvmlSystemGetDriverVersion", None, self.world.host.driver_version)

    def failure(self) -> Unreadable | None:
        """Why the driver as a whole cannot be used: it does not start, or will not count its GPUs."""
        failure = self.failure_at_start()
        if failure is not None:
            return failure
        count = self.ask("nvmlDeviceGetCount", None, len(self.world.gpus))
        if isinstance(count, NotSupported):
            return driver_cause_of(0, "nvmlDeviceGetCount")
        return count if isinstance(count, Unreadable) else None

    def failure_at_start(self) -> Unreadable | None:
        status = _returned("nvmlInit", fault_status("nvmlInitWithFlags", None, self.world.faults))
        return None if status is None else driver_cause_of(status, "nvmlInit")

    def ask(self, call: str, gpu: int | None, value: T | None, *, symbol: str = "") -> Reading[T]:
        """The answer to a call by its pynvml name (and symbol, where the name alone does not say which).

        `value` is None where the hardware has none.
        """
        symbol = symbol or _SYMBOLS.get(call, call)
        if symbol in absent_symbols(self.world.host.driver_version):
            return NOT_SUPPORTED
        status = _returned(call, fault_status(symbol, gpu, self.world.faults))
        if status is not None and status != 0:
            return cause_of(status, call)
        return NOT_SUPPORTED if value is None else Value(value)

    def ask_field(self, gpu: int, value: T | None) -> Reading[T]:
        """The answer in a field value; `value` None where this driver does not know the field."""
        return self.ask("nvmlDeviceGetFieldValues", gpu, value)

    def recovery_action(self, gpu: int) -> int | None:
        return self.world.gpus[gpu].recovery_action if self._branch >= RECOVERY_ACTION_SINCE else None


def _returned(call: str, status: Status | None) -> int | None:
    if status in (HANG, CRASH):
        raise CallDoesNotReturn(call, is_crash=status == CRASH)
    return None if status is None else int(status)
