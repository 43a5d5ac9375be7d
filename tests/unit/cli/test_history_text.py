from __future__ import annotations

import pytest
from history_values import make_point
from hypothesis import given
from hypothesis import strategies as st

from gpumond.cli.history_text import human_size, largest_point, printable, wrong_elements
from gpumond.model.benchmark import Placement

UNITS = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0B"),
        (8, "8B"),
        (1000, "1000B"),
        (1024, "1KiB"),
        (3 << 20, "3MiB"),
        (2 << 30, "2GiB"),
        (1 << 60, "1048576TiB"),
    ],
)
def test_sizes_people_know(size_bytes, text):
    assert human_size(size_bytes) == text


@given(st.integers(0, 2**63))
def test_a_size_is_never_rounded(size_bytes):
    text = human_size(size_bytes)
    number = text.rstrip("BKMGTi")
    assert int(number) * 1024 ** UNITS[text[len(number) :]] == size_bytes


@given(st.text(st.characters(exclude_categories=[])))
def test_nothing_printable_moves_a_cursor(text):
    assert printable(text).isprintable()


def test_printable_text_stays():
    assert printable("all_reduce größer\t") == "all_reduce größer\\t"


def test_the_largest_size_out_of_place_stands_for_a_run():
    small = make_point(8)
    in_place = make_point(16, placement=Placement.IN_PLACE)
    out_of_place = make_point(16)
    assert largest_point([small, in_place, out_of_place]) == out_of_place
    assert largest_point([out_of_place, in_place]) == out_of_place
    assert largest_point([small, in_place]) == in_place
    assert largest_point([]) is None


def test_unchecked_points_are_not_zero_wrong_elements():
    assert wrong_elements([make_point(8, wrong_elements=None)]) is None
    assert wrong_elements([make_point(8, wrong_elements=None), make_point(8, wrong_elements=2)]) == 2
    assert wrong_elements([]) is None
