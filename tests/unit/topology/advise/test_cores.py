from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.topology.advise.cores import CpuList, cpu_list, share_of


@pytest.mark.parametrize(
    ("text", "cpus", "cores"),
    [
        ("0-31", 32, 32),
        ("0-31,64-95", 64, 32),
        ("0-31,64-79", 48, 48),
        ("5", 1, 1),
        ("0,2,4", 3, 3),
        (" 0-7\n", 8, 8),
    ],
)
def test_lists(text, cpus, cores):
    found = cpu_list(text)
    assert (found.cpus, found.cores) == (cpus, cores)
    assert str(found) == text.strip()


@pytest.mark.parametrize(
    "text", [None, "", "N/A", "0-", "-1", "7-3", "0-31,", "0-62:2", "0-99999", "9999999999", "0-3;rm -rf /", "0 -3", "\u0663"]
)  # fmt: skip
def test_what_is_no_plain_list_is_not_pinned_to(text):
    assert cpu_list(text) is None


def test_the_threads_of_a_core_stay_together():
    whole = cpu_list("0-31,64-95")
    assert [str(share_of(whole, place, 4)) for place in range(4)] == ["0-7,64-71", "8-15,72-79", "16-23,80-87", "24-31,88-95"]  # fmt: skip


def test_too_many_sharers_share_all():
    assert str(share_of(cpu_list("0-3"), 4, 5)) == "0-3"


@given(st.integers(0, 500), st.integers(1, 300), st.integers(1, 64))
def test_shares_are_apart_and_inside(first, length, sharers):
    whole = CpuList(((first, first + length - 1),))
    taken = [share_of(whole, place, sharers).ranges[0] for place in range(sharers)]
    for low, high in taken:
        assert first <= low <= high <= first + length - 1
    if length >= sharers:
        assert all(before[1] < after[0] for before, after in pairwise(taken))
