"""A configuration for a daemon of its own in a directory of its own."""

from __future__ import annotations

import contextlib

import pytest
from daemon_process import DaemonProcess, write_daemon_config
from monitoring import Binaries
from shipped import RELEASES


@pytest.fixture
def write_config(tmp_path):
    """`write_config(extra)` -> path of a configuration file."""

    def write(extra=""):
        return write_daemon_config(tmp_path, extra)

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


@pytest.fixture(scope="module", params=RELEASES)
def binaries(request):
    """The programs of each release that is here."""
    directory = RELEASES[request.param]
    if not (directory / "prometheus").exists():
        pytest.skip(f"no Prometheus in {directory}: tests/system/unpack-prometheus fetches one")
    return Binaries(directory)
