"""Memory stays bounded on input without end, and a cap that was hit is said."""

import tracemalloc

import pytest

from gpumond.model.benchmark import NoteKind
from gpumond.parsers.nccl_tests import Reader, parse, parse_bytes, reader, rows, text

HEADER = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
ROW = "256 64 float sum -1 34.24 0.01 0.00 0 33.65 0.01 0.00 0\n"
LIE = "256 64 float sum -1 34.24 9.01 0.00 0 33.65 0.01 0.00 0\n"


def kinds(parsed):
    return [note.kind for note in parsed.notes]


@pytest.mark.parametrize(
    "chunk", ["x" * 70_000, "1 2 float " * 7_000, "{" * 70_000, "\x1b[" * 35_000, " " * 70_000]
)
def test_a_line_without_end_is_not_kept(chunk):
    endless = Reader()
    tracemalloc.start()
    for _ in range(100):
        endless.feed(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000
    assert kinds(endless.finish()) == [NoteKind.LINES_CUT]


def test_a_row_behind_what_was_kept_of_a_line_is_not_half_read():
    row = ROW.rstrip().removesuffix("0") + "96"  # of which 9 is kept
    padding = " " * (reader.MAX_LINE_CHARS - len(row) + 1)
    parsed = parse(f"{HEADER}{padding}{row}\n")
    assert (parsed.rows, kinds(parsed)) == ((), [NoteKind.LINES_CUT])


def test_rows_without_end_are_handed_out_but_not_kept(monkeypatch):
    monkeypatch.setattr(reader, "MAX_ROWS", 10)
    endless = Reader()
    endless.feed(HEADER)
    assert len(endless.feed(ROW * 25)) == 25
    parsed = endless.finish()
    assert (len(parsed.rows), kinds(parsed)) == (10, [NoteKind.ROWS_CUT])


def test_rejected_rows_without_end_are_not_kept(monkeypatch):
    monkeypatch.setattr(reader, "MAX_REJECTED", 10)
    parsed = parse(HEADER + LIE * 25)
    assert (len(parsed.rejected), kinds(parsed)) == (10, [NoteKind.REJECTED_CUT])


def test_bytes_without_end_are_not_read(monkeypatch):
    monkeypatch.setattr(reader, "MAX_INPUT_BYTES", 1000)
    parsed = parse_bytes((HEADER + ROW * 100).encode())
    assert 0 < len(parsed.rows) < 100
    assert kinds(parsed) == [NoteKind.INPUT_CUT]


def test_open_rows_of_many_printers_are_bounded():
    left = "     1048576        262144     float     sum      -1"
    parsed = parse(HEADER + "".join(f"[1,{rank}]<stdout>:{left}\n" for rank in range(3 * rows.MAX_OPEN_ROWS)))
    assert parsed.rows == ()


def test_host_names_are_bounded():
    hosts = text.Hosts()
    for number in range(2 * text.MAX_HOSTS):
        hosts.learn(f"node-{number}")
    assert len(hosts.names) <= text.MAX_HOSTS + 1


def test_numbers_without_end_are_no_numbers():
    long = "9" * 5000
    parsed = parse(
        f"{HEADER}{long} {long} float sum -1 {long} {long} 0.00 0 33.65 0.01 0.00 0\nRank {long} on\nnThread 1 nGpus {long}\n"
    )
    assert parsed.rows == ()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings(encoding):
    parsed = parse_bytes(f"# Collective test starting: all_reduce_perf\n# é\n{HEADER}{ROW}".encode(encoding))
    assert (len(parsed.rows), parsed.collective) == (1, "all_reduce")


@pytest.mark.parametrize("hole", ["\0" * 4096, "\x07\x08", "\u200b", "\ud800"])
def test_holes_in_a_log_do_not_hide_the_rows_around_them(hole):
    assert len(parse(f"{HEADER}{ROW}{hole}{ROW}").rows) == 2


def test_nothing_of_the_text_can_write_to_a_terminal():
    parsed = parse(
        f"{HEADER}\x1b]0;title\x07\x9b31m{LIE.strip()}\x1b[2J\nvm: Test CUDA failure a.cu:1 '\x1b[31mred\x1b[0m'\n"
    )
    shown = [parsed.error, *(rejected.text for rejected in parsed.rejected)]
    assert len(shown) == 2
    assert all(line.isprintable() for line in shown)
