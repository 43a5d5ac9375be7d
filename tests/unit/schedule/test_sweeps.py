from __future__ import annotations

import socket
import time as clocks
from datetime import UTC, datetime, time

from gpumond.config.schema import SweepConfig
from gpumond.config.zone import local_zone
from gpumond.schedule.sweeps import read_boot_at, read_machine_id, window_of
from gpumond.schedule.windows import EVERY_DAY, Window


def test_the_window_of_a_configured_sweep():
    sweep = SweepConfig(name="weekly", window="22:00-04:00", timezone="Europe/Berlin", days=["sat", "sun"])
    assert window_of(sweep) == Window(time(22), time(4), "Europe/Berlin", frozenset({5, 6}))


def test_the_default_is_every_night_in_the_zone_of_the_host():
    assert window_of(SweepConfig(name="nightly")) == Window(time(2), time(5), local_zone(), EVERY_DAY)


def test_the_boot_is_the_uptime_ago():
    since_boot = clocks.clock_gettime(clocks.CLOCK_BOOTTIME)
    now = datetime.now(UTC)
    assert abs((now - read_boot_at(now)).total_seconds() - since_boot) < 5


def test_machine_id(tmp_path):
    file = tmp_path / "machine-id"
    assert read_machine_id(file) == socket.gethostname()
    for empty in (b"", b"\n", b"\xff\xfe"):
        file.write_bytes(empty)
        assert read_machine_id(file) == socket.gethostname()
    file.write_text("4c4c4544004d3510804bb4c04f4e3732\n")
    assert read_machine_id(file) == "4c4c4544004d3510804bb4c04f4e3732"
