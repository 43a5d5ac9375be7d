from __future__ import annotations

from datetime import timedelta

import pytest
import status as fakes

from gpumond.exporter.page import units


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (8, "8 B"),
        (1000, "1000 B"),
        (1024, "1 KiB"),
        (1536, "1536 B"),
        (2 << 30, "2 GiB"),
        (3 << 50, "3072 TiB"),
    ],
)
def test_binary_size(size, text):
    assert units.binary_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 µs"),
        (6.36e-6, "6.4 µs"),
        (1e-3, "1.00 ms"),
        (0.00635126, "6.35 ms"),
        (1.0, "1.0 s"),
        (86400.0, "86400.0 s"),
    ],
)
def test_duration(seconds, text):
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s ago"),
        (59.9, "59 s ago"),
        (60, "1 min ago"),
        (3600, "1 h ago"),
        (90_000, "1 d ago"),
        (-7300, "in 2 h"),
        (-0.5, "in 0 s"),
    ],
)
def test_age(seconds, text):
    assert units.age(fakes.NOW - timedelta(seconds=seconds), fakes.NOW) == text


def test_bandwidth_is_in_the_units_of_nccl_tests():
    assert units.gigabytes_per_second(338.12e9) == "338.12"


def test_instant():
    assert units.instant(fakes.NOW) == "2026-11-29 02:30:00 UTC"
