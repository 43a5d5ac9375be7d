"""Which sizes of a result are exported: the whole curve is in the store, and a series a size has to pay for itself. Pure.

A sweep from 8 B to 8 GiB has 31 sizes; with three GPU sets its results alone would be 3,700 series, against a budget of
2,500 for the whole host (DESIGN 5).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

SIZES_MAX: Final = 6
"""As many as the default sweep has, 64 MiB to 2 GiB: those are all exported."""

_MIB: Final = 1 << 20
_LANDMARKS_BYTES: Final = (1 * _MIB, 64 * _MIB, 256 * _MIB, 1024 * _MIB)
"""Beside the smallest (latency) and the largest (what the links give): the knee, and where bandwidth is judged."""


def chosen_sizes(sizes: Collection[int]) -> frozenset[int]:
    """At most SIZES_MAX of `sizes`, always the same ones: a series that comes and goes could not be alerted on."""
    if len(sizes) <= SIZES_MAX:
        return frozenset(sizes)
    nearest = {
        min(sizes, key=lambda size: (_distance(size, landmark), size)) for landmark in _LANDMARKS_BYTES
    }
    return frozenset({min(sizes), max(sizes), *nearest})


def _distance(size: int, landmark: int) -> float:
    """How many times larger one is than the other."""
    return max(size, landmark) / max(1, min(size, landmark))
