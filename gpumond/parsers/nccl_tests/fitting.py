"""Whether a list of words fits a layout: wholly, up to the end of a print, or not.

`Template` is a layout made ready for matching. It reads words, never columns of characters, and judges no number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from gpumond.model.benchmark import Placement
from gpumond.parsers.nccl_tests.layout import CELL_PATTERNS, CHECKS, TIMES, Column, Layout

_CELLS = {column: re.compile(pattern, re.ASCII).fullmatch for column, pattern in CELL_PATTERNS.items()}
_LEFT_GROUPS = {
    Column.SIZE: "size",
    Column.COUNT: "count",
    Column.TYPE: "type",
    Column.REDOP: "redop",
    Column.ROOT: "root",
}
_PLACEMENT_GROUPS = {
    **dict.fromkeys(TIMES, "time"),
    Column.ALGBW: "algbw",
    Column.BUSBW: "busbw",
    **dict.fromkeys(CHECKS, "check"),
}
_TITLES = {**dict.fromkeys(TIMES, "time"), Column.WRONG: "#wrong", Column.BITDIFF: "#bitdiff"}


@dataclass(frozen=True, slots=True)
class PlacementCells:
    """One placement of a row, as printed."""

    placement: Placement
    time: str
    algbw: str
    busbw: str
    check: str


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of one row that matter, as printed. `redop` and `root` are empty where blank or not promised."""

    size: str
    count: str
    type: str
    redop: str
    root: str
    placements: tuple[PlacementCells, ...]
    layout: Layout


class Fit(Enum):
    COMPLETE = auto()
    OPEN = auto()  # ends between two prints: the rest may follow
    TORN = auto()  # ends inside a print
    MISFIT = auto()


@dataclass(frozen=True, slots=True)
class Fitted:
    """How words fit a layout. `length` counts those that do; `detail` says what is wrong with the next."""

    fit: Fit
    length: int = 0
    detail: str = ""


class Template:
    """A layout, ready to be compared with words."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._prints = (layout.left, *(layout.placement for _ in layout.placements))
        self._whole = re.compile(_whole_row(layout), re.ASCII).fullmatch

    def cells(self, words: Sequence[str]) -> Cells | None:
        """The cells of a whole row, or None where `words` are none."""
        match = self._whole(" ".join(words) + " ")
        if match is None:
            return None
        printed = match.groupdict("")
        return Cells(
            size=printed["size"],
            count=printed["count"],
            type=printed["type"],
            redop=printed.get("redop", ""),
            root=printed.get("root", ""),
            placements=tuple(
                PlacementCells(placement, *match.group(f"time{n}", f"algbw{n}", f"busbw{n}", f"check{n}"))
                for n, placement in enumerate(self.layout.placements)
            ),
            layout=self.layout,
        )

    def fit(self, words: Sequence[str]) -> Fitted:
        """How far `words` fit."""
        position = 0
        for columns in self._prints:
            if position and position == len(words):
                return Fitted(Fit.OPEN, position, "a placement is missing")
            length, detail = _take(columns, words[position:])
            position += length
            if detail:
                return Fitted(Fit.TORN if position == len(words) else Fit.MISFIT, position, detail)
        return Fitted(*_fit_tail(self.layout.tail, words, position))


def _take(columns: Sequence[Column], words: Sequence[str]) -> tuple[int, str]:
    """One print's cells from the start of `words`: (how many words they are, what did not fit)."""
    used = 0
    for column in columns:
        word = words[used] if used < len(words) else ""
        if _CELLS[column](word):
            used += 1
        elif column is not Column.REDOP:
            found = f"{word[:40]!r} found" if word else "nothing found"
            return used, f"{_TITLES.get(column, column.name.lower())} expected, {found}"
    return used, ""


def _fit_tail(columns: Sequence[Column], words: Sequence[str], position: int) -> tuple[Fit, int, str]:
    rest = words[position:]
    if len(rest) > len(columns):
        return Fit.MISFIT, position, f"more cells than columns, from {rest[len(columns)][:40]!r} on"
    if len(rest) < len(columns):
        return Fit.TORN if rest else Fit.OPEN, position, "the last columns are missing"
    for order in (columns, _stamp_first(columns)):
        if all(_CELLS[column](word) for column, word in zip(order, rest, strict=True)):
            return Fit.COMPLETE, position, ""
    return Fit.MISFIT, position, f"{' '.join(rest)[:40]!r} does not fit the last columns"


def _stamp_first(columns: Sequence[Column]) -> list[Column]:
    """rccl-tests names the time stamp last and prints it first."""
    return sorted(columns, key=lambda column: column not in (Column.DATE, Column.CLOCK))


def _whole_row(layout: Layout) -> str:
    """A pattern for the words of a whole row, each followed by one space."""
    left = "".join(_left_cell(column) for column in layout.left)
    placements = "".join(
        _placement_cell(column, n) for n in range(len(layout.placements)) for column in layout.placement
    )
    tails = "|".join(
        "".join(f"(?:{CELL_PATTERNS[column]}) " for column in order)
        for order in (layout.tail, _stamp_first(layout.tail))
    )
    return f"{left}{placements}(?:{tails})"


def _left_cell(column: Column) -> str:
    name = _LEFT_GROUPS.get(column)
    cell = f"(?P<{name}>{CELL_PATTERNS[column]}) " if name else f"(?:{CELL_PATTERNS[column]}) "
    return f"(?:{cell})?" if column is Column.REDOP else cell


def _placement_cell(column: Column, n: int) -> str:
    name = _PLACEMENT_GROUPS.get(column)
    return f"(?P<{name}{n}>{CELL_PATTERNS[column]}) " if name else f"(?:{CELL_PATTERNS[column]}) "
