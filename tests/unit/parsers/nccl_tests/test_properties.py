"""What holds for every text: hypothesis renders tables of each era and damages them."""

import random
import re

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from nccl_tables import FOOTER, STYLES, WITH_TWO_PLACEMENTS, header, prints, render, run_lines, tables

from gpumond import codec
from gpumond.model.benchmark import ParsedOutput, TextOutcome
from gpumond.parsers.nccl_tests import Reader, parse, parse_bytes
from gpumond.parsers.nccl_tests.fitting import Fit, Template
from gpumond.parsers.nccl_tests.layout import KNOWN_LAYOUTS, layout_of_header

WITH_OWN_COLLECTIVE = tuple(style for style in STYLES if style.era == 4 and style.time_name == "time")


@given(tables())
@settings(max_examples=150)
def test_every_row_of_a_rendered_table_comes_back_as_printed(table):
    text, rows = render(table)
    parsed = parse(text)
    assert parsed.rejected == ()
    assert parsed.rows == rows
    assert parsed.nranks == table.ranks


@given(tables(min_ranks=1))
def test_one_rank_or_several_make_no_difference(table):
    text, rows = render(table)
    assert parse(text).rows == rows


@given(tables(WITH_TWO_PLACEMENTS))
@settings(max_examples=200)
def test_without_a_header_the_types_of_the_cells_decide(table):
    assume(
        table.style.time_name == "time"
    )  # a CPU-time table without a header cannot be told from a wrong one
    made = [prints(row, table) for row in table.rows]
    parsed = parse("".join("".join(parts) + "\n" for parts, _ in made))
    assert parsed.rejected == ()
    assert [(row.bytes, row.out_of_place, row.in_place) for row in parsed.rows] == [
        (row.bytes, row.out_of_place, row.in_place) for _, row in made
    ]


@given(tables(), st.data())
def test_prints_of_a_row_may_be_torn_apart_by_lines_of_nccl(table, data):
    lines = [*run_lines(table), *header(table)]
    expected = []
    for row in table.rows:
        parts, made = prints(row, table)
        expected.append(made)
        text = ""
        for part in parts[:-1]:
            text += part + data.draw(
                st.sampled_from(["", "node-a:59001:59012 [0] NCCL INFO opCount 0 count 262144\n"])
            )
        lines.append(text + parts[-1])
    parsed = parse("\n".join([*lines, *FOOTER, ""]))
    assert parsed.rows == tuple(expected)
    assert parsed.rejected == ()


@given(tables(), st.randoms(use_true_random=False))
def test_feeding_in_pieces_is_parsing_at_once(table, pieces: random.Random):
    text, _ = render(table)
    reader, rows, start = Reader(), [], 0
    while start < len(text):
        end = start + pieces.randint(1, 60)
        rows += reader.feed(text[start:end])
        start = end
    whole = parse(text)
    assert reader.finish() == whole
    assert tuple(rows) == whole.rows


@given(tables(), st.data())
@settings(max_examples=150)
def test_a_text_that_is_cut_anywhere_has_no_row_that_the_whole_has_not(table, data):
    text, rows = render(table)
    cut = data.draw(st.integers(0, len(text)))
    parsed = parse(text[:cut])
    assert parsed.rows == rows[: len(parsed.rows)]
    if cut < text.index("Avg bus"):
        assert parsed.outcome in (TextOutcome.TRUNCATED, TextOutcome.WRONG_RESULTS)


@given(tables(WITH_TWO_PLACEMENTS), st.data())
@settings(max_examples=200)
def test_a_table_without_a_header_that_is_cut_has_no_row_that_the_whole_has_not(table, data):
    body = "".join("".join(prints(row, table)[0]) + "\n" for row in table.rows)
    whole = parse(body).rows
    cut = data.draw(st.integers(0, len(body)))
    rows = parse(body[:cut]).rows
    assert rows == whole[: len(rows)]


@given(tables(WITH_OWN_COLLECTIVE, max_rows=1), st.data())
@settings(max_examples=200)
def test_one_changed_digit_is_rejected_or_within_what_was_printed(table, data):
    """size, count and the measured numbers; root, counts of wrong values and statistics have nothing to check them."""
    text, (row,) = render(table)
    start = text.index("\n", text.index("(elements)")) + 1
    line = text[start : text.index("\n", start)]
    numbers = list(re.finditer(r"\S+", line))
    checked = [numbers[0], numbers[1], *_measured(numbers, table.style)]
    digits = [at for match in checked for at in range(match.start(), match.end()) if line[at].isdigit()]
    at = data.draw(st.sampled_from(digits))
    digit = data.draw(st.sampled_from([digit for digit in "0123456789" if digit != line[at]]))
    changed = line[:at] + digit + line[at + 1 :]
    parsed = parse(text[:start] + changed + text[start + len(line) :])
    if parsed.rows:
        _assert_close(parsed.rows[0], row, table)


def _measured(numbers, style):
    width = 4 + style.has_hipevt + style.has_bitdiff + 4 * style.has_statistics
    found = []
    for placement in range(len(style.placements)):
        base = 5 + placement * width
        found += [numbers[base], numbers[base + 1 + style.has_hipevt], numbers[base + 2 + style.has_hipevt]]
    return found


def _assert_close(found, original, table):
    assert (found.bytes, found.count) == (original.bytes, original.count)
    for changed, true in (
        (found.out_of_place, original.out_of_place),
        (found.in_place, original.in_place),
    ):
        if true is None:
            continue
        for name in ("time_us", "algbw_gbps", "busbw_gbps"):
            value, was = getattr(changed, name), getattr(true, name)
            # What rounding leaves open: another number with so few digits may be as true as the printed one.
            slack = 3 * max(_coarseness(true, table))
            assert abs(value - was) <= slack * max(was, value), (name, value, was)


def _coarseness(timing, table):
    """Half a last digit of each number of a row, relative to the number."""
    for value, is_time in ((timing.time_us, True), (timing.algbw_gbps, False), (timing.busbw_gbps, False)):
        width = 7 if is_time else 6
        decimals = next((d for d in (2, 1, 0) if len(f"{value:.{d}f}") <= width), None)
        half = 0.5 * 10.0**-decimals if decimals is not None else 0.05 * value * (1 if is_time else 10)
        yield half / value if value else 1.0


@given(st.text())
def test_no_text_makes_it_raise(text):
    assert isinstance(parse(text), ParsedOutput)


@given(st.lists(st.sampled_from([
    "1048576", "262144", "float", "sum", "-1", "23.65", "44.33", "N/A", "0", "nan", "-nan", "inf", "1e+06", "\n", "#",
    "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "\x1b[36m", "\r", "{", "}", "[1,0]<stdout>:",
    "node-a:1:2 [0] NCCL INFO x\n", "vm: Test CUDA failure a.cu:1 'x'\n", "# Out of bounds values : 0 OK\n", "0:", "٣", "²", "9" * 30,
    "# Avg bus bandwidth : 1 \n", "# nThread 1 nGpus 2 minBytes\n", "2026-11-29", "16:13:50", "label | ", '{"log":"', '"}\n', "\ud800",
]), max_size=80), st.sampled_from([" ", ""]))  # fmt: skip
@settings(max_examples=200)
def test_no_mixture_of_its_own_words_makes_it_raise(words, space):
    parsed = parse(space.join(words))
    assert codec.encode(parsed)
    for row in parsed.rows:
        assert row.bytes >= 0
        for timing in (row.out_of_place, row.in_place):
            assert timing is None or timing.time_us < float("inf")
    assert (parsed.error is not None) == (parsed.outcome is TextOutcome.FAILED)


@given(st.binary(max_size=4096))
def test_no_bytes_make_it_raise(data):
    assert codec.encode(parse_bytes(data))


@given(tables(), st.data())
@settings(max_examples=100)
def test_a_whole_row_and_its_parts_are_fitted_alike(table, data):
    """A row is matched in two ways, as a whole and print by print: they must agree."""
    layouts = [layout_of_header(header(table)[1].split(), frozenset()), *KNOWN_LAYOUTS]
    words = "".join(prints(table.rows[0], table)[0]).split()
    if data.draw(st.booleans()):
        words[data.draw(st.integers(0, len(words) - 1))] = data.draw(
            st.sampled_from(["x", "0", "N/A", "1.5", "nan"])
        )
    if data.draw(st.booleans()):
        words = words[: data.draw(st.integers(0, len(words)))]
    for layout in layouts:
        template = Template(layout)
        assert (template.cells(words) is not None) == (template.fit(words).fit is Fit.COMPLETE)
