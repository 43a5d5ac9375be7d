"""NVML's numbers in our words: status codes, path levels, P2P answers. Pure; knows no library.

A number that nobody has documented yet is never an error here: it becomes `unreadable` or `U`.
"""

from __future__ import annotations

from enum import IntEnum

from gpumond.model.reading import NOT_SUPPORTED, NotSupported, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import P2pCapability, P2pStatus, PathLevel


class NvmlStatus(IntEnum):
    """nvmlReturn_t, as in nvml.h."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    ALREADY_INITIALIZED = 5
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    INSUFFICIENT_POWER = 8
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    MEMORY = 20
    NO_DATA = 21
    VGPU_ECC_NOT_SUPPORTED = 22
    INSUFFICIENT_RESOURCES = 23
    FREQ_NOT_SUPPORTED = 24
    ARGUMENT_VERSION_MISMATCH = 25
    DEPRECATED = 26
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    INVALID_STATE = 29
    RESET_TYPE_NOT_SUPPORTED = 30
    UNKNOWN = 999


# Asking again will not help. INVALID_ARGUMENT is one of them: all our arguments are constants, so a driver that
# refuses one does not know it yet (580 answers 2 to the field ids of 590) or has no such NVLink.
_PERMANENT = frozenset(
    {
        NvmlStatus.INVALID_ARGUMENT,
        NvmlStatus.NOT_SUPPORTED,
        NvmlStatus.FUNCTION_NOT_FOUND,
        NvmlStatus.VGPU_ECC_NOT_SUPPORTED,
        NvmlStatus.ARGUMENT_VERSION_MISMATCH,
        NvmlStatus.DEPRECATED,
    }
)

_REASONS = {
    NvmlStatus.NO_PERMISSION: UnreadableReason.NO_PERMISSION,
    # Also what a container gets whose cgroup lost its devices (NVIDIA/nvidia-container-toolkit#48).
    NvmlStatus.OPERATING_SYSTEM: UnreadableReason.NO_PERMISSION,
    NvmlStatus.TIMEOUT: UnreadableReason.TIMEOUT,
    NvmlStatus.GPU_IS_LOST: UnreadableReason.GPU_LOST,
    NvmlStatus.GPU_NOT_FOUND: UnreadableReason.GPU_LOST,
    NvmlStatus.RESET_REQUIRED: UnreadableReason.RESET_REQUIRED,
    NvmlStatus.LIBRARY_NOT_FOUND: UnreadableReason.NO_LIBRARY,
    NvmlStatus.DRIVER_NOT_LOADED: UnreadableReason.DRIVER_NOT_LOADED,
    NvmlStatus.LIB_RM_VERSION_MISMATCH: UnreadableReason.DRIVER_MISMATCH,
}

_LEVELS = {
    0: PathLevel.PIX,  # two GPUs of one board
    10: PathLevel.PIX,
    20: PathLevel.PXB,
    30: PathLevel.PHB,
    40: PathLevel.NODE,
    50: PathLevel.SYS,
}

_P2P_STATUS = {
    0: P2pStatus.OK,
    1: P2pStatus.CNS,
    2: P2pStatus.GNS,
    3: P2pStatus.TNS,
    4: P2pStatus.DR,
    5: P2pStatus.NS,
}

P2P_INDEX = {
    P2pCapability.READ: 0,  # a literal: pynvml.NVML_P2P_CAPS_INDEX_READ is the tuple (0,)
    P2pCapability.WRITE: 1,
    P2pCapability.NVLINK: 2,
    P2pCapability.ATOMICS: 3,
    P2pCapability.PCI: 4,
}


def status_name(status: int) -> str:
    """`GPU_IS_LOST (15)`; the bare number where it has no name yet."""
    try:
        return f"{NvmlStatus(status).name} ({status})"
    except ValueError:
        return f"status {status}"


def cause_of(status: int, call: str) -> NotSupported | Unreadable:
    """What an NVML status other than success says about the value that `call` asked for."""
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


def path_level(number: int) -> Reading[PathLevel]:
    level = _LEVELS.get(number)
    if level is None:
        return Unreadable(UnreadableReason.MALFORMED, f"topology level {number}")
    return Value(level)


def p2p_status(number: int) -> P2pStatus:
    """Status 6, and whatever comes later, is neither yes nor no."""
    return _P2P_STATUS.get(number, P2pStatus.U)
