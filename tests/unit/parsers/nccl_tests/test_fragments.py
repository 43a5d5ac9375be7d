"""Rows are not printed as lines: what lands between the three prints of a row, and what stands around them."""

import json

import pytest

from gpumond.model.benchmark import Row, TextOutcome, Timing
from gpumond.parsers.nccl_tests import Reader, parse

RANKS = """\
#  Rank  0 Group  0 Pid   2170 on       {host} device  0 [0000:00:06] NVIDIA H200
#  Rank  1 Group  0 Pid   2170 on       {host} device  1 [0000:00:07] NVIDIA H200
"""
HEADER = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
OLD_HEADER = """\
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
"""
LEFT = "     1048576        262144     float     sum      -1"
OUT = "    33.24   31.55   31.55       0"
IN = "    33.78   31.04   31.04       0"
INFO = ":2170:2184 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7fcc9a400000 count 262144 datatype 7 op 0 root 0"
ROW = Row(1048576, 262144, "float", "sum", -1, Timing(33.24, 31.55, 31.55, 0), Timing(33.78, 31.04, 31.04, 0))


@pytest.mark.parametrize(
    "host", ["vm", "node-a", "7node", "7node.ec2.internal", "1", "10-0-0-1", "0", "N", "A", "e01"]
)
def test_a_host_name_that_follows_a_number_without_a_space_is_known_from_the_rank_list(host):
    short = host.partition(".")[0]
    text = RANKS.format(host=host) + HEADER + f"{LEFT}{short}{INFO}\n{OUT}{short}{INFO}\n{IN}\n"
    assert parse(text).rows == (ROW,)


@pytest.mark.parametrize("host", ["7node", "7node.ec2.internal"])
def test_a_known_host_that_begins_with_a_digit_does_not_lengthen_a_count(host):
    text = f"{RANKS.format(host=host)}{HEADER}{LEFT}{OUT[:-1]}127node{INFO}\n{IN}\n"
    assert parse(text).rows[0].out_of_place.wrong == 12


def test_of_two_host_names_the_longer_one_is_cut_off():
    ranks = RANKS.format(host="vm") + RANKS.format(host="5-vm").replace("Rank  ", "Rank  1")
    assert parse(f"{ranks}{HEADER}{LEFT}5-vm{INFO}\n{OUT}vm{INFO}\n{IN}\n").rows == (ROW,)


@pytest.mark.parametrize("host", ["vm", "node-a", "abc123"])
def test_without_a_rank_list_the_cell_in_front_of_the_host_is_read_by_its_type(host):
    assert parse(f"{HEADER}{LEFT}{host}{INFO}\n{OUT}{host}{INFO}\n{IN}\n").rows == (ROW,)


@pytest.mark.parametrize("cells", [("1e-07", "0e+00"), ("N/A", "N/A")])
def test_old_cells_in_front_of_an_unknown_host(cells):
    text = (
        f"{OLD_HEADER}     1048576        262144   float     sumnode-a{INFO}\n"
        f"    33.24   31.55   31.55  {cells[0]}node-a{INFO}\n    33.78   31.04   31.04  {cells[1]}\n"
    )
    (row,) = parse(text).rows
    assert (row.redop, row.root, row.out_of_place.wrong, row.in_place.busbw_gbps) == (
        "sum",
        None,
        None,
        31.04,
    )


@pytest.mark.parametrize(
    "foreign",
    [
        "vm:2170:2170 [1] NCCL INFO 12 13 14 0",
        "vm:2170:2170 [1] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
        "[2026-01-31 12:00:00] vm:2170:2170 [1] misc/x.cc:63 NCCL WARN no",
        "[2026-01-31 12:00:00] vm:2170:2170 [1] x.cc:63 (ncclInit) NCCL WARN no",
        "vm:2170:2170 NCCL CALL ncclAllReduce(0x7fcc9a400000,262144)",
        "[1606.123456] [vm:2170:0]          ib.c:12   UCX  WARN  1 2 3 4",
    ],
)
def test_every_kind_of_foreign_line_is_cut_off(foreign):
    text = RANKS.format(host="vm") + HEADER + f"{LEFT}{foreign}\n{OUT}{foreign}\n{foreign}\n{IN}\n"
    parsed = parse(text)
    assert parsed.rows == (ROW,)
    assert parsed.rejected == ()


@pytest.mark.parametrize(
    "between",
    ["", "hello", "123456", "12.34 56.78", "100 % done", "# comment", "1 2 3 4 5 6 7 8 9", "x " * 5000],
)
def test_other_lines_between_two_prints_leave_the_row_open(between):
    assert parse(f"{HEADER}{LEFT}\n{between}\n{OUT}\n{between}\n{IN}\n").rows == (ROW,)


def test_prints_of_two_ranks_that_interleave_stay_apart():
    """A binary without MPI, started by mpirun: every process prints a table."""
    other = "     2097152        524288     float     sum      -1"
    lines = [
        f"[1,0]<stdout>:{LEFT}node-a{INFO}",
        f"[1,1]<stdout>:{other}node-a{INFO}",
        f"[1,0]<stdout>:{OUT}node-a{INFO}",
        "[1,1]<stdout>:    66.48   31.55   31.55       0",
        f"[1,0]<stdout>:{IN}",
        "[1,1]<stdout>:    66.50   31.54   31.54       0",
    ]
    assert [row.bytes for row in parse(HEADER + "\n".join(lines) + "\n").rows] == [1048576, 2097152]


def test_a_failure_ends_the_row_that_it_interrupts_and_not_the_one_that_is_whole():
    start = RANKS.format(host="vm") + HEADER
    failure = "vm: Test CUDA failure common.cu:1 'an illegal memory access was encountered'\n"
    whole = parse(f"{start}{LEFT}{OUT}{IN}{failure}")
    assert (whole.rows, whole.outcome) == ((ROW,), TextOutcome.FAILED)
    assert whole.error == "CUDA failure: an illegal memory access was encountered"
    interrupted = parse(f"{start}{LEFT}{OUT}{failure}{IN}\n")
    assert (interrupted.rows, interrupted.rejected) == ((), ())


def test_a_row_whose_rest_never_comes_is_rejected_when_the_next_begins():
    parsed = parse(f"{HEADER}{LEFT}{OUT}\n{LEFT}{OUT}{IN}\n")
    assert parsed.rows == (ROW,)
    assert [(row.line, row.reason) for row in parsed.rejected] == [(4, "a placement is missing")]


def test_a_row_whose_rest_never_comes_is_rejected_at_the_footer():
    parsed = parse(f"{HEADER}{LEFT}{OUT}\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1 \n")
    assert [row.reason for row in parsed.rejected] == ["a placement is missing"]


def test_two_rows_on_one_line_are_two_rows():
    assert parse(f"{HEADER}{LEFT}{OUT}{IN}   {LEFT}{OUT}{IN}\n").rows == (ROW, ROW)


WHOLE = f"{RANKS.format(host='vm')}{HEADER}{LEFT}{OUT}{IN}\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 31.295 \n"


def each_line(change):
    return "".join(change(line) for line in WHOLE.splitlines(keepends=True))


AROUND = {
    "mpirun --tag-output": lambda line: f"[1,0]<stdout>:{line}",
    "mpirun --timestamp-output": lambda line: f"Fri Jul  3 12:00:00 2026[1,0]<stdout>:{line}",
    "prterun": lambda line: f"[prterun-node-a-1234@1,0]<stdout>: {line}",
    "mpiexec -prepend-rank": lambda line: f"[0] {line}",
    "srun -l": lambda line: f"0: {line}",
    "srun -l, wide": lambda line: f"  0: {line}",
    "pdsh": lambda line: f"node-a: {line}",
    "kubectl logs --timestamps": lambda line: f"2026-02-16T10:00:00.000000000Z {line}",
    "CRI log file": lambda line: f"2026-02-16T10:00:00.000000000+01:00 stdout F {line}",
    "journal": lambda line: f"Nov 29 16:13:50 node-a gpumond[123]: {line}",
    "compose, coloured": lambda line: f"\x1b[36mlauncher-1  |\x1b[0m {line}",
    "compose around mpirun": lambda line: f"launcher-1  | [1,0]<stdout>:{line}",
    "a prefix that nobody knows": lambda line: f"INFO worker=3 step 12 >> {line}",
    "docker's json-file": lambda line: json.dumps({"log": line, "stream": "stdout"}) + "\n",
    "JSON without the line end": lambda line: json.dumps({"ts": 1, "msg": line.rstrip()}) + "\n",
    "CRLF": lambda line: line.replace("\n", "\r\n"),
    "Markdown": lambda line: " ".join(line.lstrip("#").split()) + "\n",
    "a web page": lambda line: line.replace("  ", "\xa0 "),
    "indented": lambda line: f"\t{line}",
    "quoted": lambda line: f"> {line}",
    "bold": lambda line: f"\x1b[1m{line.rstrip()}\x1b[0m\x1b[K\n",
}


@pytest.mark.parametrize("name", AROUND)
def test_what_stands_around_the_text_does_not_change_it(name):
    parsed = parse(each_line(AROUND[name]))
    assert (parsed.rows, parsed.rejected, parsed.outcome) == ((ROW,), (), TextOutcome.OK)
    assert (parsed.nranks, parsed.avg_busbw_gbps, parsed.out_of_bounds) == (2, 31.295, 0)


@pytest.mark.parametrize(
    "name", [name for name in AROUND if name not in ("pdsh", "quoted", "a prefix that nobody knows")]
)
def test_prints_that_are_torn_apart_come_together_behind_a_known_prefix(name):
    lines = [LEFT, "vm:1:1 [0] NCCL INFO x", OUT, IN, ""]
    text = HEADER + "".join(AROUND[name](f"{line}\n") for line in lines)
    assert parse(text).rows == (ROW,)


def test_rows_are_handed_out_as_their_lines_end():
    reader = Reader()
    assert reader.feed(HEADER + LEFT + OUT) == ()
    assert reader.feed(IN) == ()
    assert reader.feed("\n" + LEFT) == (ROW,)
    assert reader.finish().rows == (ROW,)
