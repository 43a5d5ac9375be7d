"""Which columns a table has.

The header decides. Without a header (a log that was cut) the types of the cells do, over the layouts that
nccl-tests and rccl-tests are known to print; never a column position, never a count of cells alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from gpumond.model.benchmark import Placement


class Column(Enum):
    SIZE = auto()
    COUNT = auto()
    TYPE = auto()
    REDOP = auto()  # may be blank: hypercube, alltoall before v2.13
    ROOT = auto()
    TIME = auto()
    TIME_V1 = auto()  # milliseconds, three decimals; only where no header says it
    TIME_V2 = auto()  # microseconds, at most two decimals; only where no header says it
    HIPEVT = auto()
    ALGBW = auto()
    BUSBW = auto()
    WRONG = auto()  # a count, from v2.13
    ERROR = auto()  # a largest difference, before v2.13
    BITDIFF = auto()
    STATISTIC = auto()
    DATE = auto()
    CLOCK = auto()
    ALGO = auto()
    PROTO = auto()
    CHANNELS = auto()
    OTHER = auto()  # a column of a fork


ELEMENT_BYTES = {
    **dict.fromkeys(("int8", "uint8", "char", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "int", "float"), 4),
    **dict.fromkeys(("int64", "uint64", "double"), 8),
}

_MEASURE = r"\d{1,15}(?:\.\d{1,6})?(?:e[+-]\d{2,3})?|-?nan|-?inf"
_WRONG = r"0|[1-9]\d{0,14}|[1-9](?:\.\d{1,5})?e\+(?:0[6-9]|[1-9]\d)|N/A|-?nan|-?inf"  # %g from a million on
_ERROR = r"\d(?:\.\d{1,5})?e[+-]\d{2,3}\*?|N/A|-?nan\*?|-?inf\*?"
_WORD = r"(?!(?:nan|inf)\b)[A-Za-z]\w{0,31}"
CELL_PATTERNS = {
    Column.SIZE: r"\d{1,18}",
    Column.COUNT: r"\d{1,18}",
    Column.TYPE: _WORD,
    Column.REDOP: _WORD,
    Column.ROOT: r"-1|\d{1,6}",
    Column.TIME: _MEASURE,
    Column.TIME_V1: r"\d{1,12}\.\d{3}",
    Column.TIME_V2: r"\d{1,15}(?:\.\d{1,2})?(?:e\+\d\d)?|-?nan|-?inf",
    Column.HIPEVT: rf"{_MEASURE}|N/A",
    Column.ALGBW: _MEASURE,
    Column.BUSBW: _MEASURE,
    Column.WRONG: _WRONG,
    Column.ERROR: _ERROR,
    Column.BITDIFF: _WRONG,
    Column.STATISTIC: rf"{_MEASURE}|N/A",
    Column.DATE: r"\d{4}-\d\d-\d\d",
    Column.CLOCK: r"\d\d:\d\d:\d\d",
    Column.ALGO: rf"{_WORD}|N/A",
    Column.PROTO: rf"{_WORD}|N/A",
    Column.CHANNELS: r"\d{1,6}|N/A",
    Column.OTHER: r"\S{1,64}",
}
"""What a cell of each column looks like; ASCII."""
CHECKS = frozenset((Column.WRONG, Column.ERROR))
TIMES = frozenset((Column.TIME, Column.TIME_V1, Column.TIME_V2))
_TAIL = frozenset((Column.DATE, Column.CLOCK, Column.ALGO, Column.PROTO, Column.CHANNELS))

_NAMES: dict[str, tuple[Column, ...]] = {
    "size": (Column.SIZE,),
    "bytes": (Column.SIZE,),
    "count": (Column.COUNT,),
    "N": (Column.COUNT,),
    "type": (Column.TYPE,),
    "redop": (Column.REDOP,),
    "op": (Column.REDOP,),
    "root": (Column.ROOT,),
    "time": (Column.TIME,),
    "time(us)": (Column.TIME,),
    "time(ms)": (Column.TIME,),
    "cputime": (Column.TIME,),
    "hipevt": (Column.HIPEVT,),
    "algbw": (Column.ALGBW,),
    "busbw": (Column.BUSBW,),
    "#wrong": (Column.WRONG,),
    "wrong": (Column.WRONG,),
    "error": (Column.ERROR,),
    "res": (Column.ERROR,),
    "#bitdiff": (Column.BITDIFF,),
    "bitdiff": (Column.BITDIFF,),
    "i_min": (Column.STATISTIC,),
    "i_max": (Column.STATISTIC,),
    "i_p99": (Column.STATISTIC,),
    "i_cv%": (Column.STATISTIC,),
    "timestamp": (Column.DATE, Column.CLOCK),
    "algo": (Column.ALGO,),
    "proto": (Column.PROTO,),
    "nchannels": (Column.CHANNELS,),
}
_MAX_HEADER_NAMES = 64
_BOTH = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns left of the first time, those of one placement, and those behind the last."""

    left: tuple[Column, ...]
    placement: tuple[Column, ...]
    placements: tuple[Placement, ...]
    tail: tuple[Column, ...] = ()
    is_milliseconds: bool = False
    is_cpu_time: bool = False
    """`-C 1`: the time is the CPU's, the bandwidth still the GPUs'."""

    @property
    def is_old(self) -> bool:
        """Printed before v2.13: the check is a largest difference, no count."""
        return Column.ERROR in self.placement

    @property
    def last(self) -> Column:
        return (self.tail or self.placement)[-1]


def layout_of_header(words: Sequence[str], title: frozenset[Placement]) -> Layout | None:
    """The layout that a line of column names promises; None where it is no such line, or a damaged one.

    `title` holds the placements that the line above names; it matters only for tables with one placement.
    """
    names = _names_of(words)
    columns = [column for name in names for column in _NAMES.get(name, (Column.OTHER,))]
    times = [index for index, column in enumerate(columns) if column is Column.TIME]
    if len(times) not in (1, 2):
        return None
    left = tuple(columns[: times[0]])
    rest = columns[times[0] :]
    width = times[1] - times[0] if len(times) == 2 else _width_of_one(rest)  # noqa: PLR2004 - two placements
    first, second, tail = rest[:width], rest[width : 2 * width], rest[2 * width :]
    if len(times) == 1:
        second, tail = [], rest[width:]
    if not _is_placement(first) or (second and second != first) or _TAIL & set(left + tuple(first)):
        return None
    is_milliseconds = "time(ms)" in names or {"bytes", "res"} <= set(names)
    return Layout(
        left=left,
        placement=tuple(first),
        placements=_BOTH if second else (_only_placement(title, is_milliseconds=is_milliseconds),),
        tail=tuple(tail),
        is_milliseconds=is_milliseconds,
        is_cpu_time="cputime" in names,
    )


def is_header(words: Sequence[str]) -> bool:
    """Whether this is a line of column names, damaged or not."""
    return "algbw" in words and bool(_names_of(words))


def placements_in_title(text: str) -> frozenset[Placement]:
    """The placements that a table's title names: the line above the column names."""
    found = set()
    if "out-of-place" in text:
        found.add(Placement.OUT_OF_PLACE)
    if " in-place" in text:
        found.add(Placement.IN_PLACE)
    return frozenset(found)


def _names_of(words: Sequence[str]) -> list[str]:
    for index in range(min(len(words), _MAX_HEADER_NAMES) - 2):
        if (
            words[index] in ("size", "bytes")
            and words[index + 1] in ("count", "N")
            and words[index + 2] == "type"
        ):
            return list(words[index : index + _MAX_HEADER_NAMES])
    return []


def _width_of_one(columns: Sequence[Column]) -> int:
    return next((index for index, column in enumerate(columns) if column in _TAIL), len(columns))


def _is_placement(columns: Sequence[Column]) -> bool:
    once = all(columns.count(column) == 1 for column in (Column.TIME, Column.ALGBW, Column.BUSBW))
    return once and sum(column in CHECKS for column in columns) == 1


def _only_placement(title: frozenset[Placement], *, is_milliseconds: bool) -> Placement:
    if len(title) == 1:
        return next(iter(title))
    # v1's broadcast had no in-place test; rccl-tests' `-O 0` has only that one.
    return Placement.OUT_OF_PLACE if is_milliseconds else Placement.IN_PLACE


_NEW = (Column.TIME_V2, Column.ALGBW, Column.BUSBW, Column.WRONG)
_OLD = (Column.TIME_V2, Column.ALGBW, Column.BUSBW, Column.ERROR)
_V1 = (Column.TIME_V1, Column.ALGBW, Column.BUSBW, Column.ERROR)
_HIPEVT = (Column.TIME_V2, Column.HIPEVT, Column.ALGBW, Column.BUSBW, Column.WRONG)
_STATISTICS = (Column.STATISTIC,) * 4
_STAMP = (Column.DATE, Column.CLOCK)
_CHOICE = (Column.ALGO, Column.PROTO, Column.CHANNELS)
_LEFT = (Column.SIZE, Column.COUNT, Column.TYPE, Column.REDOP)
_LEFT_WITH_ROOT = (*_LEFT, Column.ROOT)
KNOWN_LAYOUTS = (
    *(
        Layout(left=_LEFT_WITH_ROOT, placement=placement, placements=_BOTH, tail=tail)
        for placement in (
            _NEW,
            (*_NEW, *_STATISTICS),
            (*_NEW, Column.BITDIFF),
            (*_NEW, Column.BITDIFF, *_STATISTICS),
            _HIPEVT,
        )
        for tail in ((), _STAMP, _CHOICE, (*_STAMP, *_CHOICE))
    ),
    *(Layout(left=left, placement=_OLD, placements=_BOTH) for left in (_LEFT_WITH_ROOT, _LEFT)),
    *(
        Layout(left=left, placement=_V1, placements=_BOTH, is_milliseconds=True)
        for left in (_LEFT_WITH_ROOT, _LEFT)
    ),
)
"""What a row may look like where no header says it. Always two placements: half a row looks like a row with one."""
