"""Which sizes of a series are exported. The full curve stays in the store; metrics carry four points of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from gpumond.model.run import Engine
from gpumond.model.status import LatestPoint

EXPORTED_SIZES_MAX = 4

_TARGETS_BYTES = (64 * 1024, 1024**2, 128 * 1024**2)
"""Latency, the knee, the bandwidth regime; the largest size is always exported."""

_NEAR_FACTOR = 2.0


def select_points(points: Iterable[LatestPoint]) -> tuple[LatestPoint, ...]:
    """At most EXPORTED_SIZES_MAX sizes of each (sweep, engine, gpu_set, collective, datatype), smallest first."""
    ordered = sorted(points, key=lambda point: (*_curve(point), point.size_bytes))
    selected: list[LatestPoint] = []
    for _, group in groupby(ordered, key=_curve):
        selected += _select_of_curve(list(group))
    return tuple(selected)


def _curve(point: LatestPoint) -> tuple[str, Engine, str, str, str]:
    return (point.sweep, point.engine, point.gpu_set, point.collective.value, point.datatype)


def _select_of_curve(curve: list[LatestPoint]) -> list[LatestPoint]:
    if len(curve) <= EXPORTED_SIZES_MAX:
        return curve
    chosen = {curve[-1].size_bytes}
    for target in _TARGETS_BYTES:
        nearest = min(curve, key=lambda point: _distance(point.size_bytes, target))
        if _distance(nearest.size_bytes, target) <= _NEAR_FACTOR:
            chosen.add(nearest.size_bytes)
    # A sweep of large sizes only has nothing near the small targets: the next largest ones say more than nothing.
    for point in reversed(curve):
        if len(chosen) == EXPORTED_SIZES_MAX:
            break
        chosen.add(point.size_bytes)
    return [point for point in curve if point.size_bytes in chosen]


def _distance(size: int, target: int) -> float:
    return max(size / target, target / size)
