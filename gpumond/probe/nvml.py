"""The only door to NVML (pynvml). It opens for reading calls alone, and every call through it has three answers.

Whoever is behind this door may never answer: calls on a dying GPU block or crash their caller. So only the probe child
imports this module, never the daemon. It knows how to ask; what the answers mean is written in nvml_codes, and what to
ask in nvidia_gpu and nvidia.

A call is named by its pynvml function. Names that do not begin with `nvmlDeviceGet` or `nvmlSystemGet` are refused:
nothing here can change a setting, clear a counter or reset a device, not even by mistake.
"""

from __future__ import annotations

import ctypes
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any, NewType, TypeVar

import pynvml

from gpumond.model.reading import NOT_SUPPORTED, NotSupported, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import Fabric, GpuProcess
from gpumond.probe import nvml_codes
from gpumond.probe.readings import then

T = TypeVar("T")

Handle = NewType("Handle", object)
"""An opened GPU, opaque. It dies with the library."""

FieldId = tuple[int, int]
"""NVML field and its scope: the NVLink number, else 0."""

_READING_CALLS = ("nvmlDeviceGet", "nvmlSystemGet")

_FIELD_MEMBERS = {1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}

# Newest first: a driver that does not know a version answers ARGUMENT_VERSION_MISMATCH.
_FABRIC_STRUCTS = ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t")
_FABRIC_NOT_SUPPORTED = 0

# Newest first: the struct changed within the 535 series (gpuopenanalytics/pynvml#48).
_PROCESS_CALLS = {
    "compute": ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    "graphics": ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
    "mps": ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"),
}


class NvmlLibrary:
    """An initialised NVML. `binding` is pynvml, or something that behaves like it."""

    def __init__(self, binding: ModuleType | Any) -> None:
        self._binding = binding

    def ask(self, call: str, *arguments: Any, convert: Callable[[Any], T]) -> Reading[T]:
        """The converted answer of one reading call, or why there is none."""
        if not call.startswith(_READING_CALLS):
            raise ValueError(f"not a reading call: {call}")
        function = getattr(self._binding, call, None)
        if function is None:
            return NOT_SUPPORTED
        try:
            return Value(convert(function(*arguments)))
        except Exception as error:  # noqa: BLE001 - besides NVMLError: ArgumentError, UnicodeDecodeError, and more
            return self._cause(call, error)

    def open_gpu(self, pci_bus_id: str) -> Reading[Handle]:
        """Touches this GPU only: the other ways to a handle stumble over any lost GPU of the host."""
        return self.ask("nvmlDeviceGetHandleByPciBusId", pci_bus_id, convert=Handle)

    def open_gpu_at(self, index: int) -> Reading[Handle]:
        return self.ask("nvmlDeviceGetHandleByIndex", index, convert=Handle)

    def fields(self, handle: Handle, ids: Sequence[FieldId]) -> dict[FieldId, Reading[int]]:
        """Many field values by one call; each has an answer of its own."""
        answer = self.ask("nvmlDeviceGetFieldValues", handle, list(ids), convert=list)
        if not isinstance(answer, Value):
            return dict.fromkeys(ids, answer)
        return {key: _field_value(entry) for key, entry in zip(ids, answer.value, strict=True)}

    def fabric(self, handle: Handle) -> Reading[Fabric]:
        reading: Reading[Fabric] = NOT_SUPPORTED
        for name in _FABRIC_STRUCTS:
            reading = self._fabric_by(name, handle)
            if not isinstance(reading, NotSupported):
                break
        return then(reading, lambda it: NOT_SUPPORTED if it.state == _FABRIC_NOT_SUPPORTED else Value(it))

    def _fabric_by(self, struct_name: str, handle: Handle) -> Reading[Fabric]:
        if not hasattr(self._binding, struct_name):
            return NOT_SUPPORTED
        info = getattr(self._binding, struct_name)()
        return self.ask(
            "nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info), convert=lambda _: _fabric(info)
        )

    def processes(self, handle: Handle) -> Reading[tuple[GpuProcess, ...]]:
        """Every process with a context. One list that exists and cannot be read is not an idle GPU."""
        lists = {kind: self._process_list(handle, kind) for kind in _PROCESS_CALLS}
        unreadable = next((some for some in lists.values() if isinstance(some, Unreadable)), None)
        if unreadable is not None or not isinstance(lists["compute"], Value):
            return unreadable or NOT_SUPPORTED
        return Value(
            tuple(entry for some in lists.values() if isinstance(some, Value) for entry in some.value)
        )

    def _process_list(self, handle: Handle, kind: str) -> Reading[tuple[GpuProcess, ...]]:
        reading: Reading[tuple[GpuProcess, ...]] = NOT_SUPPORTED
        for call in _PROCESS_CALLS[kind]:
            reading = self.ask(
                call,
                handle,
                convert=lambda found: tuple(GpuProcess(it.pid, kind, it.usedGpuMemory) for it in found),
            )
            if not isinstance(reading, NotSupported):
                break
        return reading

    def _cause(self, call: str, error: Exception) -> NotSupported | Unreadable:
        if isinstance(error, self._binding.NVMLError):
            # By value: NVMLError objects are unhashable, and comparing one with anything else raises.
            return nvml_codes.cause_of(int(error.value), call)
        if isinstance(error, getattr(self._binding, "NVMLLibraryMismatchError", ())):
            return NOT_SUPPORTED  # an old library without this call; not an NVMLError
        return Unreadable(UnreadableReason.MALFORMED, f"{call}: {type(error).__name__}: {error}")


@contextmanager
def opened(binding: ModuleType | Any = pynvml) -> Iterator[NvmlLibrary | Unreadable]:
    """NVML for the length of a `with`, or why the whole driver cannot be used."""
    try:
        binding.nvmlInit()
    except binding.NVMLError as error:
        yield nvml_codes.driver_cause_of(int(error.value), "nvmlInit")
        return
    try:
        yield NvmlLibrary(binding)
    finally:
        # An open NVML blocks GPU resets (NVIDIA/NVSentinel#1690). One that cannot even close dies with the process.
        with suppress(Exception):
            binding.nvmlShutdown()


def _field_value(entry: Any) -> Reading[int]:
    if entry.nvmlReturn != 0:
        return nvml_codes.cause_of(int(entry.nvmlReturn), f"field {entry.fieldId}")
    member = _FIELD_MEMBERS.get(entry.valueType)
    if member is None:
        return Unreadable(UnreadableReason.MALFORMED, f"field {entry.fieldId}: value type {entry.valueType}")
    return Value(int(getattr(entry.value, member)))


def _fabric(info: Any) -> Fabric:
    summary = getattr(info, "healthSummary", None)
    return Fabric(
        state=int(info.state),
        status=int(info.status),
        clique_id=int(info.cliqueId),
        cluster_uuid=str(uuid.UUID(bytes=bytes(info.clusterUuid))),
        health_mask=int(info.healthMask),
        health_summary=None if summary is None else int(summary),
    )
