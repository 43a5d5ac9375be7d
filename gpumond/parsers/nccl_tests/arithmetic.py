"""Whether the numbers of a row can be true together (DESIGN rule 6).

size = count x bytes of an element (x ranks); algbw = size / time; busbw = algbw x factor. Each printed number stands
for every value within half its last digit; a row passes when one choice of true values explains all it prints. What
the text leaves open (ranks, collective, era) widens the choice, never the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from gpumond.model.benchmark import Collective, busbw_factor
from gpumond.parsers.nccl_tests.fitting import Cells, PlacementCells
from gpumond.parsers.nccl_tests.layout import ELEMENT_BYTES, Layout

_FLOAT_NOISE = 1e-9  # of our own arithmetic, relative
_BYTES_PER_MICROSECOND_PER_GBPS = 1_000
_BYTES_PER_MILLISECOND_PER_GBPS = 1_000_000

_SIZE_COUNTS_EVERY_RANK = frozenset(
    (
        Collective.ALL_GATHER,
        Collective.REDUCE_SCATTER,
        Collective.ALLTOALL,
        Collective.GATHER,
        Collective.SCATTER,
    )
)
_SIZE_IS_FREE = frozenset((Collective.ALLTOALLV, Collective.HYPERCUBE))
_ALGBW_CHANGED_IN_2020 = frozenset((Collective.ALL_GATHER, Collective.REDUCE_SCATTER))


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the text has said so far; None where it has not. `is_of_a_fork`: a program whose rules we do not know."""

    collective: Collective | None = None
    ranks: int | None = None
    is_of_a_fork: bool = False


class Interval(NamedTuple):
    """Every value from `low` to `high`, none below 0."""

    low: float
    high: float

    def meets(self, other: Interval) -> bool:
        return self.low <= other.high * (1 + _FLOAT_NOISE) and other.low <= self.high * (1 + _FLOAT_NOISE)

    def times(self, factor: Interval) -> Interval:
        if factor is _ONE:
            return self
        return Interval(self.low * factor.low, self.high * factor.high if factor.high else 0.0)

    def common(self, other: Interval) -> Interval:
        """Where both hold, given that they meet."""
        low = max(self.low, other.low)
        return Interval(low, max(low, min(self.high, other.high)))


@dataclass(frozen=True, slots=True)
class _Rule:
    """algbw = size x `algbw` / time; busbw = algbw x `busbw`."""

    algbw: Interval
    busbw: Interval


_ZERO = Interval(0.0, 0.0)
_ONE = Interval(1.0, 1.0)
_ANY_BUSBW = Interval(0.0, 2.0)  # one rank: 0; all_reduce over very many: just under 2
_ANY_SHARE = Interval(0.5, 1.0)  # (n-1)/n for two ranks or more


def interval_of(cell: str) -> Interval:
    """Every value that is printed as `cell`, a finite number without sign."""
    value = float(cell)
    mantissa, _, exponent = cell.partition("e") if "e" in cell else (cell, "", "0")
    point = mantissa.find(".")
    decimals = len(mantissa) - point - 1 if point >= 0 else 0
    half = 0.5 * 10.0 ** (int(exponent) - decimals)
    return Interval(value - half if value > half else 0.0, value + half)


def objection_to(cells: Cells, circumstances: Circumstances) -> str:
    """Why the numbers of a row cannot be true, as a phrase; empty where nothing speaks against them."""
    return (
        _not_a_number(cells)
        or _objection_to_size(cells, circumstances)
        or _objection_to_bandwidth(cells, circumstances)
    )


def _not_a_number(cells: Cells) -> str:
    for printed in cells.placements:
        for name, cell in (("time", printed.time), ("algbw", printed.algbw), ("busbw", printed.busbw)):
            if "n" in cell:
                return f"{name} is {cell}"
        if not cells.layout.is_old and printed.check != "N/A" and "n" in printed.check:
            return f"#wrong is {printed.check}"
        if cells.size != "0" and float(printed.time) == 0:
            return "time is 0"
    return ""


def _objection_to_size(cells: Cells, circumstances: Circumstances) -> str:
    size, count = int(cells.size), int(cells.count)
    element = ELEMENT_BYTES.get(cells.type)
    if element is None:
        return ""  # a type that is newer than this table; it may be smaller than a byte
    if circumstances.collective in _SIZE_IS_FREE:
        return f"size {size} is no number of {cells.type} elements" if size % element else ""
    if count == 0 or size == 0:
        return "" if count == size == 0 else f"size {size} does not fit count {count}"
    shares, rest = divmod(size, count * element)
    allowed = _shares_allowed(circumstances)
    if rest or (allowed is not None and shares not in allowed):
        return f"size {size} does not fit count {count} of {cells.type}"
    return ""


def _shares_allowed(circumstances: Circumstances) -> frozenset[int] | None:
    """size / bytes of `count` elements: 1, or the number of ranks; None where anything goes."""
    collective, ranks = circumstances.collective, circumstances.ranks
    if collective is not None and collective not in _SIZE_COUNTS_EVERY_RANK:
        return frozenset((1,))
    if ranks is None or circumstances.is_of_a_fork:
        return None
    return frozenset((ranks,)) if collective is not None else frozenset((1, ranks))


def _objection_to_bandwidth(cells: Cells, circumstances: Circumstances) -> str:
    if circumstances.is_of_a_fork:
        rules: tuple[_Rule, ...] = (_Rule(_ONE, _ANY_BUSBW),)
    else:
        rules = _rules(circumstances.collective, _ranks_of(cells, circumstances), cells.layout.is_old)
    first = ""
    for rule in rules:
        objection = _objection_under(rule, cells)
        if not objection:
            return ""
        first = first or objection
    return first


def _ranks_of(cells: Cells, circumstances: Circumstances) -> int | None:
    """The number of ranks, if need be from the size: some collectives print the size of all ranks' shares."""
    if circumstances.ranks is not None or cells.type not in ELEMENT_BYTES or int(cells.count) == 0:
        return circumstances.ranks
    if circumstances.collective in _SIZE_IS_FREE:
        return None
    shares = int(cells.size) // (int(cells.count) * ELEMENT_BYTES[cells.type])
    return shares if shares > 1 else None


@lru_cache(maxsize=256)
def _rules(collective: Collective | None, ranks: int | None, is_old: bool) -> tuple[_Rule, ...]:  # noqa: FBT001 - cached
    collectives = tuple(Collective) if collective is None else (collective,)
    return tuple(
        dict.fromkeys(rule for each in collectives for rule in _rules_of(each, ranks, is_old=is_old))
    )


def _rules_of(collective: Collective, ranks: int | None, *, is_old: bool) -> Iterator[_Rule]:
    has_two_algbw = collective is Collective.HYPERCUBE or (is_old and collective in _ALGBW_CHANGED_IN_2020)
    if ranks == 1:
        yield _Rule(_ONE, _ANY_BUSBW)
        if has_two_algbw:
            yield _Rule(_ZERO, _ANY_BUSBW)
        return
    if ranks is None:
        yield _Rule(_ONE, _ANY_BUSBW)
        if has_two_algbw:
            yield _Rule(_ANY_SHARE, _ONE)
        return
    factor = busbw_factor(collective, ranks)
    yield _Rule(_ONE, Interval(factor, factor))
    if has_two_algbw:
        share = (ranks - 1) / ranks
        yield _Rule(Interval(share, share), _ONE)


def _objection_under(rule: _Rule, cells: Cells) -> str:
    for printed in cells.placements:
        objection = _objection_to_placement(rule, int(cells.size), printed, cells.layout)
        if objection:
            return f"{printed.placement.value.replace('_', '-')} {objection}"
    return ""


def _objection_to_placement(rule: _Rule, size: int, printed: PlacementCells, layout: Layout) -> str:
    algbw = interval_of(printed.algbw)
    if not layout.is_cpu_time:
        expected = _bandwidth(size, interval_of(printed.time), layout).times(rule.algbw)
        if not algbw.meets(expected):
            unit = "ms" if layout.is_milliseconds else "us"
            return f"algbw {printed.algbw} is not {size} B / {printed.time} {unit}{_as_factor(rule.algbw)}"
        algbw = algbw.common(expected)
    if not interval_of(printed.busbw).meets(algbw.times(rule.busbw)):
        return f"busbw {printed.busbw} is not algbw {printed.algbw}{_as_factor(rule.busbw)}"
    return ""


def _as_factor(factor: Interval) -> str:
    if factor == _ONE:
        return ""
    if factor.low == factor.high:
        return f" x {factor.low:.4g}"
    return f" x {factor.low:.4g} to {factor.high:.4g}"


def _bandwidth(size: int, time: Interval, layout: Layout) -> Interval:
    """size / time in GB/s."""
    if size == 0:
        return _ZERO
    gigabytes = size / (
        _BYTES_PER_MILLISECOND_PER_GBPS if layout.is_milliseconds else _BYTES_PER_MICROSECOND_PER_GBPS
    )
    return Interval(gigabytes / time.high, gigabytes / time.low if time.low > 0 else math.inf)
