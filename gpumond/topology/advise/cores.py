"""CPU lists as the kernel prints them (`0-31,64-95`), and how GPUs share one. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

CPUS_MAX: Final = 8192
"""CONFIG_NR_CPUS of the largest kernels; more is no CPU list."""

_PART = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class CpuList:
    """Ranges, both ends included, in the order of the text."""

    ranges: tuple[tuple[int, int], ...]

    @property
    def cpus(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    @property
    def cores(self) -> int:
        """Two ranges of one length are cores and their second threads: so the kernel numbers them on x86."""
        lengths = [last - first + 1 for first, last in self.ranges]
        return lengths[0] if len(lengths) == 2 and lengths[0] == lengths[1] else self.cpus  # noqa: PLR2004 - two threads a core

    def __str__(self) -> str:
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self.ranges)


def cpu_list(text: str | None) -> CpuList | None:
    """None where the text is no plain list: a list that cannot be read whole is not pinned to."""
    ranges = []
    for part in (text or "").strip().split(","):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if not first <= last < CPUS_MAX:
            return None
        ranges.append((first, last))
    return CpuList(tuple(ranges))


def share_of(whole: CpuList, place: int, sharers: int) -> CpuList:
    """The part of one of `sharers`: each range is divided alike, so that the two threads of a core stay together.

    All of it where there are fewer CPUs in a range than sharers.
    """
    parts = []
    for first, last in whole.ranges:
        length = (last - first + 1) // sharers
        if length == 0:
            return whole
        parts.append((first + place * length, first + (place + 1) * length - 1))
    return CpuList(tuple(parts))
