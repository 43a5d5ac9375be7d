"""The only door to AMD's library (amdsmi). It opens for reading calls alone, and every call through it has three answers.

Only the probe child imports this module, and amdsmi itself only inside `opened`: where ROCm is missing, or older than
the Python module, importing it prints to standard output and raises KeyError, OSError or AttributeError. That is a state
of the host like any other, and here it is a value.

The module of the installed ROCm is taken before any other: the struct layouts in it must be those of the library, and
a wheel from an index is of one release (ROCm/amdsmi#98, #186). amdsmi_init can hang (ROCm/rocm-systems#6462): whoever
starts this process has a deadline.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NewType, TypeVar

from gpumond.model.reading import NOT_SUPPORTED, NotSupported, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import GpuProcess
from gpumond.probe import amd_codes
from gpumond.probe.readings import mapped, then

T = TypeVar("T")

Handle = NewType("Handle", object)
"""A GPU, or a partition of one; opaque. It dies with the library."""

_READING_CALLS = ("amdsmi_get_", "amdsmi_topo_get_", "amdsmi_is_P2P_accessible")

_ROCM_VARIABLES = ("ROCM_HOME", "ROCM_PATH")
"""In the order in which amdsmi itself looks for its library."""
_ROCM_DEFAULT = "/opt/rocm"
_MODULE_DIRECTORY = "share/amd_smi"

_HERTZ_PER_MEGAHERTZ = 1_000_000

_GUEST = 3  # of amdsmi_virtualization_mode_t, by number
_UNKNOWN_MODE = 0


class AmdSmiLibrary:
    """An initialised amdsmi. `binding` is the module, or something that behaves like it."""

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
        except Exception as error:  # noqa: BLE001 - besides its own: KeyError for a new enum value, and more
            return self._cause(call, error)

    def handles(self) -> Reading[tuple[Handle, ...]]:
        """One for each GPU; in partition mode, one for each partition."""
        return self.ask(
            "amdsmi_get_processor_handles", convert=lambda found: tuple(Handle(it) for it in found)
        )

    def version(self) -> Reading[str]:
        """The library's version and the module's: they should belong together, and often do not."""
        module = getattr(self._binding, "__version__", "unknown")
        return self.ask(
            "amdsmi_get_lib_version",
            convert=lambda it: f"{it['major']}.{it['minor']}.{it['release']} (Python module {module})",
        )

    def rocm_version(self) -> Reading[str]:
        reading = self.ask("amdsmi_get_rocm_version", convert=lambda answer: answer)
        if not isinstance(reading, Value):
            return reading
        is_found, version = reading.value
        return Value(str(version)) if is_found else NOT_SUPPORTED

    def memory_bytes(self, call: str, handle: Handle) -> Reading[int]:
        """`call` is `total` or `usage`."""
        kinds = getattr(self._binding, "AmdSmiMemoryType", None)
        if kinds is None:
            return NOT_SUPPORTED
        return self.ask(f"amdsmi_get_gpu_memory_{call}", handle, kinds.VRAM, convert=int)

    def clock_hertz(self, handle: Handle) -> Reading[int]:
        """Of the compute units."""
        kinds = getattr(self._binding, "AmdSmiClkType", None)
        if kinds is None:
            return NOT_SUPPORTED
        clock = self.ask("amdsmi_get_clock_info", handle, kinds.GFX, convert=itemgetter("clk"))
        return mapped(then(clock, amd_codes.number), lambda megahertz: megahertz * _HERTZ_PER_MEGAHERTZ)

    def temperature_celsius(self, handle: Handle) -> Reading[int]:
        """Of the hottest place, which is what limits; MI300 has no edge sensor."""
        sensors = getattr(self._binding, "AmdSmiTemperatureType", None)
        metrics = getattr(self._binding, "AmdSmiTemperatureMetric", None)
        if sensors is None or metrics is None:
            return NOT_SUPPORTED
        call = "amdsmi_get_temp_metric"
        return self.ask(call, handle, sensors.HOTSPOT, metrics.CURRENT, convert=int)

    def processes(self, handle: Handle) -> Reading[tuple[GpuProcess, ...]]:
        """Every process with memory on the GPU; some of them may have ended already (ROCm/legacy-rocm-build#4411)."""
        return self.ask(
            "amdsmi_get_gpu_process_list", handle, convert=lambda found: tuple(_process(it) for it in found)
        )

    def is_own(self, handle: Handle) -> bool:
        """Whether this host has the GPU for itself, and not a virtual function of it; no where nobody says."""
        mode = self.ask("amdsmi_get_gpu_virtualization_mode", handle, convert=lambda it: int(it["mode"]))
        return isinstance(mode, Value) and mode.value not in (_GUEST, _UNKNOWN_MODE)

    def _cause(self, call: str, error: Exception) -> NotSupported | Unreadable:
        if isinstance(error, self._binding.AmdSmiLibraryException):
            return amd_codes.cause_of(int(error.get_error_code()), call)
        return Unreadable(UnreadableReason.MALFORMED, f"{call}: {type(error).__name__}: {error}")


def load() -> ModuleType | Unreadable:
    """The module amdsmi, or why this host has none that works."""
    said = io.StringIO()
    try:
        with _rocm_module_first(), contextlib.redirect_stdout(said):
            import amdsmi  # noqa: PLC0415 - see the module's docstring
    except Exception as error:  # noqa: BLE001 - ImportError, OSError, KeyError, AttributeError, by release
        # What it printed names the library; the exception is often only KeyError: 'libamd_smi.so'.
        why = said.getvalue().strip().partition("\n")[0] or f"{type(error).__name__}: {error}"
        return Unreadable(UnreadableReason.NO_LIBRARY, f"amdsmi cannot be imported: {why}")
    module: ModuleType = amdsmi
    return module


@contextmanager
def opened() -> Iterator[AmdSmiLibrary | Unreadable]:
    """amdsmi for the length of a `with`, or why it cannot be used."""
    binding = load()
    if isinstance(binding, Unreadable):
        yield binding
        return
    failure = _initialise(binding)
    if failure is not None:
        yield failure
        return
    try:
        yield AmdSmiLibrary(binding)
    finally:
        with suppress(Exception):
            binding.amdsmi_shut_down()


def _initialise(binding: ModuleType | Any) -> Unreadable | None:
    try:
        binding.amdsmi_init()
    except binding.AmdSmiLibraryException as error:
        return amd_codes.driver_cause_of(int(error.get_error_code()), "amdsmi_init")
    except Exception as error:  # noqa: BLE001 - see `ask`
        return Unreadable(UnreadableReason.DRIVER, f"amdsmi_init: {type(error).__name__}: {error}")
    return None


@contextmanager
def _rocm_module_first() -> Iterator[None]:
    """The directory of the installed ROCm's module ahead of every other, where there is one."""
    roots = [os.environ[name] for name in _ROCM_VARIABLES if os.environ.get(name)] or [_ROCM_DEFAULT]
    directories = [str(Path(root) / _MODULE_DIRECTORY) for root in roots]
    sys.path[:0] = directories
    try:
        yield
    finally:
        for directory in directories:
            sys.path.remove(directory)


def _process(entry: dict[str, Any]) -> GpuProcess:
    memory = entry.get("memory_usage", {}).get("vram_mem", entry.get("mem"))
    return GpuProcess(int(entry["pid"]), "compute", None if memory is None else int(memory))
