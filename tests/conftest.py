"""Fixtures that every test may use. Fakes are modules in tests/fakes, imported by name (`from benchmark_stand_in import Script`)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "fakes"))

from benchmark_stand_in import install_stand_ins


@pytest.fixture
def benchmark_stand_in():
    """`benchmark_stand_in(directory, {"all_reduce_perf": Script(...)})` -> directory, with such binaries in it."""
    return install_stand_ins
