"""Which sizes are exported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.exporter.chosen_sizes import SIZES_MAX, chosen_sizes

MIB = 1 << 20
ALL = [1 << exponent for exponent in range(3, 34)]  # 8 B to 8 GiB


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [
        (ALL, [8, MIB, 64 * MIB, 256 * MIB, 1024 * MIB, 8192 * MIB]),
        (ALL[23:29], ALL[23:29]),  # the default sweep
        ([], []),
        ([0, *ALL], [0, MIB, 64 * MIB, 256 * MIB, 1024 * MIB, 8192 * MIB]),
        ([number * 100 * MIB for number in range(1, 9)], [100 * MIB, 300 * MIB, 800 * MIB]),
        (ALL[:10], [8, 4096]),
    ],
    ids=["all", "default", "none", "zero", "by 100 MiB", "small ones"],
)
def test_examples(sizes, chosen):
    assert sorted(chosen_sizes(sizes)) == chosen


@given(st.sets(st.integers(0, 1 << 40), min_size=1, max_size=60))
def test_few_and_always_the_ends(sizes):
    chosen = chosen_sizes(sizes)
    assert chosen <= sizes
    assert len(chosen) <= SIZES_MAX
    assert {min(sizes), max(sizes)} <= chosen
    assert chosen == chosen_sizes(sorted(sizes, reverse=True))
