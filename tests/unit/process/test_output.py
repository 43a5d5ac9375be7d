from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from gpumond.process.output import BoundedOutput, LineSplitter

chunks = st.lists(st.binary(max_size=40))
text_chunks = st.lists(st.text(alphabet="0123456789 \n", max_size=30).map(str.encode))
MARKER = re.compile(rb"# gpumond: (\d+) bytes left out here\n")


def collect(pieces: list[bytes], *, head: int, tail: int) -> tuple[bytes, int]:
    output = BoundedOutput(head_bytes=head, tail_bytes=tail)
    for piece in pieces:
        output.append(piece)
    assert output.total_bytes == sum(map(len, pieces))
    return output.finish()


class TestBoundedOutput:
    @given(chunks)
    def test_what_fits_is_kept_as_it_is(self, pieces):
        assert collect(pieces, head=1000, tail=1000) == (b"".join(pieces), 0)

    @given(text_chunks, st.integers(0, 40), st.integers(0, 40))
    def test_what_does_not_fit_is_counted_and_said(self, pieces, head, tail):
        whole = b"".join(pieces)
        kept, dropped = collect(pieces, head=head, tail=tail)
        if dropped == 0:
            assert kept == whole
            return
        first, count, last = MARKER.split(kept)
        assert int(count) == dropped
        # A line longer than all that is kept is shown in part, and the marker then begins a new one.
        assert len(whole) - dropped - len(last) in {len(first), len(first) - 1}
        assert len(first) <= head + 1
        assert len(last) <= tail
        assert whole.startswith(first.removesuffix(b"\n"))
        assert whole.endswith(last)

    @given(st.lists(st.integers(0, 10**9), min_size=1), st.integers(12, 60), st.integers(12, 60))
    def test_a_line_that_was_cut_is_never_shown(self, numbers, head, tail):
        """Half of the number 338120 would be a number too."""
        lines = [b"%d\n" % number for number in numbers]
        kept, _ = collect([b"".join(lines)], head=head, tail=tail)
        assert set(MARKER.sub(b"", kept).splitlines(keepends=True)) <= set(lines)

    def test_how_it_looks(self):
        pieces = [b"header\n", b"row 1\n" * 100, b"row 2\n", b"footer\n"]
        assert collect(pieces, head=10, tail=15) == (
            b"header\n# gpumond: 600 bytes left out here\nrow 2\nfooter\n",
            600,
        )

    def test_without_a_tail_nothing_of_the_end_is_kept(self):
        assert collect([b"a\n", b"b\n"], head=2, tail=0) == (b"a\n# gpumond: 2 bytes left out here\n", 2)


class TestLineSplitter:
    @given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
    def test_lines_do_not_depend_on_how_the_bytes_arrive(self, whole, cuts):
        places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
        splitter = LineSplitter()
        lines = [
            line for start, end in itertools.pairwise(places) for line in splitter.feed(whole[start:end])
        ]
        expected = whole.split(b"\n")[:-1]
        assert lines == [line.decode("utf-8", "replace").removesuffix("\r") for line in expected]

    @given(chunks)
    def test_no_line_is_longer_than_the_limit(self, pieces):
        splitter = LineSplitter(line_bytes_max=7)
        assert all(len(line) <= 7 for piece in pieces for line in splitter.feed(piece))

    def test_of_a_long_line_the_start_is_handed_on(self):
        splitter = LineSplitter(line_bytes_max=4)
        assert splitter.feed(b"abc") == []
        assert splitter.feed(b"defg" * 1000) == []
        assert splitter.feed(b"h\nnext long\nxy\n") == ["abcd", "next", "xy"]
