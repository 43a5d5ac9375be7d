"""What of a plan is measured on hosts of every speed and size, and that a series does not shrink on a bad night."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.model.benchmark import Collective, Placement
from gpumond.model.reading import NOT_SUPPORTED, Value
from gpumond.model.run import Engine, GpuSet
from gpumond.model.status import LatestPoint
from gpumond.simulate.scenario import load_scenario
from gpumond.simulate.snapshot import render_snapshot
from gpumond.sweep.estimate import expected_seconds
from gpumond.sweep.fit import ITERATIONS_MIN, SIZE_SECONDS_MAX, fit
from gpumond.sweep.hang import without_p2p
from gpumond.sweep.plan import Parameters, Step, parameters_hash, sizes_of

NOW = datetime(2026, 11, 29, tzinfo=UTC)
MIB, GIB = 1 << 20, 1 << 30
NIGHTLY = Parameters(64 * MIB, 16 * GIB, 2, "float", "sum", warmup_iterations=5, iterations=20, check=True)


def host(name):
    return render_snapshot(load_scenario(name), taken_at=NOW)


def step_on(snapshot, collective=Collective.ALL_REDUCE, parameters=NIGHTLY, **changes):
    uuids = tuple(gpu.uuid for gpu in snapshot.gpus)
    return Step("nightly", GpuSet("all", uuids), collective, parameters, **changes)


def fitted(name, collective=Collective.ALL_REDUCE, *, parameters=NIGHTLY, latest=(), series=None, **changes):
    snapshot = host(name)
    return fit(
        step_on(snapshot, collective, parameters, **changes), snapshot, latest, series_max_bytes=series
    )


def measured(size, seconds):
    return LatestPoint(
        "quick", Engine.NCCL_TESTS, "all", Collective.ALL_REDUCE, "float", size, Placement.OUT_OF_PLACE, NOW,
        time_seconds=seconds, algbw_bytes_per_second=1.0, busbw_bytes_per_second=1.0, wrong_elements=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "collective", "largest"),
    [
        # 450 GB/s behind NVSwitch move 16 GiB of an all_reduce of eight in 67 ms, 10-20 GB/s of PCIe 512 MiB in 78.
        ("hgx-h200-8", Collective.ALL_REDUCE, 16 * GIB),
        ("l40s-8-pcie", Collective.ALL_REDUCE, 512 * MIB),
        ("l40s-8-pcie", Collective.ALL_GATHER, GIB),
    ],
)
def test_the_largest_size_takes_a_tenth_of_a_second(name, collective, largest):
    step = fitted(name, collective)
    assert step.parameters.max_bytes == largest
    assert sizes_of(step.parameters)[0] == 64 * MIB


def test_a_step_that_is_no_larger_than_the_host_bears_is_left_alone():
    parameters = replace(NIGHTLY, max_bytes=2 * GIB)
    step = fitted("hgx-h200-8", parameters=parameters)
    assert (step.parameters, step.asked) == (parameters, None)


def test_what_was_measured_outweighs_what_the_links_should_give():
    assert fitted("hgx-h200-8", latest=[measured(64 * MIB, 0.01)]).parameters.max_bytes == 512 * MIB


def test_a_host_that_gets_slower_keeps_its_sizes():
    slow = [measured(2 * GIB, 5.0)]
    assert fitted("hgx-h200-8", latest=slow, series=2 * GIB).parameters.max_bytes == 2 * GIB
    assert fitted("hgx-h200-8", latest=slow).parameters.max_bytes < 2 * GIB


def test_a_series_is_named_by_what_was_asked_for():
    snapshot = host("l40s-8-pcie")
    step = step_on(snapshot)
    less = fit(step, snapshot, (), series_max_bytes=None)
    assert less != step
    assert parameters_hash(Engine.NCCL_TESTS, less) == parameters_hash(Engine.NCCL_TESTS, step)
    again = without_p2p(less)
    assert again.parameters.max_bytes == less.parameters.max_bytes
    assert parameters_hash(Engine.NCCL_TESTS, again) != parameters_hash(Engine.NCCL_TESTS, step)


def test_sizes_that_do_not_fit_the_memory_are_left_out():
    snapshot = host("hgx-h200-8")
    small = replace(
        snapshot, gpus=tuple(replace(gpu, memory_total_bytes=Value(24 * GIB)) for gpu in snapshot.gpus)
    )
    assert fit(step_on(small), small, (), series_max_bytes=16 * GIB).parameters.max_bytes == 4 * GIB
    silent = replace(
        snapshot, gpus=tuple(replace(it, memory_total_bytes=NOT_SUPPORTED) for it in snapshot.gpus)
    )
    assert fit(step_on(silent), silent, (), series_max_bytes=None).parameters.max_bytes == 16 * GIB


def test_where_the_smallest_takes_long_it_is_measured_with_fewer_iterations():
    step = fitted("l40s-8-pcie", parameters=replace(NIGHTLY, min_bytes=4 * GIB, iterations=40))
    assert sizes_of(step.parameters) == (4 * GIB,)
    assert step.parameters.iterations == 5
    assert fitted("l40s-8-pcie", parameters=replace(NIGHTLY, iterations=3)).parameters.iterations == 3


@given(
    sizes=st.tuples(st.integers(0, 33), st.integers(0, 10), st.integers(2, 8)),
    iterations=st.integers(1, 200),
    series=st.none() | st.integers(1, 1 << 36),
    limit=st.floats(0.001, 10),
)
def test_never_more_than_was_asked_and_never_nothing(sizes, iterations, series, limit):
    low, span, factor = sizes
    snapshot = host("h200-2-vm")
    asked = Parameters(1 << low, 1 << (low + span), factor, "float", "sum", 5, iterations, check=True)
    step = fit(
        step_on(snapshot, parameters=asked, iteration_seconds_max=limit),
        snapshot,
        (),
        series_max_bytes=series,
    )
    sizes = sizes_of(step.parameters)
    assert sizes == sizes_of(asked)[: len(sizes)] != ()
    assert min(ITERATIONS_MIN, iterations) <= step.parameters.iterations <= iterations
    seconds = expected_seconds(step, snapshot, ())(sizes[-1])
    assert (
        step.parameters.iterations < 2 * ITERATIONS_MIN
        or step.parameters.iterations * seconds <= SIZE_SECONDS_MAX
    )
