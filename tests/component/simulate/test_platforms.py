"""Every platform end to end: a scenario, the fake library of its driver, the real probe, and what follows from its snapshot."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpumond import codec
from gpumond.model.topology import Snapshot, Vendor
from gpumond.simulate.scenario import load_scenario
from gpumond.simulate.sysfs import write_sysfs
from gpumond.topology.advise.advice import advise
from gpumond.topology.advise.host import host_of_snapshot
from gpumond.topology.advise.lines import Topic
from gpumond.topology.advise.memory import Dtype, Job, Task
from gpumond.topology.classify import classify_snapshot
from gpumond.topology.expected import expected_ring_busbw

SERVE_70B = Job(70 * 10**9, Dtype.BF16, Task.SERVE)
NO_P2P = ("None: it would go through host memory (NCCL's SHM transport).",)

# host: class, expected ring busbw in GB/s, tensor parallel, how to serve 70B
PLATFORMS = {
    "hgx-h100-8": ("nvswitch", 359.7, ("TP8 inside GPU0-GPU7.",), "2 copies, each TP4"),
    "hgx-h200-8": ("nvswitch", 359.7, ("TP8 inside GPU0-GPU7.",), "4 copies, each TP2"),
    "hgx-b200-8": ("nvswitch", 671.3, ("TP8 inside GPU0-GPU7.",), "8 copies"),
    "hgx-a100-8": ("nvswitch", 232.8, ("TP8 inside GPU0-GPU7.",), "2 copies, each TP4"),
    "dgx1-v100-cube-mesh": (
        "nvlink-partial",
        None,
        ("TP4 inside GPU0-GPU3.", "TP4 inside GPU4-GPU7."),
        "one copy, TP4 x PP2",
    ),
    "l40s-8-pcie": (
        "pcie-p2p",
        None,
        tuple(f"TP2 inside GPU{n}-GPU{n + 1}." for n in (0, 2, 4, 6)),
        "2 copies, each TP2 x PP2",
    ),
    "rtxpro6000-8-pcie": (
        "pcie-p2p",
        None,
        ("TP4 inside GPU0-GPU3.", "TP4 inside GPU4-GPU7."),
        "4 copies, each TP2",
    ),
    "rtx5090-2-no-p2p": ("pcie-no-p2p", None, NO_P2P, "one copy, PP6, on 3 hosts like this"),
    "rtx4090-4-no-p2p": ("pcie-no-p2p", None, NO_P2P, "one copy, PP8, on 2 hosts like this"),
    "rtx4080-10-no-p2p": ("pcie-no-p2p", None, NO_P2P, None),
    "mi300x-8": ("xgmi", 312.5, ("TP8 inside GPU0-GPU7.",), "8 copies"),
    "mi355x-8": ("xgmi", None, ("TP8 inside GPU0-GPU7.",), "8 copies"),
    "gh200-1": (
        "unknown",
        None,
        ("A single GPU: no parallelism inside this host.",),
        "one copy, PP2, on 2 hosts like this",
    ),
}


@pytest.fixture
def probed(fake_nvml, fake_amdsmi, tmp_path):
    """`probed(name)` -> the snapshot that the real probe takes of that host."""

    def take(name):
        scenario = load_scenario(name)
        roots = write_sysfs(scenario, tmp_path)
        fake = fake_amdsmi if scenario.vendor is Vendor.AMD else fake_nvml
        document = subprocess.run(
            [sys.executable, "-m", "gpumond.probe", "--sysfs", roots.sysfs, "--proc", roots.proc],
            env=os.environ | fake.environment(scenario),
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        return codec.decode(Snapshot, document)

    return take


def said(host, topic, job=None):
    return tuple(line.advice for line in advise(host, job).lines if line.topic is topic)


@pytest.mark.parametrize("name", PLATFORMS)
def test_class_expected_busbw_and_advice(probed, name):
    topology_class, expected_gbps, tensor, serving = PLATFORMS[name]
    snapshot = probed(name)
    assert classify_snapshot(snapshot).topology_class == topology_class
    busbw = expected_ring_busbw(snapshot, [gpu.uuid for gpu in snapshot.gpus])
    assert (busbw and round(busbw / 1e9, 1)) == expected_gbps
    host = host_of_snapshot(snapshot)
    assert said(host, Topic.TENSOR_PARALLEL) == tensor
    assert len(said(host, Topic.CORES)) == len(snapshot.gpus)
    expected = (
        f"Serve {serving}."
        if serving
        else "Not on GPUs like these: it takes 20 of them in 20 pipeline stages."
    )
    assert said(host, Topic.STRATEGY, SERVE_70B) == (expected,)


def test_a_grace_gpu_is_a_numa_node_of_its_own(probed):
    (gpu,) = probed("gh200-1").gpus
    assert (gpu.gpu_numa_id.value, gpu.numa_node.value) == (1, 0)
