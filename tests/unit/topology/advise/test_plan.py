"""The golden table: platform x model x task. Each row is what a person who knows the platform would do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpumond.model.reading import NOT_SUPPORTED, Value
from gpumond.simulate.scenario import load_scenario
from gpumond.simulate.snapshot import render_snapshot
from gpumond.topology.advise.groups import cheap_groups
from gpumond.topology.advise.host import GpuLink, host_of_snapshot
from gpumond.topology.advise.memory import Dtype, Job, Sharding, Task, parse_parameters
from gpumond.topology.advise.plan import plan_of

# platform, model, task: TP x PP x DP, how ranks share, hosts, GB a GPU, whether to do it at all
GOLDEN = [
    ("hgx-h100-8", "7B", "train", (1, 1, 8), "ZeRO-1", 1, 38.5, True),
    ("hgx-h100-8", "70B", "train", (8, 1, 3), "FSDP2 (ZeRO-3)", 3, 46.7, True),
    ("hgx-h100-8", "405B", "train", (8, 1, 12), "FSDP2 (ZeRO-3)", 12, 67.5, True),
    ("hgx-h100-8", "7B", "serve", (1, 1, 8), None, 1, 16.8, True),
    ("hgx-h100-8", "70B", "serve", (4, 1, 2), None, 1, 42.0, True),
    ("hgx-h100-8", "405B", "serve", (8, 2, 1), None, 2, 60.8, True),
    ("l40s-8-pcie", "7B", "train", (1, 1, 8), "ZeRO-1", 1, 38.5, True),
    ("l40s-8-pcie", "70B", "train", (2, 16, 1), None, 4, 35.0, True),
    ("l40s-8-pcie", "405B", "train", (2, 84, 1), None, 21, 38.6, False),
    ("l40s-8-pcie", "7B", "serve", (1, 1, 8), None, 1, 16.8, True),
    ("l40s-8-pcie", "70B", "serve", (2, 2, 2), None, 1, 42.0, True),
    ("l40s-8-pcie", "405B", "serve", (2, 12, 1), None, 3, 40.5, True),
    # Further platforms, where they decide otherwise.
    ("hgx-h200-8", "7B", "train", (1, 1, 8), "DDP", 1, 112.0, True),
    ("hgx-h200-8", "405B", "serve", (8, 1, 1), None, 1, 121.5, True),
    ("hgx-b200-8", "70B", "train", (1, 1, 8), "FSDP2 (ZeRO-3)", 1, 140.0, True),
    ("hgx-b200-8", "70B", "serve", (1, 1, 8), None, 1, 168.0, True),
    ("dgx1-v100-cube-mesh", "7B", "train", (1, 1, 8), "ZeRO-2", 1, 26.25, True),
    ("dgx1-v100-cube-mesh", "70B", "serve", (4, 2, 1), None, 1, 21.0, True),
    ("rtxpro6000-8-pcie", "70B", "serve", (2, 1, 4), None, 1, 84.0, True),
    ("rtx5090-2-no-p2p", "7B", "serve", (1, 1, 2), None, 1, 16.8, True),
    ("rtx5090-2-no-p2p", "70B", "train", (1, 42, 1), None, 21, 26.7, False),
    ("rtx4090-4-no-p2p", "7B", "train", (1, 8, 1), None, 2, 14.0, True),
    ("rtx4080-10-no-p2p", "7B", "serve", (1, 2, 5), None, 1, 8.4, True),
    ("rtx4080-10-no-p2p", "7B", "train", (1, 9, 1), None, 1, 12.4, True),
    ("gh200-1", "7B", "train", (1, 1, 2), "FSDP2 (ZeRO-3)", 2, 56.0, True),
    ("gh200-1", "7B", "serve", (1, 1, 1), None, 1, 16.8, True),
]


def host_named(name):
    return host_of_snapshot(render_snapshot(load_scenario(name), taken_at=datetime(2026, 11, 29, tzinfo=UTC)))


def plan_for(host, parameters, task, dtype=Dtype.BF16):
    return plan_of(host, cheap_groups(host), Job(parse_parameters(parameters), dtype, Task(task)))


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: "-".join(row[:3]))
def test_golden(row):
    platform, parameters, task, sizes, sharding, hosts, gigabytes, is_sensible = row
    plan = plan_for(host_named(platform), parameters, task)
    assert (plan.tensor, plan.pipeline, plan.data) == sizes
    assert (plan.sharding, plan.hosts) == (sharding and Sharding(sharding), hosts)
    assert plan.bytes_per_gpu / 1e9 == pytest.approx(gigabytes, abs=0.06)
    assert plan.is_sensible is is_sensible
    assert plan.bytes_per_gpu <= plan.usable_bytes


def test_fewer_bytes_a_weight_need_fewer_gpus():
    host = host_named("hgx-h100-8")
    sizes = {dtype: plan_for(host, "70B", "serve", dtype).tensor for dtype in Dtype}
    assert sizes == {"fp32": 8, "bf16": 4, "fp16": 4, "fp8": 2, "int8": 2, "int4": 1}


def test_the_smallest_gpu_decides():
    host = host_named("hgx-h100-8")
    smaller = replace(host.gpus[5], memory_bytes=host.gpus[5].memory_bytes // 4)
    mixed = replace(host, gpus=(*host.gpus[:5], smaller, *host.gpus[6:]))
    assert plan_for(mixed, "7B", "train").sharding is Sharding.ZERO3
    assert plan_for(host, "7B", "train").sharding is Sharding.ZERO1


def test_no_plan_without_the_memory_of_every_gpu():
    host = host_named("hgx-h100-8")
    assert (
        plan_for(
            replace(host, gpus=(*host.gpus[:7], replace(host.gpus[7], memory_bytes=None))), "7B", "train"
        )
        is None
    )


def test_gpus_in_slices_are_left_out():
    snapshot = render_snapshot(load_scenario("hgx-h100-8"), taken_at=datetime(2026, 11, 29, tzinfo=UTC))
    sliced = replace(snapshot, gpus=(replace(snapshot.gpus[0], mig_mode=Value(True)), *snapshot.gpus[1:]))
    plan = plan_for(host_of_snapshot(sliced), "7B", "serve")
    assert plan.gpus == tuple(f"GPU{number}" for number in range(1, 8))
    everyone = tuple(replace(gpu, mig_mode=Value(True)) for gpu in snapshot.gpus)
    assert plan_for(host_of_snapshot(replace(snapshot, gpus=everyone)), "7B", "serve") is None


def test_xgmi_takes_all_or_one():
    """Two of eight MI300X reach 48 GB/s, all eight 313: a copy on two would waste the links."""
    host = host_named("hgx-h200-8")
    xgmi = replace(host, links={pair: GpuLink("XGMI", is_xgmi=True) for pair in host.links})
    assert plan_for(xgmi, "70B", "serve").tensor == 8
    assert plan_for(xgmi, "7B", "serve").tensor == 1
    assert plan_for(host, "70B", "serve").tensor == 2


def test_nvlinks_that_cannot_be_read_are_no_reason_to_split_a_layer():
    snapshot = render_snapshot(load_scenario("hgx-h100-8"), taken_at=datetime(2026, 11, 29, tzinfo=UTC))
    unread = replace(
        snapshot,
        pairs=tuple(replace(pair, level=NOT_SUPPORTED, nvlinks=NOT_SUPPORTED) for pair in snapshot.pairs),
    )
    assert plan_for(host_of_snapshot(unread), "70B", "serve").tensor == 1
