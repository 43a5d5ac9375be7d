"""What a setting's text means: sizes, addresses, windows, names. Pure; one parser and one printer each.

Knows neither TOML nor the tables of the file. A parser raises ValueError with a sentence for people that does not
repeat the text: whoever reports the problem appends it, unless it may be a secret. Printing and parsing again gives
the same value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator, StrictStr, ValidationInfo

from gpumond.config.durations import format_duration, parse_duration

FROM_FILE: Final = "from a file"
"""The validation context of values that a person wrote: a duration without a unit is then a mistake. In code a plain
float is seconds."""

SECONDS_PER_MINUTE: Final = 60
MINUTES_PER_DAY: Final = 1_440

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
LARGEST_BYTES: Final = 1 << 50

LARGEST_PORT: Final = 65_535


# --- sizes -----------------------------------------------------------------------------------------------------------

_SIZE = re.compile(r"([0-9]{1,16}) ?([A-Za-z]*)")
_POWERS: Final = {"K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(text: str) -> int:
    """Bytes of `8`, `8B`, `64KiB`, `1G`. K, M, G, T are powers of 1024, as nccl-tests reads them. Raises ValueError."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(
            'must be a whole number of bytes with an optional unit, such as "8", "64MiB" or "2GiB"'
        )
    number, unit = match.groups()
    size = int(number) * _bytes_of(unit)
    if size > LARGEST_BYTES:
        raise ValueError(f"is larger than {format_size(LARGEST_BYTES)}")
    return size


def _bytes_of(unit: str) -> int:
    if unit in {"", "B"}:
        return 1
    letter, rest = unit[0].upper(), unit[1:]
    if letter not in _POWERS or rest not in {"", "iB", "B"}:
        raise ValueError("has an unknown unit: use B, KiB, MiB, GiB or TiB")
    if rest == "B":
        # 2 GB is 2 x 10^9 for a disk and 2^31 for a memory: 7 % apart, which is more than a broken NVLink out of 18.
        raise ValueError(
            f'has an ambiguous unit: write {letter}iB for a power of 1024, as nccl-tests\' "{letter}"'
        )
    return 1 << (10 * _POWERS[letter])


def format_size(size_bytes: int) -> str:
    """The shortest text that `parse_size` reads as `size_bytes`."""
    for letter in "TGMK":
        factor = _bytes_of(letter)
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{letter}iB"
    return str(size_bytes)


# --- addresses -------------------------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+(?:%[^\]\s]+)?)\]|([A-Za-z0-9._-]*)):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen. An empty `host` means every address of this machine; port 0 lets the kernel choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen_address(text: str) -> ListenAddress:
    """`:10061`, `127.0.0.1:10061`, `localhost:10061` or `[::1]:10061`. Raises ValueError."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError('must be host:port, such as ":10061", "127.0.0.1:10061" or "[::1]:10061"')
    ipv6, name, port = match.groups()
    if int(port) > LARGEST_PORT:
        raise ValueError(f"has a port above {LARGEST_PORT}")
    return ListenAddress(ipv6 or name or "", int(port))


# --- windows ---------------------------------------------------------------------------------------------------------

_WINDOW = re.compile(r"([0-9]{1,2}):([0-9]{2}) ?- ?([0-9]{1,2}):([0-9]{2})")


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Wall clock times. An `end` not after `start` is on the next day, so 00:00 to 00:00 is a whole day."""

    start: time
    end: time

    @property
    def length_seconds(self) -> int:
        """By the clock on the wall; a night with a change of the clocks is an hour shorter or longer."""
        minutes = (_minutes(self.end) - _minutes(self.start)) % MINUTES_PER_DAY
        return (minutes or MINUTES_PER_DAY) * SECONDS_PER_MINUTE

    def __str__(self) -> str:
        end = f"{self.end:%H:%M}" if self.end != time(0) else "24:00"
        return f"{self.start:%H:%M}-{end}"


def _minutes(at: time) -> int:
    return at.hour * 60 + at.minute


def parse_window(text: str) -> TimeWindow:
    """`02:00-05:00`, `22:00-04:00` (over midnight) or `00:00-24:00`. Raises ValueError."""
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise ValueError('must be two times of day, such as "02:00-05:00"')
    start_hour, start_minute, end_hour, end_minute = (int(part) for part in match.groups())
    if (start_hour, start_minute) == (end_hour, end_minute):
        raise ValueError('starts and ends at the same time; a whole day is "00:00-24:00"')
    if (end_hour, end_minute) == (24, 0):
        end_hour = 0
    try:
        return TimeWindow(time(start_hour, start_minute), time(end_hour, end_minute))
    except ValueError:
        raise ValueError("holds a time of day that does not exist") from None


class Day(StrEnum):
    """A day of the week."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"

    @property
    def weekday(self) -> int:
        """As `date.weekday` counts: Monday is 0."""
        return list(Day).index(self)


# --- names and paths -------------------------------------------------------------------------------------------------

_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_GPU_UUID = re.compile(r"(?:GPU-)?[0-9A-Fa-f][0-9A-Fa-f-]{14,}")


def check_name(text: str) -> str:
    """Names become labels of metrics, keys in the store and words on a command line."""
    if _NAME.fullmatch(text) is None:
        raise ValueError("must be 1 to 64 of the characters a-z, 0-9, _ and -")
    return text


def check_gpu_uuid(value: object) -> object:
    """A UUID as the driver prints it. An index is refused: it moves when a GPU is lost (DESIGN rule 5)."""
    if not isinstance(value, str) or _GPU_UUID.fullmatch(value) is None:
        raise ValueError(
            "must be the UUID that `gpumond topology` prints; an index would move when a GPU is lost"
        )
    return value


def check_absolute_path(path: Path) -> Path:
    """The daemon's working directory means nothing to whoever writes the file."""
    if not path.is_absolute():
        raise ValueError("must be an absolute path, beginning with /")
    if "\0" in str(path):
        raise ValueError("holds a NUL character")
    return path


# --- as pydantic reads them ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kind:
    """A marker on an annotated type: what its values are called in the documentation, and how one is printed."""

    name: str
    show: Callable[[Any], str]


def _listen_address(value: object) -> object:
    if isinstance(value, ListenAddress):
        return value
    if not isinstance(value, str):
        raise ValueError('must be text in quotes, such as ":10061"')  # noqa: TRY004 - pydantic collects ValueErrors only
    return parse_listen_address(value)


def _window(value: object) -> object:
    if isinstance(value, TimeWindow):
        return value
    if not isinstance(value, str):
        raise ValueError('must be text in quotes, such as "02:00-05:00"')  # noqa: TRY004 - as above
    return parse_window(value)


def _seconds(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, bool) or info.context == FROM_FILE or not isinstance(value, int | float):
        raise ValueError('must be a duration in quotes, such as "60s"')
    return float(value)


def _bytes(value: object) -> object:
    if isinstance(value, str):
        return parse_size(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError('must be a size, such as "64MiB" or 8')  # noqa: TRY004 - as above
    return value


Seconds: TypeAlias = Annotated[float, BeforeValidator(_seconds), Kind("duration", format_duration)]
Bytes: TypeAlias = Annotated[int, BeforeValidator(_bytes), Kind("size", format_size)]
Address: TypeAlias = Annotated[ListenAddress, BeforeValidator(_listen_address), Kind("host:port", str)]
Hours: TypeAlias = Annotated[TimeWindow, BeforeValidator(_window), Kind("times of day", str)]
Name: TypeAlias = Annotated[StrictStr, AfterValidator(check_name), Kind("name", str)]
GpuUuidText: TypeAlias = Annotated[StrictStr, BeforeValidator(check_gpu_uuid), Kind("GPU UUID", str)]
AbsolutePath: TypeAlias = Annotated[Path, AfterValidator(check_absolute_path), Kind("absolute path", str)]


@dataclass(frozen=True, slots=True)
class Between:
    """A validator of bounds that can be read again by the documentation."""

    least: float
    most: float
    show: Callable[[Any], str]

    def __call__(self, value: float | None) -> float | None:
        if value is not None and value < self.least:
            raise ValueError(f"must be at least {self.show(self.least)}")
        if value is not None and value > self.most:
            raise ValueError(f"must be at most {self.show(self.most)}")
        return value


def seconds_between(least: float, most: float) -> AfterValidator:
    """Bounds of a duration, printed as one."""
    return AfterValidator(Between(least, most, format_duration))


def bytes_between(least: int, most: int) -> AfterValidator:
    """Bounds of a size, printed as one."""
    return AfterValidator(Between(least, most, format_size))


def between(least: float, most: float) -> AfterValidator:
    """Bounds of a plain number."""
    return AfterValidator(Between(least, most, str))
