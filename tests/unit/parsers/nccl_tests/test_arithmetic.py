"""Numbers that cannot be true together are no measurement: columns swapped or shifted, sizes that lie, nan."""

import pytest

from gpumond.model.benchmark import TextOutcome
from gpumond.parsers.nccl_tests import parse
from gpumond.parsers.nccl_tests.arithmetic import Interval, interval_of

HEADER = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
OLD_HEADER = "# size count type time algbw busbw error time algbw busbw error\n"
RS = "1048576 131072 float sum -1 64.63 16.22 8.11 0 23.10 45.39 22.69 0"


def run_of(program, ranks):
    lines = [f"# Collective test starting: {program}_perf"] if program else []
    lines += [
        f"#  Rank {rank} Group 0 Pid 1 on vm device {rank} [0000:00:06] NVIDIA H200" for rank in range(ranks)
    ]
    return "\n".join(lines) + "\n"


def read(row, *, program="reduce_scatter", ranks=2, header=HEADER):
    return parse(f"{run_of(program, ranks)}{header}{row}\n")


@pytest.mark.parametrize(
    ("cell", "low", "high"),
    [("121.33", 121.325, 121.335), ("18594", 18593.5, 18594.5), ("0.00", 0, 0.005), ("1e+06", 500000, 1500000), ("1.2e+07", 1.15e7, 1.25e7)],
)  # fmt: skip
def test_a_printed_number_stands_for_all_within_half_its_last_digit(cell, low, high):
    assert interval_of(cell) == pytest.approx(Interval(low, high))


def test_a_true_row_passes():
    assert len(read(RS).rows) == 1


CHANGES = {
    "algbw and busbw swapped": ("1048576 131072 float sum -1 64.63 8.11 16.22 0 23.10 22.69 45.39 0", "algbw 8.11"),
    "columns shifted by one": ("131072 1048576 float sum -1 64.63 16.22 8.11 0 23.10 45.39 22.69 0", "size 131072"),
    "a size that lies": ("2097152 131072 float sum -1 64.63 16.22 8.11 0 23.10 45.39 22.69 0", "size 2097152"),
    "a count that lies": ("1048576 262144 float sum -1 64.63 16.22 8.11 0 23.10 45.39 22.69 0", "size 1048576"),
    "both lie": ("2097152 262144 float sum -1 64.63 16.22 8.11 0 23.10 45.39 22.69 0", "algbw 16.22"),
    "a type that lies": ("1048576 131072 double sum -1 64.63 16.22 8.11 0 23.10 45.39 22.69 0", "of double"),
    "milliseconds": ("1048576 131072 float sum -1 0.06463 16.22 8.11 0 0.02310 45.39 22.69 0", "algbw 16.22"),
    "busbw of all_reduce": ("1048576 131072 float sum -1 64.63 16.22 16.22 0 23.10 45.39 45.39 0", "busbw 16.22"),
    "busbw 0": ("1048576 131072 float sum -1 64.63 16.22 0.00 0 23.10 45.39 22.69 0", "busbw 0.00"),
    "only in-place": ("1048576 131072 float sum -1 64.63 16.22 8.11 0 23.10 45.39 22.79 0", "in-place busbw 22.79"),
    "nan": ("1048576 131072 float sum -1 64.63 nan nan 0 23.10 45.39 22.69 0", "algbw is nan"),
    "-nan": ("1048576 131072 float sum -1 64.63 16.22 8.11 0 23.10 45.39 -nan 0", "busbw is -nan"),
    "time 0": ("1048576 131072 float sum -1 0.00 inf inf 0 23.10 45.39 22.69 0", "algbw is inf"),
    "time 0, honest": ("1048576 131072 float sum -1 0.00 0.00 0.00 0 23.10 45.39 22.69 0", "time is 0"),
    "no count of wrong values": ("1048576 131072 float sum -1 64.63 16.22 8.11 nan 23.10 45.39 22.69 0", "#wrong is nan"),
    "a cell too many": (f"{RS} 7", "more cells than columns"),
    "a cell too few": (RS[:-2], "#wrong expected, nothing found"),
    "a negative time": (RS.replace(" 64.63", " -64.63"), "time expected, '-64.63' found"),
    "no size": (RS.removeprefix("1048576 "), "no size and count in front of the type"),
    "a word for a number": (RS.replace("45.39", "fast"), "algbw expected, 'fast' found"),
    "size 0 with a count": (RS.replace("1048576", "0"), "size 0 does not fit count 131072"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_cannot_be_true_is_rejected_with_the_reason(name):
    row, reason = CHANGES[name]
    parsed = read(row)
    assert parsed.rows == ()
    assert [reason in rejected.reason for rejected in parsed.rejected] == [True], parsed.rejected
    assert parsed.rejected[0].text == " ".join(row.split())


FITTING = [
    ("all_reduce", 8, "1048576 262144 float sum -1 20.00 52.43 91.75 0 20.00 52.43 91.75 0"),
    ("all_gather", 8, "1048576 32768 float none -1 20.00 52.43 45.88 0 20.00 52.43 45.88 0"),
    ("alltoallv", 8, "1048576 32768 float none -1 20.00 52.43 45.88 0 20.00 52.43 45.88 N/A"),
    ("broadcast", 8, "1048576 262144 float none 3 20.00 52.43 52.43 0 20.00 52.43 52.43 0"),
    ("hypercube", 8, "1048576 32768 float -1 20.00 45.88 45.88 0 20.00 45.88 45.88 0"),
    ("all_reduce_bias", 8, "1048576 262144 float sum -1 20.00 52.43 91.75 0 20.00 52.43 91.75 0"),
    ("all_reduce", 1, "1048576 262144 float sum -1 20.00 52.43 0.00 0 0.25 4194.30 0.00 0"),
    ("broadcast", 1, "1048576 262144 float none 0 20.00 52.43 52.43 0 20.00 52.43 52.43 0"),
    (None, 8, "1048576 262144 float sum -1 20.00 52.43 91.75 0 20.00 52.43 91.75 0"),
    (None, 8, "1048576 32768 float none -1 20.00 52.43 45.88 0 20.00 52.43 45.88 0"),
    ("all_reduce", 0, "1048576 262144 float sum -1 20.00 52.43 98.30 0 20.00 52.43 98.30 0"),
    ("a_fork_of_ours", 8, "1048576 262144 float sum -1 20.00 52.43 60.00 0 20.00 52.43 60.00 0"),
    ("a_fork_of_ours", 0, "1048576 32768 float sum -1 20.00 52.43 60.00 0 20.00 52.43 60.00 0"),
    ("all_reduce", 8, "0 0 float sum -1 20.00 0.00 0.00 0 20.00 0.00 0.00 0"),
]


@pytest.mark.parametrize(("program", "ranks", "row"), FITTING)
def test_what_the_rule_of_the_collective_allows(program, ranks, row):
    parsed = read(row, program=program, ranks=ranks)
    assert (len(parsed.rows), parsed.rejected) == (1, ())


@pytest.mark.parametrize(
    ("program", "ranks", "row"),
    [
        ("all_reduce", 8, "1048576 32768 float sum -1 20.00 52.43 91.75 0 20.00 52.43 91.75 0"),
        ("all_gather", 8, "1048576 262144 float none -1 20.00 52.43 45.88 0 20.00 52.43 45.88 0"),
        (None, 8, "1048576 131072 float none -1 20.00 52.43 45.88 0 20.00 52.43 45.88 0"),
        (None, 8, "1048576 262144 float sum -1 20.00 52.43 60.00 0 20.00 52.43 60.00 0"),
        (None, 0, "1048576 262144 float sum -1 20.00 52.43 106.00 0 20.00 52.43 106.00 0"),
        ("hypercube", 8, "1048576 32768 float -1 20.00 45.88 40.00 0 20.00 45.88 40.00 0"),
        (
            "all_gather",
            8,
            "1048576 32768 float none -1 20.00 45.88 45.88 0 20.00 45.88 45.88 0",
        ),  # before 2020
        (
            None,
            0,
            "1048576 32768 float none -1 20.00 52.43 40.00 0 20.00 52.43 40.00 0",
        ),  # the size shows 8 ranks
        (
            "all_reduce",
            8,
            "256 64 float sum -1 34.24 0.01 0.03 0 34.24 0.01 0.01 0",
        ),  # 0.03 fits algbw 0.015, not 256 B
        ("broadcast", 8, "1048576 262144 float none 3 20.00 52.43 91.75 0 20.00 52.43 91.75 0"),
    ],
)
def test_what_it_forbids(program, ranks, row):
    parsed = read(row, program=program, ranks=ranks)
    assert (len(parsed.rows), len(parsed.rejected)) == (0, 1)


def test_all_gather_before_mid_2020_had_another_algbw():
    row = "4294967296 134217728 float 29122 129.05 129.05 1e+00 29169 128.84 128.84 1e+00"
    assert len(read(row, program="all_gather", ranks=8, header=OLD_HEADER).rows) == 1
    assert (
        read(
            row.replace("129.05 129.05", "129.05 112.92"), program="all_gather", ranks=8, header=OLD_HEADER
        ).rows
        == ()
    )


def test_the_ranks_of_a_rank_list_with_gaps_are_not_believed():
    row = "1048576 262144 float sum -1 20.00 52.43 91.75 0 20.00 52.43 91.75 0"
    ranks = run_of("all_reduce", 2) + "#  Rank  2 Group  0 Pid      1 on       n...\n"
    parsed = parse(f"{ranks}{HEADER}{row}\n")
    assert (len(parsed.rows), parsed.nranks) == (1, None)


def test_a_rank_list_without_a_rank_is_not_believed():
    row = "1048576 262144 float sum -1 20.00 52.43 91.75 0 20.00 52.43 91.75 0"  # of 8 ranks
    ranks = run_of("all_reduce", 1) + "#  Rank  3 Group  0 Pid 1 on vm device  3 [0000:00:09] NVIDIA H200\n"
    assert len(parse(f"{ranks}{HEADER}{row}\n").rows) == 1


def test_a_new_run_has_ranks_of_its_own():
    first = (
        run_of("all_reduce", 8)
        + HEADER
        + "1048576 262144 float sum -1 20.00 52.43 91.75 0 20.00 52.43 91.75 0\n"
    )
    second = (
        run_of("all_reduce", 2)
        + HEADER
        + "1048576 262144 float sum -1 20.00 52.43 52.43 0 20.00 52.43 52.43 0\n"
    )
    start = "# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor)\n"
    parsed = parse(start + first + start + second)
    assert (len(parsed.rows), parsed.rejected) == (2, ())


def test_with_a_split_the_table_is_that_of_group_0():
    ranks = run_of("all_reduce", 8)
    ranks += ranks.replace("Group 0", "Group 1").replace("Rank ", "Rank 1")
    ranks = "".join(
        f"#  Rank {rank:2} Group {rank % 2:2} Pid 1 on vm device {rank} [0000:00:06] NVIDIA H200\n"
        for rank in range(16)
    )
    row = "1048576 262144 float sum -1 20.00 52.43 91.75 0 20.00 52.43 91.75 0"  # of 8 ranks, not 16
    assert len(parse(f"# Collective test starting: all_reduce_perf\n{ranks}{HEADER}{row}\n").rows) == 1


def test_a_cpu_time_is_not_held_against_the_bandwidth_of_the_gpus():
    header = HEADER.replace("time", "cputime")
    assert (
        len(read("1048576 131072 float sum -1 3.21 16.22 8.11 0 3.18 45.39 22.69 0", header=header).rows) == 1
    )
    assert read("1048576 131072 float sum -1 3.21 16.22 9.11 0 3.18 45.39 22.69 0", header=header).rows == ()


def test_wrong_values_of_a_row_that_cannot_be_true_are_no_evidence():
    assert read(CHANGES["busbw 0"][0].replace("0.00 0", "0.00 96")).outcome is TextOutcome.TRUNCATED
