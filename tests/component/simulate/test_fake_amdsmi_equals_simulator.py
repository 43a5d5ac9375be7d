"""One AMD scenario, rendered twice: the real probe with the real amdsmi on the fake library, and the simulator's snapshot."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from gpumond import codec
from gpumond.model.reading import NOT_SUPPORTED, Value
from gpumond.model.topology import Snapshot, Vendor, XgmiLinkState
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, scenario_names, with_faults
from gpumond.simulate.snapshot import render_snapshot
from gpumond.simulate.sysfs import write_sysfs
from gpumond.simulate.world import ScenarioXgmiPath
from gpumond.topology.classify import TopologyClass, classify_snapshot

A_MOMENT = datetime(2026, 11, 29, tzinfo=UTC)
NAMES = [name for name in scenario_names() if load_scenario(name).vendor is Vendor.AMD]

VISIBLE_FAULTS = [
    "gpu_lost,gpu=1",
    "gpu_missing,gpu=1",
    "no_permission,gpu=0",
    "driver_not_loaded",
    "pcie_width,gpu=0,lanes=4",
    "gpu_busy,gpu=1,pid=4711",
    "link_down,gpu=1,link=3",
    "nic_down,nic=mlx5_1",
    "call_fails,call=amdsmi_init,status=10",
    "call_fails,call=amdsmi_init,status=18",
    "call_fails,call=amdsmi_get_processor_handles,status=7",
    "call_fails,call=amdsmi_get_lib_version,status=7",
    "call_fails,call=amdsmi_get_gpu_process_list,status=10",
    "call_fails,call=amdsmi_get_gpu_memory_usage,status=30,gpu=2",
    "call_fails,call=amdsmi_topo_get_link_type,status=9,gpu=3",
    "call_fails,call=amdsmi_topo_get_p2p_status,status=12,gpu=3",
    "call_fails,call=amdsmi_get_minmax_bandwidth_between_processors,status=2",
    "call_fails,call=amdsmi_get_gpu_driver_info,status=7",
    "not_supported,call=amdsmi_get_gpu_xgmi_link_status",
    "not_supported,call=amdsmi_get_gpu_asic_info",
    "not_supported,call=amdsmi_topo_get_p2p_status",
    "not_supported,call=amdsmi_is_P2P_accessible",
]
# KFD or sysfs knows the same, another GPU answers for all, or the question is asked in a guest only.
HIDDEN_FAULTS = [
    "call_fails,call=amdsmi_get_gpu_device_uuid,status=7",
    "call_fails,call=amdsmi_get_gpu_driver_info,status=7,gpu=0",
    "not_supported,call=amdsmi_get_gpu_enumeration_info",
    "call_fails,call=amdsmi_topo_get_numa_node_number,status=12",
    "not_supported,call=amdsmi_get_gpu_virtualization_mode",
]


def probed(fake_amdsmi, scenario, directory):
    roots = write_sysfs(scenario, directory)
    document = subprocess.run(
        [sys.executable, "-I", "-m", "gpumond.probe", "--sysfs", roots.sysfs, "--proc", roots.proc],
        env={"PATH": "/usr/bin:/bin", **fake_amdsmi.environment(scenario)},
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout
    return codec.decode(Snapshot, document)


def comparable(snapshot):
    return dataclasses.replace(snapshot, taken_at=A_MOMENT, duration_seconds=0.0, simulated="")


def assert_equal(fake_amdsmi, scenario, directory):
    real = comparable(probed(fake_amdsmi, scenario, directory))
    simulated = comparable(render_snapshot(scenario, taken_at=A_MOMENT))
    assert codec.encode(real, indent=1).decode() == codec.encode(simulated, indent=1).decode()
    return real


@pytest.mark.parametrize("name", NAMES)
def test_a_healthy_host_looks_the_same(fake_amdsmi, tmp_path, name):
    snapshot = assert_equal(fake_amdsmi, load_scenario(name), tmp_path)
    assert snapshot.vendor is Vendor.AMD
    assert len(snapshot.gpus) == 8
    assert classify_snapshot(snapshot).topology_class is TopologyClass.XGMI


@pytest.mark.parametrize("fault", VISIBLE_FAULTS)
def test_a_fault_looks_the_same(fake_amdsmi, tmp_path, fault):
    healthy = load_scenario("mi300x-8")
    scenario = with_faults(healthy, [parse_fault(fault)])
    assert_equal(fake_amdsmi, scenario, tmp_path)
    assert render_snapshot(scenario, taken_at=A_MOMENT) != render_snapshot(healthy, taken_at=A_MOMENT)


@pytest.mark.parametrize("fault", HIDDEN_FAULTS)
def test_a_fault_that_the_probe_gets_around_leaves_no_trace(fake_amdsmi, tmp_path, fault):
    healthy = load_scenario("mi300x-8")
    real = assert_equal(fake_amdsmi, with_faults(healthy, [parse_fault(fault)]), tmp_path)
    assert real == comparable(render_snapshot(healthy, taken_at=A_MOMENT))


def test_two_hives_on_one_host(fake_amdsmi, tmp_path):
    """Eight MI100 are two hives of four, with PCIe between them (sgl-project/sglang#5775)."""
    scenario = two_hives(load_scenario("mi300x-8"))
    snapshot = assert_equal(fake_amdsmi, scenario, tmp_path)
    assert len({gpu.xgmi_hive for gpu in snapshot.gpus}) == 2
    assert sum(isinstance(pair.xgmi, Value) for pair in snapshot.pairs) == 2 * 4 * 3
    across = next(pair for pair in snapshot.pairs if pair.xgmi == NOT_SUPPORTED)
    assert across.level.value in {"SYS", "NODE"}


def two_hives(scenario):
    """GPUs 0, 2, 3 and 7 in one, the others in another: as pasted, not in the order of their numbers."""
    first = {0, 2, 3, 7}
    gpus = []
    for number, gpu in enumerate(scenario.gpus):
        members = sorted(first if number in first else set(range(8)) - first)
        links = tuple(XgmiLinkState.DISABLED if it == number else XgmiLinkState.UP for it in members)
        xgmi = dataclasses.replace(gpu.xgmi, hive_id=1 + (number in first), links=links)
        gpus.append(dataclasses.replace(gpu, xgmi=xgmi))
    pairs = tuple(
        dataclasses.replace(
            pair, xgmi=ScenarioXgmiPath(15, 64_000) if (pair.gpu in first) == (pair.peer in first) else None
        )
        for pair in scenario.pairs
    )
    return dataclasses.replace(scenario, gpus=tuple(gpus), pairs=pairs)


def test_in_a_guest_every_link_reads_as_down_and_means_nothing(fake_amdsmi, tmp_path):
    snapshot = assert_equal(fake_amdsmi, load_scenario("mi300x-8-guest"), tmp_path)
    assert {gpu.xgmi_links for gpu in snapshot.gpus} == {NOT_SUPPORTED}
    assert {gpu.compute_partition for gpu in snapshot.gpus} == {NOT_SUPPORTED}


def test_on_bare_metal_all_links_down_is_believed(fake_amdsmi, tmp_path):
    faults = [parse_fault(f"link_down,gpu=0,link={link}") for link in range(1, 8)]
    snapshot = assert_equal(fake_amdsmi, with_faults(load_scenario("mi300x-8"), faults), tmp_path)
    down = XgmiLinkState.DOWN
    assert snapshot.gpus[0].xgmi_links == Value((XgmiLinkState.DISABLED, *[down] * 7))
    assert snapshot.gpus[1].xgmi_links.value[:2] == (down, XgmiLinkState.DISABLED)


def test_what_the_driver_does_not_say_is_no_zero(fake_amdsmi, tmp_path):
    snapshot = assert_equal(fake_amdsmi, load_scenario("mi355x-8"), tmp_path)
    paths = {pair.xgmi.value for pair in snapshot.pairs}
    assert {(it.weight, it.bandwidth_max_bytes_per_second) for it in paths} == {
        (NOT_SUPPORTED, NOT_SUPPORTED)
    }


def test_between_gpus_without_xgmi_there_is_only_access(fake_amdsmi, tmp_path):
    """Two 7900 XTX: PCIe, and capabilities that read as unknown (cases of the text readers)."""
    scenario = load_scenario("mi300x-8")
    gpus = tuple(dataclasses.replace(gpu, xgmi=None) for gpu in scenario.gpus)
    pairs = tuple(dataclasses.replace(pair, xgmi=None) for pair in scenario.pairs)
    snapshot = assert_equal(fake_amdsmi, dataclasses.replace(scenario, gpus=gpus, pairs=pairs), tmp_path)
    assert {pair.xgmi for pair in snapshot.pairs} == {NOT_SUPPORTED}
    assert classify_snapshot(snapshot).topology_class is TopologyClass.PCIE_P2P
