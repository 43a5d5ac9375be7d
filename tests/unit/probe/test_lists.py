from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.probe.lists import list_of_mask, members_of_list


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([0], ""),
        ([1], "0"),
        ([0xFFFFFFFF], "0-31"),
        ([0xFFFFFFFF, 0xFFFFFFFF], "0-31,64-95"),
        ([1 << 63, 1], "63-64"),
        ([0b1010101], "0,2,4,6"),
        ([0, 0, 0b110], "129-130"),
    ],
)
def test_a_mask_reads_as_the_kernel_prints_a_list(words, text):
    assert list_of_mask(words) == text


@given(st.sets(st.integers(0, 64 * 8 - 1)))
def test_a_mask_and_its_list_hold_the_same_numbers(numbers):
    words = [sum(1 << bit for bit in range(64) if 64 * word + bit in numbers) for word in range(8)]
    assert members_of_list(list_of_mask(words)) == numbers


@pytest.mark.parametrize(("text", "count"), [("", 0), ("5", 1), ("0-31,64-95\n", 64), ("0,8", 2)])
def test_members_of_a_list(text, count):
    assert len(members_of_list(text)) == count


@pytest.mark.parametrize("text", ["a", "1-", "1-2-3"])
def test_what_is_no_list_is_refused(text):
    with pytest.raises(ValueError, match="invalid literal"):
        members_of_list(text)
