"""The three answers to every read: a value, "not supported here", "could not read" (DESIGN rule 4).

A reading that could not be had is never a change and never green. As JSON, `state` tells the three apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Literal, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Value(Generic[T]):
    """What was read."""

    value: T
    state: Literal["value"] = "value"


@dataclass(frozen=True, slots=True)
class NotSupported:
    """This driver or this hardware does not have it; asking again will not help."""

    state: Literal["not_supported"] = "not_supported"


class UnreadableReason(StrEnum):
    """Why a value could not be had although it should exist."""

    NO_PERMISSION = "no_permission"
    GPU_LOST = "gpu_lost"
    RESET_REQUIRED = "reset_required"
    NO_LIBRARY = "no_library"  # the vendor's library is not installed
    DRIVER_NOT_LOADED = "driver_not_loaded"
    DRIVER_MISMATCH = (
        "driver_mismatch"  # library and kernel module differ: usually an upgrade without a reboot
    )
    DRIVER = "driver"  # anything else that makes the driver as a whole unusable
    TIMEOUT = "timeout"
    ASLEEP = "asleep"  # waking the GPU only to read it is refused
    NOT_ASKED = "not_asked"  # too dear for every snapshot; the last value stands
    MALFORMED = "malformed"  # an answer came, and it makes no sense
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The value exists, but this time it could not be had."""

    reason: UnreadableReason
    detail: str = ""
    state: Literal["unreadable"] = "unreadable"


Reading: TypeAlias = Value[T] | NotSupported | Unreadable

NOT_SUPPORTED = NotSupported()


def value_or_none(reading: Reading[T]) -> T | None:
    """The value, or None for both kinds of no value; only where the difference does not matter."""
    return reading.value if isinstance(reading, Value) else None
