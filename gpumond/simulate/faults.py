"""What can be made to go wrong on a simulated host: one class a fault, written as `kind,key=value,...`.

A fault begins `after_seconds` of the simulation's life, so that a demo can break while somebody looks. Faults of the
driver change what calls answer; faults of the hardware change the host itself; faults of the benchmark change its run.
`gpu` is the GPU's place in the scenario, not an index that moves.
"""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import Field, TypeAdapter, ValidationError

from gpumond.errors import UsageError
from gpumond.model.benchmark import Collective


@dataclass(frozen=True, slots=True)
class GpuLost:
    """The GPU fell off the bus: the driver still counts it, and every call on it answers GPU_IS_LOST."""

    gpu: int
    after_seconds: float = 0.0
    kind: Literal["gpu_lost"] = "gpu_lost"


@dataclass(frozen=True, slots=True)
class CallFails:
    """`call` answers the NVML status `status`, for one GPU or (None) for all."""

    call: str
    status: int
    gpu: int | None = None
    after_seconds: float = 0.0
    kind: Literal["call_fails"] = "call_fails"


@dataclass(frozen=True, slots=True)
class NotSupported:
    """`call` is not supported, for one GPU or (None) for all."""

    call: str
    gpu: int | None = None
    after_seconds: float = 0.0
    kind: Literal["not_supported"] = "not_supported"


@dataclass(frozen=True, slots=True)
class NoPermission:
    """This user may not open the GPU."""

    gpu: int
    after_seconds: float = 0.0
    kind: Literal["no_permission"] = "no_permission"


@dataclass(frozen=True, slots=True)
class CallHangs:
    """`call` never returns, and only SIGKILL ends the process."""

    call: str
    gpu: int | None = None
    after_seconds: float = 0.0
    kind: Literal["call_hangs"] = "call_hangs"


@dataclass(frozen=True, slots=True)
class CallCrashes:
    """`call` takes its process down with SIGSEGV."""

    call: str
    gpu: int | None = None
    after_seconds: float = 0.0
    kind: Literal["call_crashes"] = "call_crashes"


@dataclass(frozen=True, slots=True)
class DriverMismatch:
    """The library is newer than the loaded kernel module: an upgrade without a reboot."""

    after_seconds: float = 0.0
    kind: Literal["driver_mismatch"] = "driver_mismatch"


@dataclass(frozen=True, slots=True)
class DriverNotLoaded:
    after_seconds: float = 0.0
    kind: Literal["driver_not_loaded"] = "driver_not_loaded"


@dataclass(frozen=True, slots=True)
class GpuMissing:
    """The GPU is not there at all: neither the driver nor sysfs shows it."""

    gpu: int
    after_seconds: float = 0.0
    kind: Literal["gpu_missing"] = "gpu_missing"


@dataclass(frozen=True, slots=True)
class LinkDown:
    """One NVLink is down; its other end too, where that is a GPU."""

    gpu: int
    link: int
    after_seconds: float = 0.0
    kind: Literal["link_down"] = "link_down"


@dataclass(frozen=True, slots=True)
class LinkErrors:
    """One NVLink has counted `count` replays."""

    gpu: int
    link: int
    count: int
    after_seconds: float = 0.0
    kind: Literal["link_errors"] = "link_errors"


@dataclass(frozen=True, slots=True)
class FabricInProgress:
    """The fabric manager never finishes: no GPU is registered, and NVLink P2P is not usable."""

    after_seconds: float = 0.0
    kind: Literal["fabric_in_progress"] = "fabric_in_progress"


@dataclass(frozen=True, slots=True)
class PcieWidth:
    """The GPU's PCIe link came up with fewer lanes."""

    gpu: int
    lanes: int
    after_seconds: float = 0.0
    kind: Literal["pcie_width"] = "pcie_width"


@dataclass(frozen=True, slots=True)
class GpuBusy:
    """Somebody computes on the GPU."""

    gpu: int
    pid: int
    after_seconds: float = 0.0
    kind: Literal["gpu_busy"] = "gpu_busy"


@dataclass(frozen=True, slots=True)
class NicDown:
    nic: str
    after_seconds: float = 0.0
    kind: Literal["nic_down"] = "nic_down"


@dataclass(frozen=True, slots=True)
class BusbwSlow:
    """Every collective (or one) reaches only `factor` of its bandwidth."""

    factor: float
    collective: Collective | None = None
    after_seconds: float = 0.0
    kind: Literal["busbw_slow"] = "busbw_slow"


@dataclass(frozen=True, slots=True)
class WrongElements:
    """Results hold `count` wrong elements from 1 MiB up."""

    count: int
    collective: Collective | None = None
    after_seconds: float = 0.0
    kind: Literal["wrong_elements"] = "wrong_elements"


@dataclass(frozen=True, slots=True)
class BenchmarkHangs:
    """The benchmark stops after `rows` rows and ignores SIGTERM."""

    rows: int = 0
    collective: Collective | None = None
    after_seconds: float = 0.0
    kind: Literal["benchmark_hangs"] = "benchmark_hangs"


@dataclass(frozen=True, slots=True)
class BenchmarkFails:
    """The benchmark ends after `rows` rows with a CUDA error."""

    rows: int = 0
    collective: Collective | None = None
    after_seconds: float = 0.0
    kind: Literal["benchmark_fails"] = "benchmark_fails"


CallFault: TypeAlias = GpuLost | CallFails | NotSupported | NoPermission | CallHangs | CallCrashes
DriverFault: TypeAlias = DriverMismatch | DriverNotLoaded
HardwareFault: TypeAlias = (
    GpuMissing | LinkDown | LinkErrors | FabricInProgress | PcieWidth | GpuBusy | NicDown
)
BenchmarkFault: TypeAlias = BusbwSlow | WrongElements | BenchmarkHangs | BenchmarkFails
Fault: TypeAlias = CallFault | DriverFault | HardwareFault | BenchmarkFault

GpuFault: TypeAlias = CallFault | GpuMissing | LinkDown | LinkErrors | PcieWidth | GpuBusy
"""Those that can strike one GPU."""

FAULTS: dict[str, type[Fault]] = {
    str(next(field.default for field in dataclasses.fields(fault) if field.name == "kind")): fault
    for fault in get_args(Fault)
}
"""By kind, in the order of this module."""

_adapter: TypeAdapter[Fault] = TypeAdapter(Annotated[Fault, Field(discriminator="kind")])


def fault_from(document: dict[str, Any]) -> Fault:
    """The fault that a table of a scenario file, or a parsed command line, describes. Raises UsageError."""
    kind = str(document.get("kind", ""))
    if kind not in FAULTS:
        near = difflib.get_close_matches(kind, FAULTS, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known faults: {', '.join(FAULTS)}."
        raise UsageError(f"unknown fault {kind!r}", hint=hint)
    keys = [field.name for field in dataclasses.fields(FAULTS[kind])]
    unknown = sorted(set(document) - set(keys))
    if unknown:
        raise UsageError(f"fault {kind} has no key {unknown[0]!r}", hint=f"It takes {', '.join(keys[:-1])}.")
    try:
        return _adapter.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        raise UsageError(
            f"fault {kind}: {place}: {first['msg']}", hint=f"It takes {', '.join(keys[:-1])}."
        ) from error


def parse_fault(text: str) -> Fault:
    """The fault that `text` (`link_down,gpu=3,link=7`) describes. Raises UsageError."""
    kind, *settings = text.split(",")
    document: dict[str, Any] = {"kind": kind.strip()}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator:
            raise UsageError(f"not a fault setting: {setting!r}", hint="Write a fault as kind,key=value,...")
        document[key.strip()] = value.strip()
    return fault_from(document)
