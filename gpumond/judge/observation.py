"""One finished run as the judge sees it, and what of it can be judged at all. Pure.

Where it came from (the store, a file) does not matter here. A run that was not alone, or did not measure what it should,
is answered before any baseline is asked: it never becomes a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from gpumond.judge.policy import BANDWIDTH_FROM_BYTES, LATENCY_BELOW_BYTES
from gpumond.model.baseline import Scope, TrackKey
from gpumond.model.benchmark import Collective, Placement, Point, busbw_factor

_RANKS_MAX: Final = 4096
_RANK_TOLERANCE: Final = 0.002
"""Of busbw / algbw; both are printed with two decimals. Ranks 7 and 8 differ by 2 %."""
_WITHOUT_RANKS: Final = frozenset(
    {Collective.BROADCAST, Collective.REDUCE, Collective.SENDRECV, Collective.HYPERCUBE}
)


@dataclass(frozen=True, slots=True)
class Observation:
    """`excluded` and `failure` are reason words: of what is no measurement, and of what failed.

    `busbw` (bytes per second) holds the sizes of the bandwidth regime, `seconds` those of the latency regime; one
    placement, out of place where it was timed.
    """

    at: datetime
    scope: Scope
    track: TrackKey
    busbw: dict[int, float] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    transport: str = ""
    excluded: str = ""
    failure: str = ""
    wrong_sizes: tuple[int, ...] = ()
    """Where data arrived corrupt; 0: at a size that is not known."""
    rows: int = 0
    """How many the run printed, of any size."""
    implied_ranks: int | None = None
    """What busbw / algbw say, where they say it."""
    model_busbw: float | None = None
    """What the link model gives for the largest size, where it applies."""
    cpu_load_per_core: float | None = None
    throttled: str = ""
    """Which GPUs were held back by heat or power, and by what."""
    is_rerun: bool = False
    points: tuple[Point, ...] = ()
    """Every row, for what looks odd within the run."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The values of a run's points, as far as they are numbers that can be true."""

    busbw: dict[int, float]
    seconds: dict[int, float]
    wrong_sizes: tuple[int, ...]
    implied_ranks: int | None
    is_readable: bool


def measured_of(points: Iterable[Point], collective: str) -> Measured:
    """Out of place where it was timed; a size that was printed several times counts with its first value."""
    busbw: dict[int, float] = {}
    seconds: dict[int, float] = {}
    wrong: list[int] = []
    is_readable = True
    ordered = sorted(points, key=lambda point: point.placement is Placement.IN_PLACE)
    for point in ordered:
        if point.wrong_elements:
            wrong.append(point.size_bytes)
        if not _is_possible(point):
            is_readable = False
        elif point.size_bytes >= BANDWIDTH_FROM_BYTES:
            busbw.setdefault(point.size_bytes, point.busbw_bytes_per_second)
        elif point.size_bytes < LATENCY_BELOW_BYTES:
            seconds.setdefault(point.size_bytes, point.time_seconds)
    return Measured(
        busbw, seconds, tuple(sorted(set(wrong))), implied_ranks(ordered, collective), is_readable
    )


def implied_ranks(points: Iterable[Point], collective: str) -> int | None:
    """How many ranks busbw / algbw of the fastest row stand for; None where the ratio does not depend on them."""
    if collective not in set(Collective) or Collective(collective) in _WITHOUT_RANKS:
        return None
    usable = [point for point in points if _is_possible(point) and point.algbw_bytes_per_second > 0]
    if not usable:
        return None
    fastest = max(usable, key=lambda point: point.busbw_bytes_per_second)
    ratio = fastest.busbw_bytes_per_second / fastest.algbw_bytes_per_second
    limit = 2.0 if collective == Collective.ALL_REDUCE else 1.0
    if not 0 < ratio < limit:
        return None
    ranks = round(limit / (limit - ratio))
    if not 1 < ranks <= _RANKS_MAX:
        return None
    exact = busbw_factor(Collective(collective), ranks)
    return ranks if abs(ratio - exact) <= _RANK_TOLERANCE * exact else None


def ranks_differ(observation: Observation) -> bool:
    """Whether the numbers say that fewer GPUs took part than were asked for."""
    implied, asked = observation.implied_ranks, observation.track.ranks
    return implied is not None and 0 < implied < asked and not _is_indistinct(implied, asked, observation)


def _is_indistinct(implied: int, asked: int, observation: Observation) -> bool:
    """With many ranks the ratios of neighbours differ by less than their digits do."""
    collective = Collective(observation.track.collective)
    return abs(busbw_factor(collective, implied) / busbw_factor(collective, asked) - 1) <= _RANK_TOLERANCE


def _is_possible(point: Point) -> bool:
    numbers = (point.busbw_bytes_per_second, point.time_seconds)
    return (
        all(math.isfinite(number) for number in numbers)
        and point.time_seconds > 0
        and (
            point.busbw_bytes_per_second >= 0
            if point.size_bytes < BANDWIDTH_FROM_BYTES
            else point.busbw_bytes_per_second > 0
        )
    )
