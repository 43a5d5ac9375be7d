"""A sweep on two idle GPUs with a stand-in benchmark, a real store and real processes."""

from __future__ import annotations

import pytest
from benchmark_stand_in import Script
from sweep_host import SCENARIO, Host

from gpumond.clock import SystemClock
from gpumond.simulate.scenario import load_scenario
from gpumond.store.sqlite import Store


@pytest.fixture
def host(tmp_path, two_gpus, fake_nvml):
    with Store.open(tmp_path / "state", clock=SystemClock()) as store:
        host = Host(tmp_path, store, two_gpus, fake_nvml.host(load_scenario(SCENARIO)))
        host.install(all_reduce=Script(), all_gather=Script())
        yield host
