"""Durations, sizes, addresses, windows and names: one table of texts each, and the round trips as properties."""

from __future__ import annotations

from datetime import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.config.durations import format_duration, parse_duration
from gpumond.config.values import (
    LARGEST_BYTES,
    Between,
    Day,
    ListenAddress,
    TimeWindow,
    check_absolute_path,
    check_gpu_uuid,
    check_name,
    format_size,
    parse_listen_address,
    parse_size,
    parse_window,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60s", 60.0),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("500ms", 0.5),
        ("1h30m", 5400.0),
        ("1d2h3m4s5ms", 93784.005),
        ("0s", 0.0),
        ("1m30s", 90.0),
        ("90m", 5400.0),
    ],
)
def test_duration(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "60",
        "s",
        "1.5h",
        "-5s",
        "+5s",
        "5 s",
        "5S",
        "30s1m",
        "5w",
        "\u0661s",
        "1e3s",
        "60s\n",
        "9999999999s",
        "1h 30m",
        "inf",
    ],
)
def test_no_duration(text):
    with pytest.raises(ValueError, match=r"^must be a duration with its unit"):
        parse_duration(text)


def test_a_duration_has_an_end():
    with pytest.raises(ValueError, match="longer than a century"):
        parse_duration("40000d")


@given(st.integers(min_value=0, max_value=10**12))
def test_a_printed_duration_reads_as_the_same(milliseconds):
    seconds = milliseconds / 1000
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8", 8),
        ("8B", 8),
        ("0", 0),
        ("1K", 1024),
        ("1k", 1024),
        ("64MiB", 64 << 20),
        ("64 MiB", 64 << 20),
        ("2GiB", 2 << 30),
        ("1G", 1 << 30),
        ("1TiB", 1 << 40),
    ],
)
def test_size(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a whole number of bytes"),
        ("1.5GiB", "must be a whole number of bytes"),
        ("-1", "must be a whole number of bytes"),
        ("GiB", "must be a whole number of bytes"),
        ("8\n", "must be a whole number of bytes"),
        ("12345678901234567", "must be a whole number of bytes"),
        ("2GB", "ambiguous unit: write GiB"),
        ("2gb", "unknown unit"),
        ("8 parsec", "unknown unit"),
        ("8Ki", "unknown unit"),
        ("2048TiB", "is larger than 1024TiB"),
    ],
)
def test_no_size(text, message):
    with pytest.raises(ValueError, match=message):
        parse_size(text)


@given(st.integers(min_value=0, max_value=LARGEST_BYTES))
def test_a_printed_size_reads_as_the_same(size):
    assert parse_size(format_size(size)) == size


@given(st.integers(min_value=0, max_value=1023), st.sampled_from("KMG"))
def test_sizes_mean_what_nccl_tests_prints(number, unit):
    assert parse_size(f"{number}{unit}") == parse_size(f"{number}{unit}iB")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":10061", "", 10061),
        ("127.0.0.1:10061", "127.0.0.1", 10061),
        ("localhost:0", "localhost", 0),
        ("gpu-07.example:80", "gpu-07.example", 80),
        ("[::1]:10061", "::1", 10061),
        ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
    ],
)
def test_listen_address(text, host, port):
    address = parse_listen_address(text)
    assert address == ListenAddress(host, port)
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["", "10061", "::1:10061", "[::1]", "[]:1", "a b:1", "host:", "host:port", ":99999999", ":10061\n"],
)
def test_no_listen_address(text):
    with pytest.raises(ValueError, match="must be host:port"):
        parse_listen_address(text)


def test_ports_end():
    assert parse_listen_address(":65535").port == 65535
    with pytest.raises(ValueError, match="port above 65535"):
        parse_listen_address(":65536")


@pytest.mark.parametrize(
    ("text", "start", "end", "hours", "printed"),
    [
        ("02:00-05:00", time(2), time(5), 3, "02:00-05:00"),
        ("2:00 - 5:00", time(2), time(5), 3, "02:00-05:00"),
        ("22:00-04:00", time(22), time(4), 6, "22:00-04:00"),
        ("22:00-24:00", time(22), time(0), 2, "22:00-24:00"),
        ("22:00-00:00", time(22), time(0), 2, "22:00-24:00"),
        ("00:00-24:00", time(0), time(0), 24, "00:00-24:00"),
    ],
)
def test_window(text, start, end, hours, printed):
    window = parse_window(text)
    assert window == TimeWindow(start, end)
    assert window.length_seconds == hours * 3600
    assert str(window) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be two times of day"),
        ("02:00", "must be two times of day"),
        ("02:00-05:00 Europe/Berlin", "must be two times of day"),
        ("02:00-05:00\n", "must be two times of day"),
        ("02:00-02:00", "starts and ends at the same time"),
        ("24:00-24:00", "starts and ends at the same time"),
        ("24:00-05:00", "does not exist"),
        ("02:00-24:01", "does not exist"),
        ("02:60-05:00", "does not exist"),
    ],
)
def test_no_window(text, message):
    with pytest.raises(ValueError, match=message):
        parse_window(text)


_TIMES = st.builds(time, st.integers(0, 23), st.integers(0, 59))


@given(_TIMES, _TIMES)
def test_a_printed_window_reads_as_the_same(start, end):
    window = TimeWindow(start, end)
    if start != end or start == time(0):
        assert parse_window(str(window)) == window
    assert 0 < window.length_seconds <= 86_400


def test_days_count_as_the_standard_library_does():
    assert [day.weekday for day in Day] == list(range(7))


@pytest.mark.parametrize("name", ["a", "nightly", "numa0", "a-b_c", "0", "x" * 64])
def test_name(name):
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "Nightly", "a b", "ä", "a/b", "a\n", "x" * 65, 'a"b'])
def test_no_name(name):
    with pytest.raises(ValueError, match="must be 1 to 64 of the characters"):
        check_name(name)


@pytest.mark.parametrize(
    "uuid",
    [
        "GPU-00000000-0000-4000-8000-00000000a000",
        "b7ff74a1-0000-1000-80c1-a2b3c4d5e6f7",
        "GPU-73b2c1f8d6f0a9e4",
    ],
)
def test_gpu_uuid(uuid):
    assert check_gpu_uuid(uuid) == uuid


@pytest.mark.parametrize(
    "uuid",
    [
        "",
        "0",
        "GPU-0",
        0,
        "0000:1b:00.0",
        "GPU-00000000-0000-4000-8000-00000000a000,1",
        "MIG-1234567890abcdef",
    ],
)
def test_no_gpu_uuid(uuid):
    with pytest.raises(ValueError, match="must be the UUID"):
        check_gpu_uuid(uuid)


def test_bounds_belong_to_the_range():
    limits = Between(1, 600, format_duration)
    assert [limits(value) for value in (1, 600, None)] == [1, 600, None]
    with pytest.raises(ValueError, match=r"^must be at least 1s$"):
        limits(0.999)
    with pytest.raises(ValueError, match=r"^must be at most 10m$"):
        limits(600.001)


def test_paths_are_absolute():
    assert check_absolute_path(Path("/srv/x")) == Path("/srv/x")
    for text in ("srv/x", "./x", "~/x", ""):
        with pytest.raises(ValueError, match="absolute"):
            check_absolute_path(Path(text))
    with pytest.raises(ValueError, match="NUL"):
        check_absolute_path(Path("/srv/\0"))
