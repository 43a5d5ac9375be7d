"""Numbers for people: GB/s of 10^9 bytes as nccl-tests prints them, binary sizes as its command line takes them, ages."""

from __future__ import annotations

from datetime import datetime

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_AGES = ((86400, "d"), (3600, "h"), (60, "min"))


def gigabytes_per_second(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:.2f}"


def binary_size(size_bytes: int) -> str:
    """2147483648 as `2 GiB`; the largest unit that divides it without a rest."""
    unit = 0
    while size_bytes and size_bytes % 1024 == 0 and unit < len(_BINARY) - 1:
        size_bytes //= 1024
        unit += 1
    return f"{size_bytes} {_BINARY[unit]}"


def duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    milliseconds = seconds * 1e3
    return f"{milliseconds:.2f} ms" if milliseconds >= 1 else f"{milliseconds * 1e3:.1f} µs"


def age(then: datetime, now: datetime) -> str:
    """`3 min ago`, `in 2 h`: whole units, rounded down."""
    seconds = (now - then).total_seconds()
    for unit_seconds, unit in _AGES:
        if abs(seconds) >= unit_seconds:
            text = f"{int(abs(seconds) // unit_seconds)} {unit}"
            break
    else:
        text = f"{int(abs(seconds))} s"
    return f"{text} ago" if seconds >= 0 else f"in {text}"


def instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")
