"""The simulated benchmark's text, sizes and options, against the captured layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpumond.model.benchmark import Collective
from gpumond.simulate import nccl_text
from gpumond.simulate.benchmark_options import UnknownOptionError, parse
from gpumond.simulate.busbw import Timed
from gpumond.simulate.scenario import load_scenario
from gpumond.simulate.sizes import clamped, size_rows

CAPTURES = Path(__file__).parents[2] / "data/captures/h200x2"
GPUS = load_scenario("h200-2-vm").gpus
GIB = 1 << 30


def captured_lines(name):
    return (CAPTURES / name).read_text(encoding="utf-8").split("\n")


def table_rows(lines):
    return [line for line in lines if line and not line.startswith("#")]


def test_the_header_of_the_table_is_the_captured_one():
    lines = captured_lines("ar_std.out")
    start = lines.index(nccl_text.table_head()[1]) - 1
    assert lines[start : start + 4] == nccl_text.table_head()


def test_a_row_is_laid_out_as_the_captured_one():
    first = table_rows(captured_lines("ar_std.out"))[-1]
    pieces = (
        nccl_text.sizes_piece(2147483648, 536870912, "float", "sum", -1),
        nccl_text.timing_piece(Timed(6351.22, 338.12, 338.12), "0"),
        nccl_text.timing_piece(Timed(6325.99, 339.47, 339.47), "0"),
    )
    assert "".join(pieces) == first


def test_rank_lines_are_laid_out_as_the_captured_ones():
    lines = captured_lines("ar_std.out")
    ranks = [nccl_text.RankLine(0, 0, GPUS[0].pci_bus_id, "NVIDIA H200")]
    pid = int(lines[5].partition("Pid")[2].split()[0])
    assert nccl_text.rank_lines(ranks, host="vm", pid=pid) == [lines[5]]


def test_the_footer_is_the_captured_one():
    lines = captured_lines("ar_std.out")
    footer = nccl_text.footer("all_reduce_perf", wrong_cells=0, average_gbps=93.963)
    assert lines[-len(footer) - 1 : -1] == footer


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (6351.22, 7, "6351.22"),
        (14977.07, 7, "14977.1"),
        (103274.4, 7, " 103274"),
        (12345678.0, 7, "1.2e+07"),
        (9999.996, 7, "10000.0"),
        (338.119, 6, "338.12"),
        (1036.72, 6, "1036.7"),
        (0.0, 6, "  0.00"),
        (1234567.0, 6, " 1e+06"),
    ],
)
def test_numbers_keep_as_many_decimals_as_fit(value, width, text):
    assert nccl_text.fitted(value, width) == text


@pytest.mark.parametrize(("count", "cell"), [(0, "0"), (524288, "524288"), (1048576, "1.04858e+06")])
def test_wrong_counts_have_six_digits(count, cell):
    assert nccl_text.wrong_cell(count) == cell


@pytest.mark.parametrize(
    ("name", "collective", "arguments"),
    [
        ("ar_std.out", Collective.ALL_REDUCE, "-b 8 -e 2G -f 2 -g 2"),
        ("hy.out", Collective.HYPERCUBE, "-b 1M -e 16M -f 4 -g 2"),
        ("bc.out", Collective.BROADCAST, "-b 1M -e 1G -f 4 -g 2"),
        ("ga.out", Collective.GATHER, "-b 1M -e 16M -f 4 -g 2"),
    ],
)
def test_sizes_and_counts_are_the_captured_ones(name, collective, arguments):
    rows = table_rows(captured_lines(name))
    options = parse(arguments.split())
    ours = [
        nccl_text.sizes_piece(row.size, row.count, row.datatype, row.redop, row.root)
        for row in size_rows(options, collective, 2, options.max_bytes)
    ]
    assert ours == [row[: len(ours[0])] for row in rows]


def test_sizes_of_all_ranks_are_rounded_down_to_a_whole_count():
    options = parse(["-b", "8", "-e", "1K", "-f", "8", "-g", "8"])
    rows = list(size_rows(options, Collective.ALL_GATHER, 8, options.max_bytes))
    assert [(row.size, row.count) for row in rows] == [(0, 0), (0, 0), (512, 16)]


def test_types_are_outermost_then_operators_then_sizes_then_cycles():
    options = parse(["-b", "8", "-e", "16", "-f", "2", "-o", "all", "-d", "all", "-N", "2"])
    rows = [(row.datatype, row.redop, row.size) for row in size_rows(options, Collective.ALL_REDUCE, 2, 16)]
    assert rows[:3] == [("int8", "sum", 8), ("int8", "sum", 16), ("int8", "prod", 8)]
    assert len(rows) == 2 * 12 * 6 * 2


def test_what_does_not_fit_into_memory_is_left_out():
    options = parse(["-b", "64G", "-e", "256G", "-f", "2", "-c", "0"])
    assert clamped(options, GPUS) == (150754820096 - 4 * GIB) // 2
    assert clamped(parse(["-e", "1G"]), GPUS) == GIB


@pytest.mark.parametrize("arguments", ["--nonsense", "-b nothing", "-g", "stray"])
def test_an_unknown_option(arguments):
    with pytest.raises(UnknownOptionError):
        parse(arguments.split())


def test_an_unknown_type_is_replaced_with_a_notice():
    options = parse(["-d", "float3", "-o", "sam"])
    assert (options.datatypes, options.redops) == (("float",), ("sum",))
    assert [notice.split(",")[0] for notice in options.notices] == ["invalid type float3", "invalid op sam"]
