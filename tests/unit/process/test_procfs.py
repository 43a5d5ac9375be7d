from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.process.child import marker_of, own_start_ticks
from gpumond.process.procfs import (
    ProcessStat,
    ThreadState,
    parse_stat,
    read_stat,
    read_uptime_seconds,
    summarise_threads,
)

LINE = (
    b"1444 (all_reduce_perf) S 1 1444 1440 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 9 0 137193 "
    b"1000 200 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)


def test_a_stat_line():
    assert parse_stat(LINE) == ProcessStat(1444, "all_reduce_perf", "S", 1, 1440, 137193)


@given(st.binary(max_size=15).filter(lambda name: b"\0" not in name))
def test_any_name_that_a_process_may_give_itself(name):
    stat = parse_stat(LINE.replace(b"all_reduce_perf", name))
    assert (stat.state, stat.session, stat.start_ticks) == ("S", 1440, 137193)
    assert stat.name == name.decode(errors="replace")


@pytest.mark.parametrize("text", [None, b"", b"\n", b"long", b"\xff"])
def test_an_uptime_that_the_kernel_does_not_say(tmp_path, text):
    if text is not None:
        (tmp_path / "uptime").write_bytes(text)
    assert read_uptime_seconds(tmp_path) is None


def test_an_uptime(tmp_path):
    (tmp_path / "uptime").write_text("1152.65 2000.00\n")
    assert read_uptime_seconds(tmp_path) == 1152.65


@pytest.mark.parametrize("text", [b"", b"1444", b"1444 (x", b"1444 (x) S 1 2 3", b") ("])
def test_what_is_no_stat_line(text):
    with pytest.raises(ValueError, match="not a stat line"):
        parse_stat(text)


def test_the_trampoline_reads_the_same_start_time():
    assert own_start_ticks() == read_stat(os.getpid()).start_ticks


def test_a_marker_names_process_and_boot():
    assert marker_of(1444, 137193, "2e079d8a-8841") == "1444.137193.2e079d8a-8841"


def test_threads_are_summed_up_most_frequent_first():
    waits = [("S", "futex_do_wait")] * 3 + [("D", "nv_wait")] + [("R", "")] * 2
    threads = [ThreadState(1, number, "nccl", state, place) for number, (state, place) in enumerate(waits)]
    assert summarise_threads(threads) == "3 x S in futex_do_wait, 2 x R, 1 x D in nv_wait"
    assert summarise_threads([]) == ""
