"""Fixtures that every test may use. Fakes are modules in tests/fakes, imported by name (`from benchmark_stand_in import Script`)."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from gpumond.simulate.scenario import load_scenario
from gpumond.simulate.snapshot import render_snapshot

sys.path.insert(0, str(Path(__file__).parent / "fakes"))

from benchmark_stand_in import install_stand_ins
from fake_amdsmi import FakeAmdSmi
from fake_clock import FakeClock
from fake_nvml import FakeNvml

# How long an example takes says more about what else the machine does than about our code.
settings.register_profile("gpumond", deadline=None)
settings.load_profile("gpumond")


@pytest.fixture
def benchmark_stand_in():
    """`benchmark_stand_in(directory, {"all_reduce_perf": Script(...)})` -> directory, with such binaries in it."""
    return install_stand_ins


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory):
    """`fake_nvml.environment(scenario)`: what a child's environment needs to see that host's driver library."""
    return FakeNvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def fake_amdsmi(tmp_path_factory):
    """The same for AMD: `fake_amdsmi.environment(scenario)`, and `fake_amdsmi.rocm(absent=...)` for one too old."""
    return FakeAmdSmi(tmp_path_factory.mktemp("amdsmi"))


def _snapshot_of(name):
    scenario = load_scenario(name)
    return render_snapshot(scenario, taken_at=datetime(2026, 11, 29, 2, 0, tzinfo=UTC))


@pytest.fixture(scope="session")
def two_gpus():
    """The snapshot of captures/h200x2: two H200s in a VM."""
    return _snapshot_of("h200-2-vm")


@pytest.fixture(scope="session")
def eight_gpus():
    """The snapshot of a simulated HGX H200."""
    return _snapshot_of("hgx-h200-8")


@pytest.fixture
def clock():
    """A clock that a test moves."""
    return FakeClock(datetime(2026, 11, 29, 12, 0, tzinfo=UTC))


@pytest.fixture
def two_h200_driver(fake_nvml):
    """The environment in which the driver library is that of the captured host."""
    return fake_nvml.host(load_scenario("h200-2-vm")).environment


@pytest.fixture(autouse=True)
def _log_of_its_own():
    """A command that a test calls sends the log to that test's standard error, which is gone afterwards."""
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers.clear()
