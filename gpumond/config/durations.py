"""What the text of a duration means. Pure, and without pydantic: `gpumond check` reads one and has no time for that.

A parser raises ValueError with a sentence for people that does not repeat the text. Printing and parsing again gives
the same value.
"""

from __future__ import annotations

import re
from typing import Final

SECONDS_PER_DAY: Final = 86_400
LONGEST_SECONDS: Final = 100 * 366 * SECONDS_PER_DAY
"""Longer is a slip of the keyboard, and would overflow sums with dates."""

_DURATION = re.compile(
    r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?(?:([0-9]{1,12})ms)?"
)
_UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def parse_duration(text: str) -> float:
    """Seconds of `60s`, `5m`, `1h30m`, `2d`, `500ms`. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise ValueError('must be a duration with its unit, such as "60s", "5m", "2h", "1d" or "1h30m"')
    milliseconds = sum(
        int(number) * factor for number, (_, factor) in zip(match.groups(), _UNITS_MS, strict=True) if number
    )
    seconds = milliseconds / 1000
    if seconds > LONGEST_SECONDS:
        raise ValueError("is longer than a century")
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest text that `parse_duration` reads as `seconds`, to the millisecond."""
    rest = round(seconds * 1000)
    parts = []
    for unit, factor in _UNITS_MS:
        number, rest = divmod(rest, factor)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"
