"""Every fault of the field as exactly one typed change, every false alarm of the field as none.

The rows follow sections 4 and 5 of the topology research: what was reported from real hosts, and how bad it was.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from snapshot_edits import (
    LOST,
    OFF,
    ON,
    as_amd,
    both_ways,
    edited,
    fabric,
    gpu,
    host,
    label,
    links,
    nic,
    nic_to_gpu,
    only_nic,
    p2p,
    pairs,
    pcie,
    reboot,
    renamed_gpu,
    switch_down,
    with_counts,
    without_gpus,
    without_nics,
    xgmi_down,
)

from gpumond.model.change import ChangeKind, Level, SubjectKind, levels_of
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import NvLinkRemote, P2pCapability, P2pStatus, PathLevel, SilentGpu
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.simulate.snapshot import render_snapshot
from gpumond.topology.diff import diff

AT = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)
HGX, CUBE_MESH, L40S, FOUR_A_SWITCH, PAIR, NO_P2P = (
    "hgx-h200-8",
    "dgx1-v100-cube-mesh",
    "l40s-8-pcie",
    "rtxpro6000-8-pcie",
    "h200-2-vm",
    "rtx5090-2-no-p2p",
)
INFO, WARNING, CRITICAL = Level
NIC = "mlx5_3"
FOUR_BELOW_A_SWITCH = (0, 1, 2, 3)


def snapshot_of(name, *faults):
    scenario = load_scenario(name)
    if faults:
        scenario = with_faults(scenario, [parse_fault(fault) for fault in faults])
    return render_snapshot(scenario, taken_at=AT)


def facts(changes):
    assert all(change.level in levels_of(change.kind) for change in changes)
    return [(change.kind.value, change.level.value, change.subject.kind.value) for change in changes]


# --- faults that a scenario knows: (host, faults, kind, level, subject) ------------------------------------------------

SCENARIO_FAULTS = [
    # a GPU fell off the bus (leptonai/gpud#604); its links and pairs are silent
    (HGX, ["gpu_lost,gpu=1"], "gpu_missing", CRITICAL, "gpu"),
    (CUBE_MESH, ["gpu_lost,gpu=1"], "gpu_missing", CRITICAL, "gpu"),
    # one that neither driver nor sysfs shows, with direct NVLinks that now lead nowhere
    (HGX, ["gpu_missing,gpu=7"], "gpu_missing", CRITICAL, "gpu"),
    (CUBE_MESH, ["gpu_missing,gpu=1"], "gpu_missing", CRITICAL, "gpu"),
    # one link short: NV17 beside NV18 (sgl-project/sglang#3780)
    (HGX, ["link_down,gpu=3,link=7"], "nvlink_down", CRITICAL, "gpu"),
    (PAIR, ["link_down,gpu=0,link=0"], "nvlink_down", CRITICAL, "gpu"),
    # a direct link has two ends and is one fault (Azure/azhpc-diagnostics#73)
    (CUBE_MESH, ["link_down,gpu=1,link=3"], "nvlink_down", CRITICAL, "pair"),
    # the fabric manager never finishes; P2P goes with it (leptonai/gpud#1106)
    (HGX, ["fabric_in_progress"], "fabric_fault", CRITICAL, "host"),
    # PCIe width is no power-saving field (local-inference-lab/rtx6kpro#88)
    (L40S, ["pcie_width,gpu=0,lanes=8"], "pcie_width_lower", WARNING, "gpu"),
    (L40S, ["pcie_width,gpu=0,lanes=4"], "pcie_width_lower", CRITICAL, "gpu"),
    (HGX, ["nic_down,nic=mlx5_3"], "nic_port_down", WARNING, "nic"),
    # not a change: this process may not look
    (HGX, ["no_permission,gpu=2"], "visibility_lost", WARNING, "readings"),
    (HGX, ["call_fails,call=nvmlDeviceGetName,status=999,gpu=2"], "visibility_lost", INFO, "readings"),
    (HGX, ["call_fails,call=nvmlDeviceGetP2PStatus,status=4"], "visibility_lost", WARNING, "readings"),
    (HGX, ["driver_mismatch"], "visibility_lost", WARNING, "host"),
    (HGX, ["driver_not_loaded"], "visibility_lost", WARNING, "host"),
]


@pytest.mark.parametrize(
    ("name", "faults", "kind", "level", "subject"),
    SCENARIO_FAULTS,
    ids=[f"{row[0]}:{'+'.join(row[1])}" for row in SCENARIO_FAULTS],
)
def test_a_fault_of_a_scenario_is_exactly_one_change(name, faults, kind, level, subject):
    changes = diff(snapshot_of(name), snapshot_of(name, *faults))
    assert facts(changes) == [(kind, level.value, subject)]


# --- faults by edit: (name, host, edits, kind, level, subject) ---------------------------------------------------------


ALL_OF_GPU_0 = [way for peer in range(1, 8) for way in ((0, peer), (peer, 0))]
ACROSS = [way for a in FOUR_BELOW_A_SWITCH for b in (4, 5, 6, 7) for way in ((a, b), (b, a))]
INSIDE = [(a, b) for a in FOUR_BELOW_A_SWITCH for b in FOUR_BELOW_A_SWITCH if a != b]
CNS = P2pStatus.CNS

EDITED_FAULTS = [
    ("a GPU added", HGX, None, "gpu_added", INFO, "gpu"),
    ("a GPU replaced in its slot (truenas/middleware#19499)", HGX, [renamed_gpu(2, "GPU-new")], "gpu_replaced", WARNING, "gpu"),
    ("a replaced GPU with another VBIOS is one change", HGX, [renamed_gpu(2, "GPU-new"), gpu(2, vbios_version=Value("9"))], "gpu_replaced", WARNING, "gpu"),
    ("a bus id moved while the host was up", HGX, [gpu(2, pci_bus_id="0000:ff:00.0")], "gpu_moved", WARNING, "gpu"),
    ("a bus id moved at a reboot (ubicloud/ubicloud#6330)", HGX, [gpu(2, pci_bus_id="0000:ff:00.0"), reboot()], "gpu_moved", INFO, "gpu"),
    ("every GPU missing", HGX, [without_gpus(*range(8))], "gpu_missing", CRITICAL, "host"),
    ("one PCIe switch took its GPUs with it", FOUR_A_SWITCH, [without_gpus(*FOUR_BELOW_A_SWITCH)], "gpu_missing", CRITICAL, "gpus"),
    ("a new name by a new driver", HGX, [gpu(0, name=Value("NVIDIA H200 NVL"))], "gpu_model", INFO, "gpu"),
    ("VBIOS of one GPU", HGX, [gpu(0, vbios_version=Value("96.00"))], "vbios", INFO, "gpu"),
    ("driver", HGX, [reboot(driver_version=Value("590.1"))], "driver", INFO, "host"),
    ("all links of one GPU down (NVIDIA/DCGM#198)", HGX, [links(3, is_up=OFF), with_counts], "nvlink_down", CRITICAL, "gpu"),
    ("one NVSwitch dead", HGX, [switch_down("0000:06:00.0")], "nvlink_down", CRITICAL, "switch"),
    ("no NVLinks at all any more (sgl-project/sglang#5013)", HGX, [gpu(nvlinks=NOT_SUPPORTED), label("SYS")], "nvlink_down", CRITICAL, "host"),
    ("a hidden switch dead, in a VM", PAIR, [links(0, 3, 4, is_up=OFF), links(1, 3, 4, is_up=OFF), with_counts], "nvlink_down", CRITICAL, "host"),
    ("a link slower than it was", HGX, [links(3, 7, speed_bytes_per_second=Value(13_281_000_000))], "nvlink_slower", WARNING, "gpu"),
    ("NV18 -> NV17 and the links do not say why", HGX, [label("NV17", *both_ways((0, 1)))], "link_downgraded", CRITICAL, "pair"),
    ("NV18 -> SYS and the links do not say why", HGX, [label("SYS", *both_ways((0, 1)))], "link_lost", CRITICAL, "pair"),
    ("one direction only", HGX, [label("NV17", (0, 1))], "link_downgraded", CRITICAL, "way"),
    ("every pair of one GPU", HGX, [label("NV17", *ALL_OF_GPU_0)], "link_downgraded", CRITICAL, "gpu"),
    ("every pair", HGX, [label("NV17")], "link_downgraded", CRITICAL, "host"),
    ("a PCIe path grew longer", L40S, [label("SYS", *both_ways((0, 1)))], "link_downgraded", WARNING, "pair"),
    ("one PCIe switch: every path through it (topology 5.1 e)", FOUR_A_SWITCH, [label("SYS", *INSIDE)], "link_downgraded", WARNING, "gpus"),
    ("a PCIe path grew shorter", L40S, [label("PXB", *both_ways((0, 4)))], "link_improved", INFO, "pair"),
    ("P2P gone on one way", L40S, [p2p(CNS, (0, 1))], "p2p_lost", CRITICAL, "way"),
    ("P2P gone between two GPUs", L40S, [p2p(CNS, *both_ways((0, 1)))], "p2p_lost", CRITICAL, "pair"),
    ("P2P gone everywhere", L40S, [p2p(CNS)], "p2p_lost", CRITICAL, "host"),
    ("P2P through one switch gone", FOUR_A_SWITCH, [p2p(CNS, *ACROSS)], "p2p_lost", CRITICAL, "gpus"),
    ("P2P gone with a new kernel (aikitoria/open-gpu-kernel-modules#24)", L40S, [p2p(CNS), reboot(kernel="6.12")], "p2p_lost", WARNING, "host"),
    ("P2P over NVLink gone although the links are up", HGX, [p2p(P2pStatus.NS, capabilities=[P2pCapability.NVLINK])], "p2p_lost", CRITICAL, "host"),
    ("atomics gone on one GPU's ways", HGX, [p2p(P2pStatus.NS, *ALL_OF_GPU_0, capabilities=[P2pCapability.ATOMICS])], "p2p_lost", CRITICAL, "gpu"),
    ("P2P came with a patched driver", NO_P2P, [p2p(P2pStatus.OK)], "p2p_gained", INFO, "pair"),
    ("fabric completed with a bad status (Azure/azhpc-images#506)", HGX, [fabric(5, status=23)], "fabric_fault", CRITICAL, "gpu"),
    ("fabric bandwidth degraded", HGX, [fabric(5, health_mask=0b01)], "fabric_fault", CRITICAL, "gpu"),
    ("fabric route unhealthy", HGX, [fabric(5, health_mask=0b01 << 4)], "fabric_fault", CRITICAL, "gpu"),
    ("fabric configuration: insufficient NVLinks", HGX, [fabric(5, health_mask=5 << 8)], "fabric_fault", CRITICAL, "gpu"),
    ("fabric summary: limited capacity", HGX, [fabric(5, health_summary=3)], "fabric_fault", CRITICAL, "gpu"),
    ("fabric not started, long after boot", HGX, [fabric(state=1)], "fabric_fault", CRITICAL, "host"),
    ("fabric in progress, just after boot", HGX, [fabric(state=2), host(boot_id="new", uptime_seconds=60.0)], "fabric_fault", INFO, "host"),
    ("fabric bad status, just after boot", HGX, [fabric(status=23), host(boot_id="new", uptime_seconds=60.0)], "fabric_fault", CRITICAL, "host"),
    ("clique renumbered by a restarted fabric manager", HGX, [fabric(clique_id=9)], "fabric_clique", INFO, "host"),
    ("a narrower slot: width and its maximum", L40S, [pcie(0, width_lanes=Value(8), width_lanes_max=Value(8))], "pcie_width_lower", WARNING, "gpu"),
    ("a slower slot", L40S, [pcie(0, generation_max=Value(3), generation=Value(1))], "pcie_generation_max_lower", WARNING, "gpu"),
    ("stuck at generation 2 under load (rtx6kpro#88)", L40S, [gpu(0, utilisation_ratio=Value(0.9)), pcie(0, generation=Value(2))], "pcie_generation_low_under_load", WARNING, "gpu"),
    ("a loaded GPU in a slower slot is one change", L40S, [gpu(0, utilisation_ratio=Value(0.9)), pcie(0, generation=Value(3), generation_max=Value(3))], "pcie_generation_max_lower", WARNING, "gpu"),
    ("NUMA node, with all affinity that follows (NVIDIA/nccl#1674)", HGX, [gpu(0, numa_node=Value(1), cpu_affinity=Value("32-63"), memory_affinity=Value("1"))], "numa_node", WARNING, "gpu"),
    ("affinity alone", HGX, [gpu(0, cpu_affinity=Value("0-7"), memory_affinity=Value("1"))], "affinity", WARNING, "gpu"),
    ("MIG on: no P2P, other labels, values that are not supported (vllm#8947)", HGX, [gpu(2, mig_mode=ON, mig_mode_pending=ON, utilisation_ratio=NOT_SUPPORTED, fabric=NOT_SUPPORTED), label("SYS", *[(2, b) for b in range(8) if b != 2]), p2p(P2pStatus.NS, *[(2, b) for b in range(8) if b != 2])], "mig_mode", WARNING, "gpu"),
    ("MIG on everywhere", HGX, [gpu(mig_mode=ON, mig_mode_pending=ON)], "mig_mode", WARNING, "host"),
    ("MIG pending", HGX, [gpu(2, mig_mode_pending=ON)], "mig_pending", WARNING, "gpu"),
    ("ECC off", HGX, [gpu(2, ecc_mode=OFF, ecc_mode_pending=OFF)], "ecc_mode", WARNING, "gpu"),
    ("ECC pending", HGX, [gpu(2, ecc_mode_pending=OFF)], "ecc_pending", WARNING, "gpu"),
    ("a row waits to be remapped", HGX, [gpu(2, remapped_rows_pending=ON)], "row_remap_pending", WARNING, "gpu"),
    ("row remapping failed", HGX, [gpu(2, remapped_rows_failure=ON)], "row_remap_failed", CRITICAL, "gpu"),
    ("the driver asks for a reset", HGX, [gpu(2, recovery_action=Value(1))], "recovery_needed", CRITICAL, "gpu"),
    ("a NIC gone", HGX, [without_nics(NIC)], "nic_gone", WARNING, "nic"),
    ("all NICs gone", HGX, [without_nics()], "nic_gone", CRITICAL, "host"),
    ("all ports down", HGX, [nic(None, ports_up={1: False})], "nic_port_down", CRITICAL, "host"),
    ("a NIC replaced", HGX, [nic(NIC, node_guid="a088:c203:00ff:0000")], "nic_replaced", WARNING, "nic"),
    ("a NIC renamed, the same GUID (NVIDIA/nccl#1363)", HGX, [nic(NIC, name="rocep93s0")], "nic_renamed", INFO, "nic"),
    ("a NIC at another bus id after a reboot", HGX, [nic(NIC, pci_bus_id="0000:fe:00.0"), reboot()], "nic_moved", INFO, "nic"),
    ("a NIC at half its rate", HGX, [nic(NIC, rate_bits_per_second=Value(200_000_000_000))], "nic_slower", WARNING, "nic"),
    ("a NIC on another NUMA node", HGX, [nic(NIC, numa_node=Value(1))], "numa_node", WARNING, "nic"),
    ("PIX -> SYS from a NIC to its GPU", HGX, [nic_to_gpu(3, PathLevel.SYS, NIC)], "nic_path_longer", WARNING, "nic"),
    ("a GPU far from every NIC", HGX, [nic_to_gpu(3, PathLevel.SYS, "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")], "nic_path_longer", WARNING, "gpu"),
    ("silent GPU after a reset that is still needed", HGX, None, "gpu_missing", CRITICAL, "gpu"),
]  # fmt: skip


def reset_required(snapshot):
    """GPU 4 is counted, and answers RESET_REQUIRED."""
    bus_id = snapshot.gpus[4].pci_bus_id
    silent = SilentGpu(None, bus_id, Unreadable(UnreadableReason.RESET_REQUIRED))
    return replace(without_gpus(4)(snapshot), silent_gpus=(silent,))


@pytest.mark.parametrize("row", EDITED_FAULTS, ids=[row[0] for row in EDITED_FAULTS])
def test_a_fault_is_exactly_one_change(row):
    what, name, edits, kind, level, subject = row
    accepted = snapshot_of(name)
    if what == "a GPU added":
        accepted, current = without_gpus(3)(accepted), accepted
    elif edits is None:
        current = reset_required(accepted)
    else:
        current = edited(accepted, *edits)
    assert facts(diff(accepted, current)) == [(kind, level.value, subject)]


def test_the_only_nic_is_worth_more_than_one_of_eight():
    accepted = edited(snapshot_of(HGX), only_nic(NIC))
    assert facts(diff(accepted, edited(accepted, without_nics()))) == [("nic_gone", "critical", "nic")]
    assert facts(diff(accepted, edited(accepted, nic(NIC, ports_up={1: False})))) == [
        ("nic_port_down", "critical", "nic")
    ]


AMD_FAULTS = [
    ("a link down has two ends", [xgmi_down(1, 4), xgmi_down(2, 5)], "xgmi_down", CRITICAL, "pair"),
    ("a link of one GPU", [xgmi_down(1, 4)], "xgmi_down", CRITICAL, "gpu"),
    ("xGMI -> PCIe between two GPUs", [pairs(*both_ways((0, 1)), xgmi=NOT_SUPPORTED)], "link_lost", CRITICAL, "pair"),
    ("more weight, so more hops", [pairs(*both_ways((0, 1)), xgmi=lambda it: Value(replace(it.xgmi.value, weight=Value(30))))], "xgmi_farther", CRITICAL, "pair"),
    ("one hive became two (cases/13)", [gpu(0, 1, 2, 3, xgmi_hive=Value("0xb2"))], "xgmi_hive", CRITICAL, "host"),
    ("partition mode", [gpu(2, compute_partition=Value("CPX"))], "partition_mode", WARNING, "gpu"),
    ("memory partition everywhere", [gpu(memory_partition=Value("NPS4"))], "partition_mode", WARNING, "host"),
    ("xGMI paths of one GPU unreadable", [pairs((0, 1), xgmi=LOST)], "visibility_lost", INFO, "readings"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("edits", "kind", "level", "subject"),
    [row[1:] for row in AMD_FAULTS],
    ids=[row[0] for row in AMD_FAULTS],
)
def test_a_fault_of_an_amd_host_is_exactly_one_change(edits, kind, level, subject):
    accepted = as_amd(snapshot_of(HGX))
    assert facts(diff(accepted, edited(accepted, *edits))) == [(kind, level.value, subject)]


def all_xgmi_down(snapshot):
    return edited(snapshot, *(xgmi_down(place, *range(7)) for place in range(8)))


def test_in_a_virtual_machine_all_xgmi_links_read_down_and_are_not():
    """ROCm/rocm-systems#2053."""
    accepted = as_amd(edited(snapshot_of(HGX), host(is_virtual=Value(value=True))))
    assert diff(accepted, all_xgmi_down(accepted)) == ()
    bare_metal = as_amd(snapshot_of(HGX))
    assert facts(diff(bare_metal, all_xgmi_down(bare_metal))) == [("xgmi_down", "critical", "host")]


def test_hives_are_called_anew_at_each_boot():
    accepted = as_amd(snapshot_of(HGX))
    assert diff(accepted, edited(accepted, gpu(xgmi_hive=Value("0xc3")), reboot())) == ()


# --- false alarms ------------------------------------------------------------------------------------------------------


def asleep(snapshot):
    silent = SilentGpu(None, snapshot.gpus[4].pci_bus_id, Unreadable(UnreadableReason.ASLEEP))
    return replace(without_gpus(4)(snapshot), silent_gpus=(silent,))


def without_bridge(snapshot):
    """12 of 18 links up by design (Azure/azurehpc-health-checks#162)."""
    return edited(snapshot, *(links(place, *range(12, 18), is_up=OFF) for place in range(8)), with_counts)


FALSE_ALARMS = [
    ("generation 1 at idle (Syllo/nvtop#6)", L40S, [], [pcie(generation=Value(1)), gpu(performance_state=Value(8), utilisation_ratio=Value(0.0))]),
    ("generation 1 in P8 with a busy sample", L40S, [], [pcie(generation=Value(1)), gpu(performance_state=Value(8), utilisation_ratio=Value(0.3))]),
    ("generation 1 and nobody says whether it is loaded", L40S, [], [pcie(generation=Value(1)), gpu(utilisation_ratio=NOT_SUPPORTED)]),
    ("links that were down when accepted (NVIDIA/NVSentinel#1481)", HGX, [without_bridge], [reboot()]),
    ("a fabric that is not supported (leptonai/gpud#1147)", HGX, [fabric(state=0)], [fabric(clique_id=4)]),
    ("fabric identity after a reboot", HGX, [], [reboot(), fabric(clique_id=9, cluster_uuid="another")]),
    ("partition assigned and fabric manager state are no faults", HGX, [], [fabric(health_mask=(1 << 12) | (1 << 14))]),
    ("two-bit fields: 2 is false", HGX, [], [fabric(health_mask=0b10101010)]),
    ("index and minor number moved (tensorflow#32881)", HGX, [], [gpu(index=lambda it: 7 - it.index, minor_number=lambda it: Value(7 - it.index)), reboot()]),
    ("GPUs listed in another order", HGX, [], [lambda it: replace(it, gpus=it.gpus[::-1], pairs=it.pairs[::-1], nics=it.nics[::-1])]),
    ("more CPUs online: affinity lists differ", HGX, [], [host(cpu_count=64), gpu(cpu_affinity=Value("0-7"))]),
    ("another cpuset: affinity lists differ (rapidsai/dask-cuda#1358)", HGX, [host(cpuset=Value("CPUs 0-127"))], [host(cpuset=Value("CPUs 0-7")), gpu(cpu_affinity=Value("0-7"))]),
    ("a sleeping GPU", HGX, [], [asleep]),
    ("counters grew", HGX, [], [gpu(ecc_errors=Value({"corrected": 99, "uncorrected": 0})), links(0, errors=Value({"replay": 12}))]),
    ("counters were not asked", HGX, [], [links(0, errors=Unreadable(UnreadableReason.NOT_ASKED))]),
    ("busy, hot, full", HGX, [], [gpu(memory_used_bytes=Value(1), utilisation_ratio=Value(1.0), performance_state=Value(0))]),
    ("P2P unknown is no answer (unslothai/unsloth#10720)", L40S, [], [p2p(P2pStatus.U)]),
    ("P2P refused in other words", NO_P2P, [p2p(CNS)], [p2p(P2pStatus.GNS)]),
    ("NUMA -1 is unknown (NVIDIA/nccl#1674)", HGX, [gpu(numa_node=NOT_SUPPORTED)], [gpu(numa_node=Value(1))]),
    ("the rate of a port that is down", HGX, [nic(NIC, ports_up={1: False})], [nic(NIC, rate_bits_per_second=Value(10**9))]),
    ("two NICs that share a GUID", HGX, [nic(None, node_guid="0000:0000:0000:0000")], [reboot()]),
    ("a new kernel", HGX, [], [reboot(kernel="6.12.1")]),
    ("a link that does not say how fast it is", HGX, [], [links(3, 7, speed_bytes_per_second=NOT_SUPPORTED, version=LOST)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "before", "edits"),
    [row[1:] for row in FALSE_ALARMS],
    ids=[row[0] for row in FALSE_ALARMS],
)
def test_a_false_alarm_raises_nothing(name, before, edits):
    accepted = edited(snapshot_of(name), *before)
    current = edited(accepted, *edits)
    assert current != accepted
    assert diff(accepted, current) == ()


def test_a_new_driver_may_give_out_fabric_identities_anew():
    accepted = snapshot_of(HGX)
    current = edited(accepted, host(driver_version=Value("590.1")), fabric(clique_id=9))
    assert facts(diff(accepted, current)) == [("driver", "info", "host")]


def test_a_container_with_fewer_gpus_has_lost_sight_of_them_and_no_gpu():
    given = [host(container_devices=Value(which), cpuset=Value(which)) for which in ("all", "0,1,2,3")]
    accepted = edited(snapshot_of(HGX), given[0])
    current = edited(accepted, without_gpus(4, 5, 6, 7), given[1])
    assert facts(diff(accepted, current)) == [("visibility_lost", "warning", "readings")] * 4
    assert diff(current, accepted) == ()
    lost = edited(accepted, without_gpus(4), host(cpuset=Value("CPUs 0-7")))
    assert facts(diff(accepted, lost)) == [("gpu_missing", "critical", "gpu")]


def test_what_was_accepted_bad_is_not_told_again():
    accepted = edited(
        snapshot_of(HGX, "fabric_in_progress", "link_down,gpu=3,link=7"),
        gpu(2, recovery_action=Value(2), ecc_mode_pending=OFF, remapped_rows_failure=ON),
    )
    assert diff(accepted, edited(accepted, reboot())) == ()


# --- several at once, and what a person reads --------------------------------------------------------------------------


def test_two_faults_are_two_changes_worst_first():
    current = edited(snapshot_of(HGX, "link_down,gpu=3,link=7"), without_nics(NIC))
    assert facts(diff(snapshot_of(HGX), current)) == [
        ("nvlink_down", "critical", "gpu"),
        ("nic_gone", "warning", "nic"),
    ]


def test_a_nic_below_the_switch_of_a_missing_gpu_is_silent_with_it():
    changes = diff(snapshot_of(HGX), edited(snapshot_of(HGX), without_gpus(3), without_nics(NIC)))
    assert facts(changes) == [("gpu_missing", "critical", "gpu")]


def test_a_direct_link_lost_between_two_gpus_takes_p2p_with_it():
    accepted = snapshot_of(CUBE_MESH)
    first, second = next((pair.gpu, pair.peer) for pair in accepted.pairs if pair.nvlinks == Value(1))
    places = [it.uuid for it in accepted.gpus]
    way = [(places.index(first), places.index(second)), (places.index(second), places.index(first))]
    current = edited(accepted, label("SYS", *way), p2p(CNS, *way, capabilities=tuple(P2pCapability)))
    assert facts(diff(accepted, current)) == [("link_lost", "critical", "pair")]


def test_a_gpu_with_direct_links_that_lost_them_all_is_the_culprit():
    accepted = snapshot_of(CUBE_MESH)
    dead = accepted.gpus[2].pci_bus_id

    def cut(it):
        return Value(
            tuple(
                replace(link, is_up=OFF)
                if it.pci_bus_id == dead or link.remote_pci_bus_id == Value(dead)
                else link
                for link in it.nvlinks.value
            )
        )

    (change,) = diff(accepted, edited(accepted, gpu(nvlinks=cut)))
    assert (change.kind, change.subject.ids) == (ChangeKind.NVLINK_DOWN, (accepted.gpus[2].uuid,))


def test_two_gpus_all_of_whose_pairs_are_short_are_two_culprits():
    ways = [way for a in (1, 5) for b in range(8) if a != b for way in ((a, b), (b, a))]
    changes = diff(snapshot_of(HGX), edited(snapshot_of(HGX), label("NV17", *ways)))
    assert facts(changes) == [("link_downgraded", "critical", "gpu")] * 2


def test_evidence_and_sentence_name_the_thing_as_a_person_finds_it():
    (change,) = diff(snapshot_of(HGX), snapshot_of(HGX, "link_down,gpu=3,link=7"))
    assert change.sentence == "GPU 0000:5d:00.0: NVLink 7 is down"
    assert (change.before, change.after) == ("18 links up", "17 links up")


def test_p2p_evidence_names_capabilities_and_direction():
    (change,) = diff(snapshot_of(L40S), edited(snapshot_of(L40S), p2p(CNS, (0, 1)), reboot(kernel="6.12.1")))
    assert change.sentence.startswith(
        "GPU 0000:03:00.0 -> GPU 0000:04:00.0: P2P read CNS, write CNS, accepted"
    )
    assert change.sentence.endswith("; at the same time kernel 5.15.0-151-generic -> 6.12.1")
    assert (change.before, change.after) == ("read OK, write OK", "read CNS, write CNS")


def test_links_to_a_gpu_whose_remote_type_is_unknown_still_find_their_peer():
    accepted = edited(
        snapshot_of(CUBE_MESH), *(links(place, remote_type=Value(NvLinkRemote.UNKNOWN)) for place in range(8))
    )
    link = next(
        it
        for it in accepted.gpus[0].nvlinks.value
        if it.remote_pci_bus_id == Value(accepted.gpus[1].pci_bus_id)
    )
    current = edited(accepted, links(0, link.link, is_up=OFF))
    (change,) = diff(accepted, current)
    assert change.subject.kind is SubjectKind.PAIR


def test_a_switch_of_which_only_one_gpu_lost_links_is_not_blamed():
    accepted = snapshot_of(HGX)
    switch = accepted.gpus[0].nvlinks.value[0].remote_pci_bus_id
    numbers = [it.link for it in accepted.gpus[0].nvlinks.value if it.remote_pci_bus_id == switch]
    (change,) = diff(accepted, edited(accepted, links(0, *numbers, is_up=OFF)))
    assert change.subject.kind is SubjectKind.GPU
