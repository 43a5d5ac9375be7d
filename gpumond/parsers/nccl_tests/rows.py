"""Fragments of lines -> rows.

A row is three prints: its left part and two placements. Whatever the same process prints in between is glued to a
fragment, and the rest of the row follows later. One open row is kept for each printer, because lines of several ranks
interleave. A row leaves here in one of two ways: checked, or rejected with a reason. One that the end of the text or
a failure cut short is neither (cases/nccl README, rule 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise

from gpumond.model.benchmark import Collective, Placement, RejectedRow, Row, Timing
from gpumond.parsers.nccl_tests.arithmetic import Circumstances, objection_to
from gpumond.parsers.nccl_tests.layout import (
    ELEMENT_BYTES,
    KNOWN_LAYOUTS,
    Cells,
    Column,
    Fit,
    Fitted,
    Layout,
    PlacementCells,
    fit,
)

MAX_OPEN_ROWS = 1024
MAX_ROW_WORDS = 64
MAX_REJECTED_CHARS = 300
_MIN_MEASURES_OF_A_ROW = 2  # below that it is a sentence with two numbers and the word "float" in it
_LEFT_NUMBERS = 2
_MICROSECONDS_PER_MILLISECOND = 1000


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of a line, as it may hold a part of a row.

    `is_cut` means that the piece may end inside a word: the text ends there, or the line was too long to keep.
    """

    tag: str
    text: str
    line: int
    is_cut: bool = False


@dataclass(slots=True)
class _OpenRow:
    line: int
    words: list[str]
    text: str
    breaks: set[int] = field(default_factory=set)


@dataclass(slots=True)
class RowReader:
    """The table as far as it has been read. `layout` is None until a header was seen, and after a damaged one."""

    layout: Layout | None = None
    has_cut_wrong_count: bool = False
    """The text ends inside a `#wrong` that is not 0: no row, but data were wrong."""
    _open: dict[str, _OpenRow] = field(default_factory=dict)
    _guess: Layout | None = None
    """Without a header: the layout of the last row that held."""

    def begin_table(self, layout: Layout | None) -> Iterator[RejectedRow]:
        """A line of column names was read; None stands for a damaged one."""
        yield from self.close()
        self.layout, self._guess = layout, None

    def read(
        self, fragment: Fragment, collective: Collective | None, ranks: int | None
    ) -> Iterator[Row | RejectedRow]:
        """What `fragment` completes."""
        words = fragment.text.split()
        starts = self._row_starts(words)
        head = words[: starts[0]] if starts else words
        known = Circumstances(collective=collective, ranks=ranks)
        if head and fragment.tag in self._open and len(head) <= MAX_ROW_WORDS:
            yield from self._continue(fragment, head, known, is_cut=fragment.is_cut and not starts)
        for start, end in pairwise((*starts, len(words))):
            yield from self._supersede(fragment.tag)
            opened = _OpenRow(fragment.line, words[start : min(end, start + MAX_ROW_WORDS)], fragment.text)
            is_cut = fragment.is_cut and end == len(words)
            yield from self._settle(fragment.tag, opened, known, is_cut=is_cut)

    def close(self) -> Iterator[RejectedRow]:
        """Give up open rows where a footer or a new table follows: their rest was lost."""
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
        if self.layout is None or len(words) <= _LEFT_NUMBERS:
            return False
        return words[0].isdigit() and words[1].isdigit() and fit(self.layout, words).fit is Fit.COMPLETE

    def _continue(
        self, fragment: Fragment, words: list[str], known: Circumstances, *, is_cut: bool
    ) -> Iterator[Row | RejectedRow]:
        opened = self._open[fragment.tag]
        longer = _OpenRow(
            opened.line,
            [*opened.words, *words],
            f"{opened.text} {fragment.text}",
            opened.breaks | {len(opened.words)},
        )
        # Anything that does not end where a print ends is another line, and has nothing to do with the row.
        if self._best(longer).fit in (Fit.COMPLETE, Fit.OPEN):
            yield from self._settle(fragment.tag, longer, known, is_cut=is_cut)

    def _settle(
        self, tag: str, row: _OpenRow, known: Circumstances, *, is_cut: bool
    ) -> Iterator[Row | RejectedRow]:
        self._open.pop(tag, None)
        best = self._best(row)
        if best.fit is Fit.COMPLETE:
            yield from self._checked(row, best, known, is_cut=is_cut)
        elif best.fit is Fit.OPEN:
            self._remember(tag, row)
        elif best.measures >= _MIN_MEASURES_OF_A_ROW and not is_cut:
            yield _rejected(row, best.detail)

    def _remember(self, tag: str, row: _OpenRow) -> None:
        if len(self._open) >= MAX_OPEN_ROWS:
            self._open.pop(next(iter(self._open)))
        self._open[tag] = row

    def _supersede(self, tag: str) -> Iterator[RejectedRow]:
        row = self._open.pop(tag, None)
        if row is not None and (best := self._best(row)).measures >= _MIN_MEASURES_OF_A_ROW:
            yield _rejected(row, best.detail)

    def _layouts(self) -> tuple[Layout, ...]:
        return KNOWN_LAYOUTS if self.layout is None else (self.layout,)

    def _best(self, row: _OpenRow) -> Fitted:
        breaks = frozenset(row.breaks)
        if self._guess is not None and (fitted := fit(self._guess, row.words, breaks)).fit is Fit.COMPLETE:
            return fitted
        return min(
            (fit(layout, row.words, breaks) for layout in self._layouts()),
            key=lambda fitted: (_PREFERENCE.index(fitted.fit), -fitted.measures),
        )

    def _checked(
        self, row: _OpenRow, best: Fitted, known: Circumstances, *, is_cut: bool
    ) -> Iterator[Row | RejectedRow]:
        """The one reading of a complete row that its own numbers support."""
        cells, objection = best.cells, objection_to(best.cells, known) if best.cells else ""
        if self.layout is None and (cells is None or objection):
            cells, objection = self._searched(row, known)
        if cells is None or objection:
            yield _rejected(row, objection)
        elif is_cut and cells.layout.last is Column.WRONG and _may_go_on(row.words[-1]):
            self.has_cut_wrong_count = True
        else:
            if self.layout is None:
                self._guess = cells.layout
            yield _row_of(cells)

    def _searched(self, row: _OpenRow, known: Circumstances) -> tuple[Cells | None, str]:
        """Without a header: the first known layout under which the numbers hold, or what speaks against the first."""
        breaks = frozenset(row.breaks)
        complete = [cells for layout in KNOWN_LAYOUTS if (cells := fit(layout, row.words, breaks).cells)]
        objections = [objection_to(cells, known) for cells in complete]
        good = next(
            (cells for cells, objection in zip(complete, objections, strict=True) if not objection), None
        )
        return good, "" if good else objections[0]


_PREFERENCE = (Fit.COMPLETE, Fit.OPEN, Fit.TORN, Fit.MISFIT)


def _may_go_on(count: str) -> bool:
    """Whether a `#wrong` at the end of a cut text may have lost digits: `0`, `N/A` and `4e+06` have not."""
    return count.isdigit() and count != "0"


def _rejected(row: _OpenRow, reason: str) -> RejectedRow:
    return RejectedRow(line=row.line, text=" ".join(row.text.split())[:MAX_REJECTED_CHARS], reason=reason)


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
