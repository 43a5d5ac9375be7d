from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.exporter.labels import LABEL_CHARACTERS_MAX, label_value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NVIDIA H200", "NVIDIA H200"),
        ("", ""),
        ('say "hi" \\ <b>&amp;', 'say "hi" \\ <b>&amp;'),  # escaping is the format's business
        ("two\nlines", "two\nlines"),
        ("nul\x00bell\x07tab\t", "nul\\x00bell\\x07tab\\x09"),
        ("c1\x85", "c1\\x85"),
        ("from sysfs \udcff", "from sysfs \\udcff"),
        ("GPU \u2603 \U0001f600", "GPU \u2603 \U0001f600"),
    ],
)
def test_what_becomes_of_a_name(text, expected):
    assert label_value(text) == expected


def test_long_names_that_differ_at_their_ends_stay_two():
    first, second = label_value("x" * 10_000 + "1"), label_value("x" * 10_000 + "2")
    assert first != second
    assert len(first) == len(second) == LABEL_CHARACTERS_MAX


def test_the_longest_whole_name_is_kept():
    assert label_value("x" * LABEL_CHARACTERS_MAX) == "x" * LABEL_CHARACTERS_MAX


@given(st.text(st.characters(exclude_categories=())))
def test_every_name_can_be_sent_and_is_stable(text):
    clean = label_value(text)
    clean.encode()
    assert len(clean) <= LABEL_CHARACTERS_MAX
    assert not set(clean) & set(map(chr, (*range(10), *range(11, 32), 127)))
    assert label_value(clean) == clean
