"""The parser of nccl-tests and rccl-tests output, line by line, in bounded memory.

`parse` is `Reader` fed at once. A cap that was hit is a note in the result, never silence.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpumond.model.benchmark import NoteKind, ParsedOutput, Placement, RejectedRow, Row, TextOutcome
from gpumond.parsers.nccl_tests.facts import Facts, is_telling
from gpumond.parsers.nccl_tests.failures import failure_in
from gpumond.parsers.nccl_tests.layout import is_header, layout_of_header, placements_in_title
from gpumond.parsers.nccl_tests.rows import Fragment, RowReader
from gpumond.parsers.nccl_tests.text import Hosts, clean, decoder_for, strip_prefixes, unwrap_json

MAX_LINE_CHARS = 64 * 1024
MAX_ROWS = 100_000  # the longest sweep of the reference has 10,000: all types and operations of one binary
MAX_REJECTED = 1_000
MAX_INPUT_BYTES = 64 * 1024 * 1024
_MIN_LINE_CHARS = 6  # the shortest piece of a row has seven
_CHUNK_CHARS = 1024 * 1024


class Reader:
    """Reads a text in pieces of any size, while a benchmark still runs if need be."""

    def __init__(self) -> None:
        self._tail: list[str] = []
        self._tail_chars = 0
        self._is_tail_cut = False
        self._line = 0
        self._hosts = Hosts()
        self._facts = Facts()
        self._table = RowReader()
        self._title: frozenset[Placement] = frozenset()
        self._rows: list[Row] = []
        self._rejected: list[RejectedRow] = []
        self._has_wrong = False

    def feed(self, chunk: str) -> tuple[Row, ...]:
        """Read on. Returns the rows that became complete, checked."""
        first, *others = chunk.split("\n")
        self._keep(first)
        rows: list[Row] = []
        for piece in others:
            rows += self._end_line(is_cut=False)
            self._keep(piece)
        return tuple(rows)

    def finish(self) -> ParsedOutput:
        """What the text says, now that it has ended; nothing can be fed after it."""
        self._end_line(is_cut=True)
        self._table.drop()
        facts = self._facts
        self._note_several_runs()
        return ParsedOutput(
            tool=facts.tool,
            collective=facts.collective,
            ngpus=facts.ngpus,
            nranks=facts.nranks,
            rows=tuple(self._rows),
            avg_busbw_gbps=facts.avg_busbw_gbps,
            out_of_bounds=facts.out_of_bounds,
            outcome=self._outcome(),
            error=facts.error,
            rejected=tuple(self._rejected),
            notes=tuple(facts.notes.values()),
            tool_version=facts.tool_version,
            library_version=facts.library_version,
        )

    def note_cut_input(self, text: str) -> None:
        """Whoever feeds this reader did not feed all there was."""
        self._facts.note(NoteKind.INPUT_CUT, text)

    def _keep(self, piece: str) -> None:
        room = MAX_LINE_CHARS - self._tail_chars
        if len(piece) > room:
            piece, self._is_tail_cut = piece[:room], True
        if piece:
            self._tail.append(piece)
            self._tail_chars += len(piece)

    def _end_line(self, *, is_cut: bool) -> list[Row]:
        line = "".join(self._tail)
        is_too_long = self._is_tail_cut
        self._tail, self._tail_chars, self._is_tail_cut = [], 0, False
        self._line += 1
        if is_too_long:
            self._facts.note(
                NoteKind.LINES_CUT, f"line {self._line} has more than {MAX_LINE_CHARS} characters"
            )
        return self._read_line(line, is_cut=is_cut or is_too_long)

    def _read_line(self, line: str, *, is_cut: bool) -> list[Row]:
        if len(line) < _MIN_LINE_CHARS:
            return []
        line = clean(line)
        tag, text = strip_prefixes(line)
        inner = unwrap_json(text)
        if inner is None:
            return self._read_text(Fragment(tag, text, self._line, is_cut=is_cut))
        rows: list[Row] = []
        for piece in inner[:MAX_LINE_CHARS].split("\n"):
            inner_tag, own = strip_prefixes(clean(piece))
            rows += self._read_text(Fragment(inner_tag or tag, own, self._line))
        return rows

    def _read_text(self, fragment: Fragment) -> list[Row]:
        split = self._hosts.split_foreign(fragment.text)
        if split.foreign:
            self._facts.read_foreign(split.foreign)
            fragment = Fragment(fragment.tag, split.own, fragment.line)
        if not fragment.text or fragment.text.isspace():
            return []
        return list(self._kept(self._interpret(fragment)))

    def _interpret(self, fragment: Fragment) -> Iterator[Row | RejectedRow]:
        words = fragment.text.split()
        if is_header(words):
            yield from self._table.begin_table(layout_of_header(words, self._title))
            self._title = frozenset()
            self._facts.progress.begin_unless_running()
        elif is_telling(fragment.text):
            yield from self._read_telling(fragment)
        else:
            self._title = placements_in_title(fragment.text) or self._title
            yield from self._read_row(fragment)

    def _read_telling(self, fragment: Fragment) -> Iterator[Row | RejectedRow]:
        found = failure_in(fragment.text)
        if found is not None:
            before = self._hosts.without_host(found.before) if found.ends_in_host else found.before
            yield from self._read_row(Fragment(fragment.tag, before, fragment.line))
            self._table.drop()
            self._facts.fail(found.failure)
        footers = self._facts.progress.footers
        for host in self._facts.read(fragment.text, is_cut=fragment.is_cut):
            self._hosts.learn(host)
        if self._facts.progress.footers > footers:
            yield from self._table.close()
        elif found is None:
            yield from self._read_row(fragment)

    def _read_row(self, fragment: Fragment) -> Iterator[Row | RejectedRow]:
        return self._table.read(fragment, self._facts.circumstances)

    def _kept(self, found: Iterator[Row | RejectedRow]) -> Iterator[Row]:
        for item in found:
            self._facts.progress.begin_unless_running()
            if isinstance(item, RejectedRow):
                self._keep_rejected(item)
            else:
                self._keep_row(item)
                yield item

    def _keep_row(self, row: Row) -> None:
        timings = (row.out_of_place, row.in_place)
        self._has_wrong |= any(timing is not None and bool(timing.wrong) for timing in timings)
        if len(self._rows) < MAX_ROWS:
            self._rows.append(row)
        else:
            self._facts.note(NoteKind.ROWS_CUT, f"only the first {MAX_ROWS} rows were kept")

    def _keep_rejected(self, rejected: RejectedRow) -> None:
        if len(self._rejected) < MAX_REJECTED:
            self._rejected.append(rejected)
        else:
            self._facts.note(NoteKind.REJECTED_CUT, f"only the first {MAX_REJECTED} rejected rows were kept")

    def _outcome(self) -> TextOutcome:
        if self._facts.error is not None:
            return TextOutcome.FAILED
        if self._has_wrong or self._facts.has_failed_bounds or self._table.has_cut_wrong_count:
            return TextOutcome.WRONG_RESULTS
        return TextOutcome.OK if self._facts.progress.is_finished else TextOutcome.TRUNCATED

    def _note_several_runs(self) -> None:
        progress = self._facts.progress
        if progress.most_at_once > 1:
            self._facts.note(
                NoteKind.SEVERAL_RUNS,
                f"{progress.begun} runs, {progress.most_at_once} of them at once: "
                "a binary built without MPI starts one job for each process",
            )
        elif progress.begun > 1:
            self._facts.note(NoteKind.SEVERAL_RUNS, f"{progress.begun} runs, one after the other")


def parse(text: str) -> ParsedOutput:
    """What `text` says."""
    reader = Reader()
    for start in range(0, len(text), _CHUNK_CHARS):
        reader.feed(text[start : start + _CHUNK_CHARS])
    return reader.finish()


def parse_bytes(data: bytes) -> ParsedOutput:
    """What `data` says, whatever its encoding; only the first MAX_INPUT_BYTES are read."""
    reader = Reader()
    decoder = decoder_for(data[:4])
    end = min(len(data), MAX_INPUT_BYTES)
    for start in range(0, end, _CHUNK_CHARS):
        reader.feed(decoder.decode(data[start : min(end, start + _CHUNK_CHARS)]))
    reader.feed(decoder.decode(b"", final=True))
    if len(data) > MAX_INPUT_BYTES:
        reader.note_cut_input(f"only the first {MAX_INPUT_BYTES // 2**20} MiB were read")
    return reader.finish()
