"""amdsmi's numbers and words in ours: status codes, link types, link states, UUIDs. Pure; knows no library.

Link types are read by number: the names of `AmdSmiLinkType` moved from release to release (PCIe was 0, 2 and 1), while
the integers that libraries of 6.x and 7.x return did not.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any

from gpumond.model.identity import GpuUuid
from gpumond.model.reading import NOT_SUPPORTED, NotSupported, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import IoLinkCapability, P2pStatus, XgmiLinkState


class AmdSmiStatus(IntEnum):
    """amdsmi_status_t, as far as it says something about a reading call."""

    INVAL = 1
    NOT_SUPPORTED = 2
    NOT_YET_IMPLEMENTED = 3
    FAIL_LOAD_MODULE = 4
    FAIL_LOAD_SYMBOL = 5
    DRM_ERROR = 6
    API_FAILED = 7
    TIMEOUT = 8
    RETRY = 9
    NO_PERM = 10
    IO = 12
    FILE_ERROR = 14
    OUT_OF_RESOURCES = 15
    INTERNAL_EXCEPTION = 16
    INIT_ERROR = 18
    BUSY = 30
    NOT_FOUND = 31
    NOT_INIT = 32
    DRIVER_NOT_LOADED = 34
    NO_DATA = 40
    FILE_NOT_FOUND = 52
    UNKNOWN_ERROR = 0xFFFFFFFF


# Asking again will not help. INVAL is one of them, as with NVML: our arguments are handles and constants, so a library
# that refuses them does not know the question. FILE_NOT_FOUND: this kernel driver does not have the sysfs file.
_PERMANENT = frozenset(
    {
        AmdSmiStatus.INVAL,
        AmdSmiStatus.NOT_SUPPORTED,
        AmdSmiStatus.NOT_YET_IMPLEMENTED,
        AmdSmiStatus.FILE_NOT_FOUND,
    }
)

_REASONS = {
    AmdSmiStatus.NO_PERM: UnreadableReason.NO_PERMISSION,
    AmdSmiStatus.TIMEOUT: UnreadableReason.TIMEOUT,
    AmdSmiStatus.DRIVER_NOT_LOADED: UnreadableReason.DRIVER_NOT_LOADED,
    AmdSmiStatus.NOT_INIT: UnreadableReason.DRIVER,
}

LINK_PCIE = 1
LINK_XGMI = 2

_LINK_STATES = {"U": XgmiLinkState.UP, "D": XgmiLinkState.DOWN, "X": XgmiLinkState.DISABLED}

_CAPABILITIES = {
    "is_iolink_coherent": IoLinkCapability.COHERENT,
    "is_iolink_atomics_32bit": IoLinkCapability.ATOMICS_32BIT,
    "is_iolink_atomics_64bit": IoLinkCapability.ATOMICS_64BIT,
    "is_iolink_dma": IoLinkCapability.DMA,
    "is_iolink_bi_directional": IoLinkCapability.BIDIRECTIONAL,
}
_BYTE_UNKNOWN = 0xFF

# Transfer rate per lane in MT/s to PCI Express generation.
_GENERATIONS = {2_500: 1, 5_000: 2, 8_000: 3, 16_000: 4, 32_000: 5, 64_000: 6}
_FIRST_MTPS = 1_000
"""Smaller rates are GT/s: releases do not agree on the unit."""
_MTPS_PER_GTPS = 1_000

# Counters of gpu_metrics 1.4 and later (MI300), each growing while its limit holds the clocks back, and the bit by which
# NVML names the same cause.
_EVENT_REASONS = {
    "ppt_residency_acc": 0x004,  # power cap
    "prochot_residency_acc": 0x008,  # hardware slowdown: a signal from outside the chip
    "socket_thm_residency_acc": 0x040,  # hardware thermal
    "vr_thm_residency_acc": 0x040,
    "hbm_thm_residency_acc": 0x040,
}

_UNSIGNED_UNKNOWN = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})
_LANES_MAX = 32
_NUMA_UNKNOWN = 0xFFFFFFFF
"""-1, printed without its sign."""

# amdsmi writes the eight bytes of the unique id around the device id and a partition number.
_UUID = re.compile(r"([0-9a-f]{2})[0-9a-f]{6}-[0-9a-f]{4}-1[0-9a-f]{3}-80([0-9a-f]{2})-([0-9a-f]{12})")


def status_name(status: int) -> str:
    """`NO_PERM (10)`; the bare number where it has no name here."""
    try:
        return f"{AmdSmiStatus(status).name} ({status})"
    except ValueError:
        return f"status {status}"


def cause_of(status: int, call: str) -> NotSupported | Unreadable:
    """What an amdsmi status other than success says about the value that `call` asked for."""
    if status in _PERMANENT:
        return NOT_SUPPORTED
    reason = next((reason for code, reason in _REASONS.items() if code == status), UnreadableReason.ERROR)
    return Unreadable(reason, f"{call}: {status_name(status)}")


def driver_cause_of(status: int, call: str) -> Unreadable:
    """The same for a call that concerns the driver as a whole: there, an unnamed cause is the driver's."""
    cause = cause_of(status, call)
    if isinstance(cause, NotSupported) or cause.reason is UnreadableReason.ERROR:
        return Unreadable(UnreadableReason.DRIVER, f"{call}: {status_name(status)}")
    return cause


def rocr_uuid(unique_id: int) -> GpuUuid | None:
    """The name by which ROCr chooses this GPU (ROCR-Runtime, amd_filter_device.cpp); None where the GPU has no id.

    amdsmi's own UUID is longer than ROCr accepts, and newer releases put another byte into it.
    """
    return GpuUuid(f"GPU-{unique_id:016x}") if unique_id else None


def unique_id_of(amdsmi_uuid: str) -> int | None:
    """The unique id inside an amdsmi UUID (ROCm/amdsmi, amd_smi_uuid.cc); None where the text is none."""
    match = _UUID.fullmatch(amdsmi_uuid.strip().lower())
    return None if match is None else int("".join(match.groups()), 16)


def number(value: Any) -> Reading[int]:
    """amdsmi writes "N/A", or all ones, for what this GPU does not have."""
    if value == "N/A" or value in _UNSIGNED_UNKNOWN:
        return NOT_SUPPORTED
    return Value(int(value))


def number_not_zero(value: Any) -> Reading[int]:
    """Where zero cannot be: a weight or a bandwidth that the driver does not know (MI355X prints 0)."""
    reading = number(value)
    return NOT_SUPPORTED if reading == Value(0) else reading


def lanes(value: Any) -> Reading[int]:
    reading = number(value)
    return reading if isinstance(reading, Value) and 1 <= reading.value <= _LANES_MAX else NOT_SUPPORTED


def text(value: Any) -> Reading[str]:
    found = str(value).strip()
    return NOT_SUPPORTED if found in {"", "N/A"} else Value(found)


def hive(number: int) -> Reading[str]:
    """Zero is no hive."""
    return Value(f"0x{number:016x}") if number else NOT_SUPPORTED


def numa_node(value: int) -> int | None:
    return None if value == _NUMA_UNKNOWN or value < 0 else int(value)


def pcie_generation(rate: Any) -> Reading[int]:
    reading = number(rate)
    if not isinstance(reading, Value):
        return reading
    mtps = reading.value if reading.value >= _FIRST_MTPS else reading.value * _MTPS_PER_GTPS
    generation = _GENERATIONS.get(mtps)
    return NOT_SUPPORTED if generation is None else Value(generation)


def link_states(letters: list[str], *, is_trusted: bool) -> Reading[tuple[XgmiLinkState, ...]]:
    """Links by number. A guest reads every link as down although all are up (ROCm/rocm-systems#2053), so all down means
    something only where the GPU itself is ours (`is_trusted`).
    """
    unknown = next((letter for letter in letters if letter not in _LINK_STATES), None)
    if unknown is not None:
        return Unreadable(UnreadableReason.MALFORMED, f"xGMI link status {unknown}")
    states = tuple(_LINK_STATES[letter] for letter in letters)
    wired = set(states) - {XgmiLinkState.DISABLED}
    if not wired or (wired == {XgmiLinkState.DOWN} and not is_trusted):
        return NOT_SUPPORTED
    return Value(states)


def capabilities(answer: dict[str, int]) -> Reading[tuple[IoLinkCapability, ...]]:
    flags = {word: answer.get(key, _BYTE_UNKNOWN) for key, word in _CAPABILITIES.items()}
    if _BYTE_UNKNOWN in flags.values():
        return NOT_SUPPORTED
    return Value(tuple(word for word, flag in flags.items() if flag))


def atomics_status(found: tuple[IoLinkCapability, ...]) -> P2pStatus:
    """OK where both sizes work, as NVIDIA's answer means it."""
    both = {IoLinkCapability.ATOMICS_32BIT, IoLinkCapability.ATOMICS_64BIT}
    return P2pStatus.OK if both <= set(found) else P2pStatus.NS


def access_status(is_accessible: bool) -> P2pStatus:  # noqa: FBT001 - the answer of one call, as it comes
    return P2pStatus.OK if is_accessible else P2pStatus.NS


def residencies(metrics: dict[str, Any]) -> dict[str, int]:
    """The counters that this GPU has; MI200 and older have none."""
    readings = {name: number(metrics.get(name, "N/A")) for name in _EVENT_REASONS}
    return {name: reading.value for name, reading in readings.items() if isinstance(reading, Value)}


def event_reasons(before: dict[str, int], now: dict[str, int]) -> Reading[int]:
    """NVML's mask of what held the clocks back between two samples of `residencies`."""
    compared = before.keys() & now.keys()
    if not compared:
        return NOT_SUPPORTED
    mask = 0
    for name in compared:
        if now[name] > before[name]:
            mask |= _EVENT_REASONS[name]
    return Value(mask)
