"""The layout comes from the header; without one, from the types of the cells."""

import pytest

from gpumond.model.benchmark import Placement
from gpumond.parsers.nccl_tests import parse
from gpumond.parsers.nccl_tests.layout import Column, layout_of_header

NEW = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
NEW_ONE = "# size count type redop root time algbw busbw #wrong"
ROW = "1048576 262144 float sum -1 23.65 44.33 44.33 0 25.16 41.68 41.68 0"
ONE = "1048576 262144 float sum -1 23.65 44.33 44.33 0"
BOTH = frozenset(Placement)
OUT, IN = Placement.OUT_OF_PLACE, Placement.IN_PLACE


@pytest.mark.parametrize(
    ("header", "left", "placement", "tail"),
    [
        (NEW, 5, 4, 0),
        ("# bytes N type op time algbw busbw res time algbw busbw res", 4, 4, 0),
        ("# bytes N type root time algbw busbw res", 4, 4, 0),
        ("# size count type time algbw busbw error time algbw busbw error", 3, 4, 0),
        ("# size count type redop root time algbw busbw error time algbw busbw error", 5, 4, 0),
        (NEW + " timestamp", 5, 4, 2),
        (NEW + " algo proto nchannels", 5, 4, 3),
        (NEW.replace("#wrong", "#wrong i_min i_max i_p99 i_cv%"), 5, 8, 0),
        (NEW.replace("#wrong", "#wrong #bitdiff"), 5, 5, 0),
        (NEW.replace("time", "time hipevt"), 5, 5, 0),
        (NEW.replace("time", "cputime"), 5, 4, 0),
        (NEW.replace("#wrong", "#wrong color"), 5, 5, 0),
        ("INFO >> " + NEW, 5, 4, 0),
        (NEW.replace("#", ""), 5, 4, 0),
    ],
)
def test_a_header_says_how_many_columns_there_are(header, left, placement, tail):
    layout = layout_of_header(header.split(), BOTH)
    assert (len(layout.left), len(layout.placement), len(layout.tail)) == (left, placement, tail)


@pytest.mark.parametrize(
    "header",
    [
        "# size count type redop root time algbw busbw #wrong time algbw busbw",  # cropped by a terminal
        "# size count type redop root time algbw busbw #wrong time algbw busbw #wro",
        "# size count type redop root time algbw",
        "# size count type redop root",
        "# size count type redop root time algbw busbw #wrong time busbw algbw #wrong",
        NEW + " time algbw busbw #wrong",
        "nothing of it",
    ],
)
def test_a_damaged_header_promises_nothing(header):
    assert layout_of_header(header.split(), BOTH) is None


def test_below_a_cropped_header_the_types_of_the_cells_decide():
    assert len(parse(f"{NEW[:-4]}\n{ROW}\n").rows) == 1


@pytest.mark.parametrize(
    ("title", "header", "placement"),
    [
        ("in-place", NEW_ONE, IN),
        ("out-of-place", NEW_ONE, OUT),
        ("", NEW_ONE, IN),
        ("", "# bytes N type root time algbw busbw res", OUT),
    ],
)
def test_a_table_with_one_placement_says_in_its_title_which(title, header, placement):
    row = ONE if "redop" in header else "1048576 262144 float 0 0.02365 44.33 44.33 0e+00"
    (row,) = parse(f"#    {title}\n{header}\n{row}\n").rows
    timings = {OUT: row.out_of_place, IN: row.in_place}
    assert timings.pop(placement).algbw_gbps == 44.33
    assert list(timings.values()) == [None]


def test_half_a_row_without_a_header_is_no_row_with_one_placement():
    assert parse(f"{ONE}\n").rows == ()
    assert parse(f"{ONE}\n{ONE}\n").rows == ()


def test_v1_prints_milliseconds():
    header = "# bytes N type op time algbw busbw res time algbw busbw res"
    (row,) = parse(
        f"{header}\n1048576 262144 float sum 0.024 43.69 43.69 1e-07 0.025 41.94 41.94 \tN/A\n"
    ).rows
    assert (row.out_of_place.time_us, row.in_place.time_us, row.out_of_place.wrong) == (24.0, 25.0, None)


@pytest.mark.parametrize(
    ("cell", "wrong"), [("0", 0), ("96", 96), ("1.04858e+06", 1048580), ("4e+06", 4_000_000), ("N/A", None)]
)
@pytest.mark.parametrize("header", [NEW, ""])
def test_a_count_of_wrong_values_is_a_whole_number(cell, wrong, header):
    (row,) = parse(
        f"{header}\n1048576 262144 float sum -1 23.65 44.33 44.33 {cell} 25.16 41.68 41.68 {cell}\n"
    ).rows
    assert (row.out_of_place.wrong, row.in_place.wrong) == (wrong, wrong)


@pytest.mark.parametrize("cell", ["0e+00", "3e-08", "1e+00", "2e-07*", "nan", "-nan", "inf", "N/A"])
@pytest.mark.parametrize(
    "header", ["# size count type redop time algbw busbw error time algbw busbw error", ""]
)
def test_a_largest_difference_is_no_count(cell, header):
    (row,) = parse(
        f"{header}\n1048576 262144 float sum 23.65 44.33 44.33 {cell} 25.16 41.68 41.68 {cell}\n"
    ).rows
    assert (row.out_of_place.wrong, row.in_place.wrong, row.redop, row.root) == (None, None, "sum", None)


def test_a_type_that_is_new_is_read_below_a_header():
    (row,) = parse(f"{NEW}\n1048576 2097152 f4e2m1 sum -1 23.65 44.33 44.33 0 25.16 41.68 41.68 0\n").rows
    assert row.type == "f4e2m1"


@pytest.mark.parametrize(
    "tail", ["RING LL 24", "N/A N/A N/A", "2026-11-29 16:13:50 RING LL 24", "RING LL 24 2026-11-29 16:13:50"]
)
def test_columns_behind_the_placements_in_either_order(tail):
    header = f"{NEW} algo proto nchannels" + (" timestamp" if "-29" in tail else "")
    assert len(parse(f"{header}\n{ROW} {tail}\n").rows) == 1
    if not tail.endswith("50"):
        assert len(parse(f"{ROW} {tail}\n").rows) == 1


def test_the_columns_of_a_known_name_are_known():
    layout = layout_of_header(f"{NEW} timestamp".split(), BOTH)
    assert layout.left == (Column.SIZE, Column.COUNT, Column.TYPE, Column.REDOP, Column.ROOT)
    assert layout.placement == (Column.TIME, Column.ALGBW, Column.BUSBW, Column.WRONG)
    assert layout.tail == (Column.DATE, Column.CLOCK)
