"""Steps, sizes and limits of a sweep, without a process."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.errors import UsageError
from gpumond.model.benchmark import Collective
from gpumond.model.reading import Value
from gpumond.model.run import Engine, GpuSet
from gpumond.sweep.plan import (
    GpuSetRule,
    Parameters,
    Step,
    SweepSpec,
    limits_of,
    nccl_tests_arguments,
    parameters_hash,
    plan_sweep,
    resolve_gpu_set,
    resolve_gpu_sets,
    sizes_of,
)

PARAMETERS = Parameters(
    min_bytes=64 << 20,
    max_bytes=2 << 30,
    step_factor=2,
    datatype="float",
    redop="sum",
    warmup_iterations=5,
    iterations=20,
    check=True,
)


def step(collective=Collective.ALL_REDUCE, members=("GPU-a", "GPU-b"), **parameters):
    return Step("nightly", GpuSet("all", members), collective, replace(PARAMETERS, **parameters))


def test_every_set_is_measured_with_every_collective_in_order(two_gpus):
    spec = SweepSpec("nightly", ("all", "first"), (Collective.ALL_REDUCE, Collective.ALL_GATHER), PARAMETERS)
    first = two_gpus.gpus[0].uuid
    rules = {"all": GpuSetRule("all"), "first": GpuSetRule("first", uuids=(first,))}
    steps = plan_sweep(spec, rules, two_gpus)
    assert [(planned.gpu_set.name, planned.collective.value) for planned in steps] == [
        ("all", "all_reduce"),
        ("all", "all_gather"),
        ("first", "all_reduce"),
        ("first", "all_gather"),
    ]
    assert steps[2].gpu_set.uuids == (first,)


def test_members_are_ordered_by_pci_bus_id_whatever_the_driver_or_the_file_says(two_gpus):
    a, b = (gpu.uuid for gpu in two_gpus.gpus)
    shuffled = replace(two_gpus, gpus=two_gpus.gpus[::-1])
    assert resolve_gpu_set(GpuSetRule("all"), shuffled).uuids == (a, b)
    assert resolve_gpu_set(GpuSetRule("pair", uuids=(b, a)), two_gpus).uuids == (a, b)


def test_numa_sets_take_the_gpus_of_the_node(two_gpus):
    a, b = two_gpus.gpus
    split = replace(two_gpus, gpus=(replace(a, numa_node=Value(0)), replace(b, numa_node=Value(1))))
    assert resolve_gpu_set(GpuSetRule("numa1", numa_node=1), split).uuids == (b.uuid,)
    with pytest.raises(UsageError, match="has no GPU today"):
        resolve_gpu_set(GpuSetRule("numa7", numa_node=7), split)


def test_an_unknown_member_is_named_and_costs_only_its_own_set(two_gpus):
    rules = [GpuSetRule("all"), GpuSetRule("typo", uuids=("GPU-nowhere",))]
    with pytest.raises(UsageError, match="GPU-nowhere is not on this host"):
        resolve_gpu_set(rules[1], two_gpus)
    assert [found.name for found in resolve_gpu_sets(rules, two_gpus)] == ["all"]


def test_the_command_line_states_every_default_that_changed_between_versions():
    assert " ".join(nccl_tests_arguments(step())) == (
        "-b 67108864 -e 2147483648 -f 2 -g 2 -w 5 -n 20 -c 1 -d float -o sum"
    )
    assert "-o" not in nccl_tests_arguments(step(Collective.ALL_GATHER))
    assert nccl_tests_arguments(step(extra_arguments=("-m", "4")))[-2:] == ("-m", "4")


@given(st.integers(1, 1 << 34), st.integers(0, 16), st.integers(2, 8))
def test_sizes_start_at_the_smallest_and_stay_within_the_largest(smallest, doublings, factor):
    parameters = replace(PARAMETERS, min_bytes=smallest, max_bytes=smallest << doublings, step_factor=factor)
    sizes = sizes_of(parameters)
    assert sizes[0] == smallest
    assert sizes[-1] <= parameters.max_bytes < sizes[-1] * factor
    assert all(larger == smaller * factor for smaller, larger in pairwise(sizes))


def test_a_hang_is_called_one_long_after_a_healthy_run_would_have_ended():
    limits = limits_of(step())
    # 8 B - 2 GiB took 4.1 s on two H200s, start-up included (MEASURED.md).
    assert 60 < limits.first_row_seconds < limits.total_seconds < 1200
    assert limits.row_seconds >= 30


@given(st.sampled_from(Collective), st.integers(2, 16), st.integers(0, 5), st.integers(1, 100))
def test_limits_leave_room_for_the_slowest_working_transport(collective, ranks, warmup, iterations):
    members = tuple(f"GPU-{number}" for number in range(ranks))
    planned = step(collective, members, warmup_iterations=warmup, iterations=iterations)
    limits = limits_of(planned)
    slowest_row = 2 * iterations * planned.parameters.max_bytes / 1e9
    assert limits.row_seconds >= slowest_row
    assert limits.total_seconds >= limits.first_row_seconds + limits.row_seconds


def test_members_and_parameters_make_another_series_and_nothing_else_does():
    reference = parameters_hash(Engine.NCCL_TESTS, step())
    assert parameters_hash(Engine.NCCL_TESTS, step()) == reference
    assert parameters_hash(Engine.NCCL_TESTS, replace(step(), sweep="other")) == reference
    others = {
        parameters_hash(Engine.RCCL_TESTS, step()),
        parameters_hash(Engine.NCCL_TESTS, step(members=("GPU-a", "GPU-c"))),
        parameters_hash(Engine.NCCL_TESTS, step(iterations=21)),
        parameters_hash(Engine.NCCL_TESTS, step(environment=(("NCCL_ALGO", "Ring"),))),
        parameters_hash(Engine.NCCL_TESTS, step(extra_arguments=("-z", "1"))),
    }
    assert len(others | {reference}) == 6
