"""Faults of the hardware, applied."""

from __future__ import annotations

import pytest

from gpumond.model.topology import P2pCapability, P2pStatus
from gpumond.simulate.faults import GpuLost, parse_fault
from gpumond.simulate.hardware import struck
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.simulate.wiring import links_between


def after(name, *faults, elapsed=0.0):
    return struck(with_faults(load_scenario(name), [parse_fault(fault) for fault in faults]), elapsed)


def nvlink_p2p(world, gpu, peer):
    return next(it.p2p[P2pCapability.NVLINK] for it in world.pairs if (it.gpu, it.peer) == (gpu, peer))


def test_a_link_behind_a_switch_is_down_for_one_gpu():
    world = after("hgx-h200-8", "link_down,gpu=3,link=7")
    assert [sum(link.is_up for link in gpu.links) for gpu in world.gpus] == [18, 18, 18, 17, 18, 18, 18, 18]
    assert (links_between(world.gpus[3], world.gpus[0]), links_between(world.gpus[0], world.gpus[3])) == (
        17,
        18,
    )


def test_a_link_between_two_gpus_is_down_at_both_ends():
    world = after("dgx1-v100-cube-mesh", "link_down,gpu=0,link=1")
    assert [links_between(world.gpus[a], world.gpus[b]) for a, b in ((0, 2), (2, 0), (0, 1))] == [1, 1, 1]
    assert nvlink_p2p(world, 0, 2) is P2pStatus.OK


def test_without_its_last_link_a_pair_has_no_nvlink_p2p():
    world = after("dgx1-v100-cube-mesh", "link_down,gpu=0,link=0")
    assert [links_between(world.gpus[a], world.gpus[b]) for a, b in ((0, 1), (1, 0))] == [0, 0]
    assert (nvlink_p2p(world, 0, 1), nvlink_p2p(world, 1, 0)) == (P2pStatus.NS, P2pStatus.NS)


def test_behind_a_missing_gpu_the_numbers_close_up():
    world = after(
        "dgx1-v100-cube-mesh", "gpu_missing,gpu=2", "gpu_missing,gpu=2", "gpu_lost,gpu=4", "gpu_lost,gpu=2"
    )
    before = load_scenario("dgx1-v100-cube-mesh")
    assert [gpu.uuid for gpu in world.gpus] == [gpu.uuid for gpu in before.gpus if gpu is not before.gpus[2]]
    assert world.faults == (GpuLost(gpu=3),)
    assert len(world.pairs) == 7 * 6
    # The ends of its links stay on the board, down.
    assert [(link.is_up, link.peer) for link in world.gpus[0].links[1:3]] == [(False, None), (False, None)]


def test_an_unregistered_fabric_leaves_links_up_and_no_p2p():
    world = after("hgx-h200-8", "fabric_in_progress")
    assert {gpu.fabric.state for gpu in world.gpus} == {2}
    assert {status for pair in world.pairs for status in pair.p2p.values()} == {P2pStatus.NS}
    assert {link.is_up for gpu in world.gpus for link in gpu.links} == {True}


@pytest.mark.parametrize(("elapsed", "lanes"), [(0.0, 16), (9.9, 16), (10.0, 4)])
def test_a_fault_begins_when_it_is_due(elapsed, lanes):
    world = after("hgx-h200-8", "pcie_width,gpu=0,lanes=4,after_seconds=10", elapsed=elapsed)
    assert world.gpus[0].pcie_width == lanes
    assert world.faults == ()


def test_a_later_fault_of_the_driver_is_left_out_until_then():
    fault = "gpu_lost,gpu=1,after_seconds=10"
    assert after("h200-2-vm", fault, elapsed=9.0).faults == ()
    assert after("h200-2-vm", fault, elapsed=10.0).faults == (GpuLost(gpu=1, after_seconds=10.0),)


def test_a_busy_gpu_has_a_process_and_less_memory():
    busy = after("h200-2-vm", "gpu_busy,gpu=1,pid=4711").gpus[1]
    assert [(it.pid, it.kind) for it in busy.processes] == [(4711, "compute")]
    assert busy.memory_used_bytes == busy.processes[0].used_memory_bytes > 0
    assert busy.utilisation_percent > 0
