"""What is exported of the model, and above all what is not: a number without a source."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
import status as fakes

from gpumond.exporter.expected import busbw_expected, topology_class_info
from gpumond.model.benchmark import Collective
from gpumond.model.reading import Unreadable, UnreadableReason, Value
from gpumond.model.run import GpuSet
from gpumond.simulate.scenario import load_scenario, scenario_names
from gpumond.simulate.snapshot import render_snapshot

GIB = 1 << 30
RING_OF_H200 = 18 * 20.6e9 * 0.97
LOST = Unreadable(UnreadableReason.GPU_LOST)

WITH_A_SOURCE = {"h200-2-vm", "hgx-a100-8", "hgx-b200-8", "hgx-h100-8", "hgx-h200-8", "mi300x-8"}


def status_of(snapshot, *points):
    members = tuple(gpu.uuid for gpu in snapshot.gpus)
    return replace(
        fakes.two_gpu_status(),
        snapshot=snapshot,
        gpu_sets=(GpuSet("all", members),),
        points=points or tuple(fakes.point(collective=it, size_bytes=4 * GIB) for it in Collective),
    )


@pytest.mark.parametrize("name", scenario_names())
def test_no_number_without_a_source(name):
    snapshot = render_snapshot(load_scenario(name), taken_at=datetime(2026, 11, 29, tzinfo=UTC))
    collectives = {labels[3] for labels, _ in busbw_expected(status_of(snapshot))}
    expected = {"all_reduce", "all_gather", "reduce_scatter"} if name in WITH_A_SOURCE else set()
    assert collectives == expected


def test_the_number_stands_beside_the_result_that_it_is_for():
    point = fakes.point(size_bytes=2 * GIB)
    ((labels, value),) = busbw_expected(status_of(fakes.snapshot(), point))
    assert labels == ("nightly", "nccl-tests", "all", "all_reduce", "float", str(2 * GIB), "model")
    assert value == pytest.approx(RING_OF_H200)


@pytest.mark.parametrize(
    "point",
    [
        fakes.point(size_bytes=GIB - 1),
        fakes.point(collective=Collective.ALLTOALL),
        fakes.point(gpu_set="a set of last week"),
    ],
)
def test_no_number_for_other_results(point):
    assert list(busbw_expected(status_of(fakes.snapshot(), point))) == []


def test_no_number_while_a_member_is_silent():
    whole = status_of(fakes.snapshot())
    without = replace(whole.snapshot, gpus=whole.snapshot.gpus[1:])
    assert list(busbw_expected(replace(whole, snapshot=without))) == []


@pytest.mark.parametrize("snapshot", [None, replace(fakes.snapshot(), driver=LOST)])
def test_nothing_of_a_driver_that_does_not_answer(snapshot):
    status = replace(status_of(fakes.snapshot()), snapshot=snapshot)
    assert list(busbw_expected(status)) == []
    assert list(topology_class_info(status)) == []


def test_the_class():
    assert list(topology_class_info(fakes.two_gpu_status())) == [(("nvswitch",), 1)]


def test_a_link_that_is_down_lowers_what_a_ring_can_reach():
    snapshot = fakes.snapshot()
    links = snapshot.gpus[3].nvlinks.value
    hurt = replace(snapshot.gpus[3], nvlinks=Value((replace(links[0], is_up=Value(False)), *links[1:])))
    gpus = (*snapshot.gpus[:3], hurt, *snapshot.gpus[4:])
    values = [value for _, value in busbw_expected(status_of(replace(snapshot, gpus=gpus)))]
    assert values == [pytest.approx(RING_OF_H200 * 17 / 18)] * 3
