"""What both engines of our own compute and print, without torch: sizes, data, the table, the command line."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.model.benchmark import Collective, Placement, TextOutcome, busbw_factor, points_of_row
from gpumond.parsers.nccl_tests import parse
from gpumond.sweep.engines import torch_benchmark
from gpumond.sweep.engines.nccl4py_benchmark import kernel_text, packed
from gpumond.sweep.engines.torch_benchmark import (
    COLLECTIVES,
    ELEMENT_BYTES,
    IN_PLACE,
    OUT_OF_PLACE,
    PERIOD,
    Device,
    Table,
    measure,
    parse_arguments,
    result_of,
    sent_values,
    shape_of,
    values_of,
)


def settings(*arguments, collective="all_reduce"):
    return parse_arguments(
        ["--collective", collective, *arguments], program="test", backends=("nccl", "gloo")
    )


@dataclass
class ScriptedMachine:
    """Ranks that need as long as a test says."""

    ranks: int = 2
    seconds: float = 0.01
    launch: float = 1e-5
    wrong: int = 0
    free_bytes: int = 1 << 40
    kinds: tuple[str, ...] = (OUT_OF_PLACE, IN_PLACE)
    is_reporter: bool = True
    prepared: list[tuple[int, str]] = field(default_factory=list)

    def about(self):
        return ["NCCL version 2.28.9", "library /opt/nccl/libnccl.so.2"]

    def devices(self):
        return [Device(rank, 4711 + rank, rank, "0000:06:00", "Fake GPU") for rank in range(self.ranks)]

    def placements(self):
        return self.kinds

    def largest_bytes(self):
        return self.free_bytes

    def prepare(self, shape, placement):
        self.prepared.append((shape.size_bytes, placement))
        return lambda: None

    def count_wrong(self, shape, placement):
        return self.wrong

    def time(self, operation, iterations):
        return self.seconds

    def launch_seconds(self, operation):
        return self.launch


def run(capsys, machine, *arguments, collective="all_reduce"):
    status = measure(
        settings(*arguments, collective=collective), machine, Table("gpumond-torch", "1/torch-2.13.0")
    )
    return status, capsys.readouterr().out


SMALL = ("-b", "1048576", "-e", "4194304", "-g", "2")


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("kinds", [(OUT_OF_PLACE, IN_PLACE), (OUT_OF_PLACE,), (IN_PLACE,)])
def test_the_parser_of_nccl_tests_reads_the_table(capsys, collective, kinds):
    status, text = run(capsys, ScriptedMachine(ranks=3, kinds=kinds), *SMALL, collective=collective)
    parsed = parse(text)
    assert (status, parsed.outcome, parsed.rejected) == (0, TextOutcome.OK, ())
    assert (parsed.tool, parsed.tool_version, parsed.library_version) == (
        "gpumond-torch",
        "1/torch-2.13.0",
        "2.28.9",
    )
    assert (parsed.collective, parsed.ngpus, parsed.nranks) == (collective, 3, 3)
    assert len(parsed.rows) == 3
    for row in parsed.rows:
        points = points_of_row(row, Collective(collective))
        assert {point.placement for point in points} == {Placement(kind.replace("-", "_")) for kind in kinds}
        for point in points:
            assert point.time_seconds == 0.01
            assert point.wrong_elements == 0


def test_busbw_is_nccl_tests_own():
    for name, traits in COLLECTIVES.items():
        for ranks in (2, 3, 8):
            assert traits.busbw_factor(ranks) == busbw_factor(Collective(name), ranks)


def test_a_size_that_costs_less_than_ten_launches_is_left_out_and_said(capsys):
    _, text = run(capsys, ScriptedMachine(seconds=9e-5, launch=1e-5), *SMALL)
    assert parse(text).rows == ()
    assert "# size 1048576: left out, an iteration takes 90.0 us and its launch 10.0 us" in text
    _, text = run(capsys, ScriptedMachine(seconds=1.01e-4, launch=1e-5), *SMALL)
    assert len(parse(text).rows) == 3


def test_wrong_data_are_told_however_fast_they_came(capsys):
    status, text = run(capsys, ScriptedMachine(seconds=1e-6, wrong=5), *SMALL)
    parsed = parse(text)
    assert (status, parsed.outcome, parsed.out_of_bounds) == (7, TextOutcome.WRONG_RESULTS, 6)
    assert parsed.rows[0].out_of_place.wrong == 5


def test_what_is_not_checked_is_not_said_to_be_right(capsys):
    for arguments in (("-c", "0"), ("-o", "avg")):
        _, text = run(capsys, ScriptedMachine(), *SMALL, *arguments)
        assert parse(text).rows[0].out_of_place.wrong is None


def test_sizes_end_where_the_memory_does(capsys):
    _, text = run(capsys, ScriptedMachine(free_bytes=3 << 20), *SMALL)
    parsed = parse(text)
    assert [row.bytes for row in parsed.rows] == [1 << 20, 2 << 20]
    assert [note.kind for note in parsed.notes] == ["sizes_reduced"]


def test_a_failure_is_one_line_that_the_parser_knows(capsys):
    torch_benchmark.say_failure("gpumond-torch", "rank 1: RuntimeError: NCCL error\nin: ...")
    parsed = parse(capsys.readouterr().out)
    assert (parsed.outcome, parsed.error) == (
        TextOutcome.FAILED,
        "rank 1: RuntimeError: NCCL error in: ...",
    )


@given(
    st.sampled_from(sorted(COLLECTIVES)),
    st.sampled_from(sorted(ELEMENT_BYTES)),
    st.integers(1, 16),
    st.integers(1, 1 << 32),
)
def test_a_result_has_as_many_elements_as_its_buffer(collective, datatype, ranks, size):
    shape = shape_of(settings("-d", datatype, collective=collective), ranks, size)
    assert shape.size_bytes <= size
    for rank in range(ranks):
        pieces = result_of(shape, rank)
        assert sum(piece.count for piece in pieces) == shape.receive_count(rank)
        for piece in pieces:
            sources = range(ranks) if piece.source is None else [piece.source]
            assert all(piece.offset + piece.count <= shape.send_count(source) for source in sources)


@pytest.mark.parametrize("ranks", [2, 16, 64])
@pytest.mark.parametrize("datatype", ["int8", "half", "bfloat16"])  # the narrowest
@pytest.mark.parametrize("redop", ["sum", "prod", "min", "max"])
def test_every_value_is_exact_in_every_type(ranks, datatype, redop):
    chosen = settings("-d", datatype, "-o", redop)
    for source in (None, 0, ranks - 1):
        values = values_of(chosen, source, ranks)
        assert len(values) == PERIOD
        if datatype == "bfloat16":
            assert all(
                value == 0 or value.bit_length() - (value & -value).bit_length() < 8 for value in set(values)
            )
        else:
            assert len(packed(values, datatype)) == PERIOD * ELEMENT_BYTES[datatype]


def test_ranks_send_different_data_that_change_from_place_to_place():
    chosen = settings()
    first, second = (sent_values(chosen, rank, 8) for rank in (0, 1))
    assert first != second
    assert all(first[:64] != first[offset : offset + 64] for offset in range(1, 512))


def test_in_a_sanity_check_every_rank_sends_its_number():
    chosen = settings("--sanity")
    assert set(sent_values(chosen, 5, 8)) == {5}
    assert set(values_of(chosen, None, 8)) == {28}


@pytest.mark.parametrize(
    "arguments",
    [
        ("-b", "8", "-e", "4"),
        ("-n", "0"),
        ("-d", "fp8_e4m3"),
        ("-o", "mulsum"),
        ("--sanity", "-o", "max"),
        ("-G", "1"),
    ],
)
def test_a_command_line_that_cannot_be_obeyed_ends_at_once(capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        settings(*arguments)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize(("width", "word"), [(1, "u8"), (2, "u16"), (4, "u32"), (8, "u64")])
def test_the_kernel_loads_elements_of_the_right_width(width, word):
    text = kernel_text(width).decode()
    assert f"ld.global.{word} " in text
    assert f"mul.lo.u64 %rd9, %rd5, {width};" in text
    assert text.endswith("}\n\0")


def test_bfloat16_is_the_upper_half_of_a_float():
    assert packed([1, 2, 127], "bfloat16") == bytes.fromhex("803f0040fe42")
