"""A configuration for a daemon of its own in a directory of its own."""

from __future__ import annotations

import contextlib

import pytest
from daemon_process import DaemonProcess

BASE = """
[store]
directory = "{directory}/state"
min_free = "0"

[log]
format = "json"
level = "debug"

[web]
listen_address = "127.0.0.1:0"

[snapshot]
interval = "1s"

[benchmark]
lock_file = "{directory}/run/gpu.lock"

[guards]
quiet_by_hand = "0s"
inhibit_file = "{directory}/inhibit"
"""


@pytest.fixture
def write_config(tmp_path):
    """`write_config(extra)` -> path of a configuration file."""

    def write(extra=""):
        path = tmp_path / "config.toml"
        path.write_text(BASE.format(directory=tmp_path) + extra)
        return path

    return write


@pytest.fixture
def daemons():
    """`daemons(config, environment)` -> a DaemonProcess that does not outlive the test."""
    with contextlib.ExitStack() as stack:

        def make(config, environment=None):
            daemon = DaemonProcess(config, environment or {})
            stack.callback(end, daemon)
            return daemon

        yield make


def end(daemon):
    if daemon.process is not None and daemon.process.poll() is None:
        daemon.process.kill()
        daemon.process.wait()


@pytest.fixture
def two_h200(two_h200_driver):
    return two_h200_driver
