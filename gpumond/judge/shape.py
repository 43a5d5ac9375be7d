"""What looks odd within one run, without any past: dips, placements that differ, repeats that differ. Pure.

These are sentences for a person beside the verdict, never a verdict: a curve may fall where NCCL changes its algorithm.
Where a baseline has the same fall it is such a change, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpumond.judge.policy import DIP_RATIO, FALL_RATIO, LATENCY_BELOW_BYTES, PLACEMENT_RATIO, REPEAT_SPREAD
from gpumond.model.benchmark import Placement, Point

_KNOWN_FALL_TOLERANCE = 0.05


def shape_of(points: Sequence[Point], known: Mapping[int, float] | None = None) -> tuple[str, ...]:
    """Everything odd about a run; `known` is the curve that is normal here, by size."""
    if not points:
        return ()
    return (*dips_of(curve_of(points), known or {}), *placements_of(points), *repeats_of(points))


def curve_of(points: Iterable[Point], placement: Placement = Placement.OUT_OF_PLACE) -> dict[int, float]:
    """busbw by size, ascending; of several values of a size the best."""
    curve: dict[int, float] = {}
    for point in points:
        if point.placement is placement and point.busbw_bytes_per_second > 0:
            curve[point.size_bytes] = max(curve.get(point.size_bytes, 0.0), point.busbw_bytes_per_second)
    return dict(sorted(curve.items()))


def dips_of(curve: Mapping[int, float], known: Mapping[int, float]) -> tuple[str, ...]:
    """Falls from one size to the next that the known curve does not have: below both neighbours, or for good."""
    sizes = [size for size in curve if size >= LATENCY_BELOW_BYTES]
    found = []
    for left, size, right in zip(sizes, sizes[1:], [*sizes[2:], None], strict=False):
        fall = curve[size] / curve[left]
        recovers = right is not None and curve[size] < DIP_RATIO * curve[right]
        if (fall < FALL_RATIO or (fall < DIP_RATIO and recovers)) and not _is_known(fall, left, size, known):
            found.append(
                f"busbw falls from {curve[left] / 1e9:.1f} to {curve[size] / 1e9:.1f} GB/s at {size} bytes"
                + (" and recovers" if recovers else "")
            )
    return tuple(found)


def _is_known(fall: float, left: int, size: int, known: Mapping[int, float]) -> bool:
    if not (known.get(left) and known.get(size)):
        return False
    return known[size] / known[left] <= fall + _KNOWN_FALL_TOLERANCE


def placements_of(points: Sequence[Point]) -> tuple[str, ...]:
    """The largest size at which in place and out of place differ too much."""
    out, inside = curve_of(points), curve_of(points, Placement.IN_PLACE)
    for size in sorted(out.keys() & inside.keys(), reverse=True):
        low, high = sorted((out[size], inside[size]))
        if size >= LATENCY_BELOW_BYTES and low < PLACEMENT_RATIO * high:
            return (
                f"in place {inside[size] / 1e9:.1f} GB/s, out of place {out[size] / 1e9:.1f} GB/s at {size} bytes",
            )
    return ()


def repeats_of(points: Sequence[Point]) -> tuple[str, ...]:
    """The largest size whose repeats within the run are far apart."""
    values: dict[int, list[float]] = {}
    for point in points:
        if point.placement is Placement.OUT_OF_PLACE and point.size_bytes >= LATENCY_BELOW_BYTES:
            values.setdefault(point.size_bytes, []).append(point.busbw_bytes_per_second)
    for size, repeats in sorted(values.items(), reverse=True):
        if len(repeats) > 1 and min(repeats) < (1 - REPEAT_SPREAD) * max(repeats):
            return (
                f"{len(repeats)} repeats at {size} bytes differ by {1 - min(repeats) / max(repeats):.1%}",
            )
    return ()
