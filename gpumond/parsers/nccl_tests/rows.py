"""Fragments of lines -> rows.

A row is three prints: its left part and two placements. Whatever the same process prints in between is glued to a
fragment, and the rest of the row follows later. One open row is kept for each printer, because lines of several ranks
interleave. A row leaves here in one of two ways: checked, or rejected with a reason. One that the end of the text or
a failure cut short is neither (cases/nccl README, rule 1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from gpumond.model.benchmark import Placement, RejectedRow, Row, Timing
from gpumond.parsers.nccl_tests.arithmetic import Circumstances, objection_to
from gpumond.parsers.nccl_tests.fitting import Cells, Fit, Fitted, PlacementCells, Template
from gpumond.parsers.nccl_tests.layout import ELEMENT_BYTES, KNOWN_LAYOUTS, Column, Layout

MAX_OPEN_ROWS = 1024
MAX_ROW_WORDS = 64
MAX_REJECTED_CHARS = 300
_MIN_NUMBERS_OF_A_ROW = 4
_NUMBER = re.compile(r"[-+]?\d|N/A$|-?nan$|-?inf$", re.ASCII)
_LEFT_NUMBERS = 2
_MICROSECONDS_PER_MILLISECOND = 1_000


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of a line, as it may hold a part of a row.

    `is_cut` means that the piece may end inside a word: the text ends there, or the line was too long to keep.
    """

    tag: str
    text: str
    line: int
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class _OpenRow:
    """The words of a row so far; it ends where a print ends."""

    line: int
    words: list[str]

    @property
    def is_row_like(self) -> bool:
        """More than a sentence with two numbers and the word "float" in it."""
        return _is_row_like(self.words)


_KNOWN_TEMPLATES = tuple(Template(layout) for layout in KNOWN_LAYOUTS)


class RowReader:
    """The table as far as it has been read."""

    def __init__(self) -> None:
        self.has_cut_wrong_count = False
        """The text ends inside a `#wrong` that is not 0: no row, but data were wrong."""
        self._has_header = False
        self._is_in_table = False
        self._templates = _KNOWN_TEMPLATES
        self._likely = _KNOWN_TEMPLATES[0]
        """Without a header: the template of the last row that held."""
        self._open: dict[str, _OpenRow] = {}

    def begin_table(self, layout: Layout | None) -> Iterator[RejectedRow]:
        """A line of column names was read; None stands for a damaged one."""
        yield from self.close()
        self._has_header = layout is not None
        self._is_in_table = True
        self._templates = _KNOWN_TEMPLATES if layout is None else (Template(layout),)
        self._likely = self._templates[0]

    def read(self, fragment: Fragment, known: Circumstances) -> Iterator[Row | RejectedRow]:
        """What `fragment` completes."""
        words = fragment.text.split()
        starts = self._row_starts(words)
        longer = self._continuation(fragment.tag, words[: starts[0]] if starts else words)
        if longer is not None:
            yield from self._settle(fragment.tag, longer, known, is_cut=fragment.is_cut and not starts)
        elif not starts and not fragment.is_cut and self._is_lost_row(words):
            yield _rejected(_OpenRow(fragment.line, words), "no size and count in front of the type")
        for start, end in pairwise((*starts, len(words))):
            yield from self._supersede(fragment.tag)
            row = _OpenRow(fragment.line, words[start : min(end, start + MAX_ROW_WORDS)])
            yield from self._settle(fragment.tag, row, known, is_cut=fragment.is_cut and end == len(words))

    def close(self) -> Iterator[RejectedRow]:
        """A footer or a new table follows. The rest of rows that are still open was lost."""
        self._is_in_table = False
        for tag in tuple(self._open):
            yield from self._supersede(tag)

    def drop(self) -> None:
        """Forget open rows: an error message or the end of the text cut them short."""
        self._open.clear()

    def _row_starts(self, words: Sequence[str]) -> list[int]:
        """Where rows begin in a line: at two integers before a type. Anything may stand before them."""
        starts = [
            index - _LEFT_NUMBERS
            for index in range(_LEFT_NUMBERS, len(words))
            if words[index] in ELEMENT_BYTES and words[index - 1].isdigit() and words[index - 2].isdigit()
        ]
        if not starts and self._begins_with_new_type(words):
            starts = [0]
        return starts

    def _begins_with_new_type(self, words: Sequence[str]) -> bool:
        """A type that we do not know, at the start of a line that fits the header."""
        if not self._has_header or len(words) <= _LEFT_NUMBERS or not words[0].isdigit():
            return False
        return self._likely.cells(words) is not None

    def _is_lost_row(self, words: Sequence[str]) -> bool:
        """A line of the table that begins in the middle: what could not be read must not vanish."""
        return self._is_in_table and _is_row_like(words) and not ELEMENT_BYTES.keys().isdisjoint(words)

    def _continuation(self, tag: str, words: list[str]) -> _OpenRow | None:
        """The open row with `words` added, if they end where a print ends; else they are another line's."""
        row = self._open.get(tag)
        if row is None or not words or len(words) > MAX_ROW_WORDS:
            return None
        longer = _OpenRow(row.line, [*row.words, *words])
        return longer if self._fit(longer).fit in (Fit.COMPLETE, Fit.OPEN) else None

    def _settle(
        self, tag: str, row: _OpenRow, known: Circumstances, *, is_cut: bool
    ) -> Iterator[Row | RejectedRow]:
        self._open.pop(tag, None)
        if (cells := self._likely.cells(row.words)) and not objection_to(cells, known):
            yield from self._accepted(row, cells, is_cut=is_cut)  # nearly every row
            return
        fitted = self._fit(row)
        if fitted.fit is Fit.COMPLETE:
            yield from self._check(row, known, is_cut=is_cut)
        elif fitted.fit is Fit.OPEN:
            self._remember(tag, row)
        elif row.is_row_like and not is_cut:
            yield _rejected(row, fitted.detail)

    def _remember(self, tag: str, row: _OpenRow) -> None:
        if len(self._open) >= MAX_OPEN_ROWS:
            self._open.pop(next(iter(self._open)))
        self._open[tag] = row

    def _supersede(self, tag: str) -> Iterator[RejectedRow]:
        row = self._open.pop(tag, None)
        if row is not None and (self._has_header or row.is_row_like):
            yield _rejected(row, self._fit(row).detail)

    def _fit(self, row: _OpenRow) -> Fitted:
        """How the row fits the first layout that takes it, or else the one that it fits longest."""
        longest = Fitted(Fit.MISFIT)
        for template in self._templates:
            fitted = template.fit(row.words)
            if fitted.fit in (Fit.COMPLETE, Fit.OPEN):
                return fitted
            longest = max(longest, fitted, key=lambda each: each.length)
        return longest

    def _check(self, row: _OpenRow, known: Circumstances, *, is_cut: bool) -> Iterator[Row | RejectedRow]:
        """The first reading of a complete row that its own numbers support."""
        objections = []
        for template in (self._likely, *self._templates):
            cells = template.cells(row.words)
            if cells is None:
                continue
            objection = objection_to(cells, known)
            if not objection:
                self._likely = template
                yield from self._accepted(row, cells, is_cut=is_cut)
                return
            objections.append(objection)
        yield _rejected(row, objections[0])

    def _accepted(self, row: _OpenRow, cells: Cells, *, is_cut: bool) -> Iterator[Row]:
        if is_cut and cells.layout.last is Column.WRONG and _may_go_on(row.words[-1]):
            self.has_cut_wrong_count = True
        else:
            yield _row_of(cells)


def _is_row_like(words: Sequence[str]) -> bool:
    return sum(_NUMBER.match(word) is not None for word in words) >= _MIN_NUMBERS_OF_A_ROW


def _may_go_on(count: str) -> bool:
    """Whether a `#wrong` at the end of a cut text may have lost digits: `0`, `N/A` and `4e+06` have not."""
    return count.isdigit() and count != "0"


def _rejected(row: _OpenRow, reason: str) -> RejectedRow:
    return RejectedRow(line=row.line, text=" ".join(row.words)[:MAX_REJECTED_CHARS], reason=reason)


def _row_of(cells: Cells) -> Row:
    timings = {printed.placement: _timing_of(printed, cells.layout) for printed in cells.placements}
    return Row(
        bytes=int(cells.size),
        count=int(cells.count),
        type=cells.type,
        redop=cells.redop or None,
        root=int(cells.root) if cells.root else None,
        out_of_place=timings.get(Placement.OUT_OF_PLACE),
        in_place=timings.get(Placement.IN_PLACE),
    )


def _timing_of(printed: PlacementCells, layout: Layout) -> Timing:
    time = (
        float(Decimal(printed.time) * _MICROSECONDS_PER_MILLISECOND)
        if layout.is_milliseconds
        else float(printed.time)
    )
    has_count = not layout.is_old and printed.check != "N/A"
    return Timing(
        time_us=time,
        algbw_gbps=float(printed.algbw),
        busbw_gbps=float(printed.busbw),
        wrong=round(float(printed.check)) if has_count else None,
    )
