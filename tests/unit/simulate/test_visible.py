"""Which simulated GPUs a CUDA or ROCm process sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpumond.process.environment import benchmark_environment
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.hardware import struck
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.simulate.visible import VARIABLES, find_failure, visible_gpus

UUIDS = [gpu.uuid for gpu in load_scenario("hgx-h200-8").gpus]


def visible(names, *faults):
    world = struck(with_faults(load_scenario("hgx-h200-8"), [parse_fault(fault) for fault in faults]))
    return [UUIDS.index(gpu.uuid) for gpu in visible_gpus(world, names)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (None, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("", []),
        ("2,0", [2, 0]),
        (f"{UUIDS[5]},{UUIDS[1]}", [5, 1]),
        (UUIDS[3][: len("GPU-00000000")], []),  # several GPUs begin so
        ("0,9,1", [0]),
        ("0,1,0", [0, 1]),
        ("-1", []),
        ("0, 1", [0, 1]),
    ],
)
def test_names(names, expected):
    assert visible(names) == expected


def test_a_lost_gpu_ends_the_list():
    assert visible(",".join(UUIDS), "gpu_lost,gpu=2") == [0, 1]
    assert visible(None, "gpu_lost,gpu=2", "no_permission,gpu=7") == [0, 1, 3, 4, 5, 6]


@pytest.mark.parametrize("fault", ["driver_mismatch", "driver_not_loaded"])
def test_without_a_driver_there_is_none(fault):
    assert visible(None, fault) == []


def test_rocr_chooses_by_the_names_that_our_environment_writes():
    world = load_scenario("mi300x-8")
    chosen = tuple(world.gpus[number] for number in (6, 2))
    names = benchmark_environment(
        {},
        gpu_uuids=[gpu.uuid for gpu in chosen],
        extra={},
        home=Path("/home"),
        run_directory=Path("/run"),
        library_path=(),
        vendor=world.vendor,
    )[VARIABLES[world.vendor]]
    assert visible_gpus(world, names) == chosen
    assert visible_gpus(world, None) == world.gpus
    assert visible_gpus(with_faults(world, [parse_fault("driver_not_loaded")]), None) == ()


def test_without_the_fabric_nothing_starts():
    scenario = with_faults(load_scenario("hgx-h200-8"), [parse_fault("fabric_in_progress")])
    assert find_failure(struck(scenario).gpus) == "system not yet initialized"
    assert find_failure(scenario.gpus) is None
    assert find_failure(load_scenario("l40s-8-pcie").gpus) is None
