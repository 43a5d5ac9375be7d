"""The simulated benchmark's numbers: near the measured ones, and lower where something is wrong."""

from __future__ import annotations

from random import Random
from statistics import fmean, pstdev

import pytest

from gpumond.model.benchmark import Collective, busbw_factor
from gpumond.simulate.busbw import BenchmarkModel
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.hardware import struck
from gpumond.simulate.scenario import load_scenario, scenario_names, with_faults

MIB, GIB = 1 << 20, 1 << 30

# busbw in GB/s, out of place, from the captured sweeps of two H200s.
MEASURED = {
    (Collective.ALL_REDUCE, 1 * MIB): 41.74,
    (Collective.ALL_REDUCE, 16 * MIB): 212.03,
    (Collective.ALL_REDUCE, 64 * MIB): 265.46,
    (Collective.ALL_REDUCE, 256 * MIB): 297.79,
    (Collective.ALL_REDUCE, 1 * GIB): 329.26,
    (Collective.ALL_REDUCE, 2 * GIB): 338.12,
    (Collective.ALL_GATHER, 1 * GIB): 270.27,
    (Collective.REDUCE_SCATTER, 1 * GIB): 273.82,
}
# busbw in GB/s of eight H200s, published (NVLS).
PUBLISHED = {64 * MIB: 346.51, 256 * MIB: 436.15, 1 * GIB: 463.58, 8 * GIB: 477.45}


def model_of(name, collective=Collective.ALL_REDUCE, *, gpus=None, fault_lines=()):
    scenario = with_faults(load_scenario(name), [parse_fault(line) for line in fault_lines])
    world = struck(scenario)
    return BenchmarkModel(world, world.gpus[:gpus], collective)


def mean_busbw(model, size, runs=40):
    random = Random(7)
    return fmean(model.run(size, random).busbw_gbps for _ in range(runs))


@pytest.mark.parametrize(("collective", "size"), MEASURED)
def test_two_h200_are_within_a_tenth_of_the_capture(collective, size):
    measured = MEASURED[collective, size]
    assert mean_busbw(model_of("h200-2-vm", collective), size) == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("size", PUBLISHED)
def test_eight_h200_are_within_a_tenth_of_published_results(size):
    assert mean_busbw(model_of("hgx-h200-8"), size) == pytest.approx(PUBLISHED[size], rel=0.1)


def test_nvls_helps_all_reduce_from_five_gpus_on():
    few, many = (mean_busbw(model_of("hgx-h200-8", gpus=count), 8 * GIB) for count in (4, 5))
    assert (few, many) == (pytest.approx(363.3, rel=0.03), pytest.approx(480, rel=0.03))


@pytest.mark.parametrize(
    ("fault", "share"),
    [
        ("link_down,gpu=1,link=4", 17 / 18),
        ("busbw_slow,factor=0.8", 0.8),
        ("busbw_slow,factor=0.8,collective=all_reduce", 0.8),
        ("busbw_slow,factor=0.8,collective=broadcast", 1.0),
        ("gpu_busy,gpu=0,pid=4711", 0.52),
    ],
)
def test_what_is_wrong_costs_bandwidth(fault, share):
    healthy = mean_busbw(model_of("hgx-h200-8"), GIB)
    assert mean_busbw(model_of("hgx-h200-8", fault_lines=[fault]), GIB) / healthy == pytest.approx(
        share, rel=0.01
    )


def test_the_noise_is_that_of_the_scenario():
    model, random = model_of("hgx-h200-8"), Random(7)
    runs = [model.run(GIB, random).busbw_gbps for _ in range(400)]
    assert pstdev(runs) / fmean(runs) == pytest.approx(0.003, rel=0.2)


@pytest.mark.parametrize("name", [name for name in scenario_names() if len(load_scenario(name).gpus) > 1])
@pytest.mark.parametrize("collective", Collective)
def test_every_host_runs_every_collective(name, collective):
    model = model_of(name, collective)
    timed = model.run(256 * MIB, Random(7))
    assert timed.busbw_gbps == pytest.approx(timed.algbw_gbps * busbw_factor(collective, model.ranks))
    assert 0 < timed.busbw_gbps < model.curve.peak_gbps * 1.05


def test_one_rank_has_no_bus():
    timed = model_of("h200-2-vm", gpus=1).run(GIB, Random(7))
    assert timed.busbw_gbps == 0
    assert timed.algbw_gbps > 1000
