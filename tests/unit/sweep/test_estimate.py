"""The seconds that --dry-run prints are within a factor of two of the made-up hosts' own, before anything was measured."""

from datetime import UTC, datetime
from random import Random

import pytest

from gpumond.model.benchmark import Collective, Placement
from gpumond.model.run import Engine, GpuSet
from gpumond.model.status import LatestPoint
from gpumond.simulate.benchmark import SECONDS_PER_ROW, START_UP_SECONDS
from gpumond.simulate.busbw import BenchmarkModel
from gpumond.simulate.scenario import load_scenario
from gpumond.simulate.snapshot import render_snapshot
from gpumond.sweep.estimate import START_SECONDS, estimate_seconds
from gpumond.sweep.plan import Parameters, Step, sizes_of

NOW = datetime(2026, 11, 29, tzinfo=UTC)
COLLECTIVES = [
    Collective.ALL_REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.ALLTOALL,
    Collective.SENDRECV,
]
SIZES = [(64 << 20, 2 << 30), (8, 2 << 30)]


def step_of(scenario, collective, sizes):
    parameters = Parameters(*sizes, 2, "float", "sum", warmup_iterations=5, iterations=20, check=True)
    return Step("nightly", GpuSet("all", tuple(gpu.uuid for gpu in scenario.gpus)), collective, parameters)


def truth(scenario, step):
    """What the made-up benchmark sleeps."""
    model = BenchmarkModel(scenario, scenario.gpus, step.collective)
    random = Random(1)
    operations = 2 * (step.parameters.warmup_iterations + step.parameters.iterations)
    seconds = START_UP_SECONDS
    for size in sizes_of(step.parameters):
        seconds += SECONDS_PER_ROW + operations * model.run(size, random).time_us / 1e6
    return seconds


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("name", ["hgx-h200-8", "h200-2-vm", "l40s-8-pcie"])
def test_within_a_factor_of_two(name, collective, sizes):
    scenario = load_scenario(name)
    step = step_of(scenario, collective, sizes)
    snapshot = render_snapshot(scenario, taken_at=NOW)
    assert 0.5 < estimate_seconds(step, snapshot, ()) / truth(scenario, step) < 2


def test_what_was_measured_is_believed():
    scenario = load_scenario("hgx-h200-8")
    step = step_of(scenario, Collective.ALL_REDUCE, (2 << 30, 2 << 30))
    snapshot = render_snapshot(scenario, taken_at=NOW)
    measured = LatestPoint(
        "quick", Engine.NCCL_TESTS, "all", Collective.ALL_REDUCE, "float", 2 << 30, Placement.OUT_OF_PLACE, NOW,
        time_seconds=1.0, algbw_bytes_per_second=1.0, busbw_bytes_per_second=1.0, wrong_elements=0,
    )  # fmt: skip
    assert estimate_seconds(step, snapshot, [measured]) == pytest.approx(START_SECONDS + 0.08 + 52, abs=0.1)
