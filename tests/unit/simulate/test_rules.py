"""Each rule refuses the world that it is there for; the built-in worlds pass, with any faults that fit them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumond.model.benchmark import Collective
from gpumond.model.topology import (
    NvLinkRemote,
    P2pCapability,
    P2pStatus,
    PathLevel,
    Vendor,
    XgmiLinkState,
)
from gpumond.simulate import faults
from gpumond.simulate.hardware import struck
from gpumond.simulate.rules import RULES, Violation, check
from gpumond.simulate.scenario import load_scenario, scenario_names, with_faults
from gpumond.simulate.world import (
    NumaNode,
    ScenarioFabric,
    ScenarioProcess,
    ScenarioXgmi,
    ScenarioXgmiPath,
)

HGX = load_scenario("hgx-h200-8")
MESH = load_scenario("dgx1-v100-cube-mesh")
PCIE = load_scenario("l40s-8-pcie")
AMD = load_scenario("mi300x-8")
UP, DISABLED = XgmiLinkState.UP, XgmiLinkState.DISABLED


def with_gpu(scenario, number, **changes):
    gpus = list(scenario.gpus)
    gpus[number] = replace(gpus[number], **changes)
    return replace(scenario, gpus=tuple(gpus))


def with_link(scenario, number, link, /, **changes):
    links = list(scenario.gpus[number].links)
    links[link] = replace(links[link], **changes)
    return with_gpu(scenario, number, links=tuple(links))


def with_pair(scenario, gpu, peer, **changes):
    pairs = [replace(it, **changes) if (it.gpu, it.peer) == (gpu, peer) else it for it in scenario.pairs]
    return replace(scenario, pairs=tuple(pairs))


def with_host(scenario, **changes):
    return replace(scenario, host=replace(scenario.host, **changes))


def with_model(scenario, number, **changes):
    return with_gpu(scenario, number, model=replace(scenario.gpus[number].model, **changes))


def p2p(scenario, gpu, peer):
    return next(pair.p2p for pair in scenario.pairs if (pair.gpu, pair.peer) == (gpu, peer))


def with_fault(scenario, fault):
    return replace(scenario, faults=(fault,))


REJECTED = {
    "unique_uuids": with_gpu(HGX, 1, uuid=HGX.gpus[0].uuid),
    "unique_pci_bus_ids": replace(HGX, nics=(replace(HGX.nics[0], pci_bus_id=HGX.gpus[0].pci_bus_id),)),
    "unique_minor_numbers": with_gpu(HGX, 1, minor=0),
    "unique_module_ids": with_gpu(HGX, 1, module_id=HGX.gpus[0].module_id),
    "unique_nic_names": replace(HGX, nics=(HGX.nics[0], replace(HGX.nics[1], name="mlx5_0"))),
    "numa_cpus_exist": with_host(HGX, numa_nodes=(NumaNode(0, "0-63"), NumaNode(1, "63-128"))),
    "numa_node_exists": with_gpu(HGX, 0, numa_node=2, memory_node=2),
    "memory_node_agrees": with_gpu(HGX, 0, memory_node=1),
    "host_bridge_has_one_node": with_gpu(HGX, 0, numa_node=1, memory_node=1),
    "pcie_width_is_real": with_gpu(HGX, 0, pcie_width=12),
    "pcie_within_maximum": with_gpu(HGX, 0, pcie_generation=6),
    "memory_within_total": with_gpu(HGX, 0, processes=(ScenarioProcess(7, "compute", 1),)),
    "link_count_within_model": with_model(HGX, 0, nvlinks_max=17),
    "link_numbers_consecutive": with_link(HGX, 0, 3, link=4),
    "link_peer_exists": with_link(HGX, 0, 0, peer="0000:ff:00.0"),
    "link_leaves_its_gpu": with_link(MESH, 0, 0, peer=MESH.gpus[0].pci_bus_id),
    "links_symmetric": with_link(MESH, 0, 0, is_up=False),
    "links_of_one_kind": with_link(MESH, 0, 0, remote_type=NvLinkRemote.SWITCH, peer=None),
    "fabric_needs_nvswitch": with_gpu(MESH, 0, fabric=ScenarioFabric(state=3)),
    "fabric_state_is_real": with_gpu(HGX, 0, fabric=ScenarioFabric(state=4)),
    "every_pair_once": replace(HGX, pairs=HGX.pairs[1:]),
    "levels_symmetric": with_pair(HGX, 0, 1, level=PathLevel.PIX),
    "level_follows_pci_tree": with_pair(with_pair(HGX, 0, 1, level=PathLevel.PHB), 1, 0, level=PathLevel.PHB),
    "p2p_nvlink_needs_links": with_pair(
        PCIE, 0, 1, p2p=p2p(PCIE, 0, 1) | {P2pCapability.NVLINK: P2pStatus.OK}
    ),
    "p2p_answers_complete": with_pair(HGX, 0, 1, p2p={P2pCapability.READ: P2pStatus.OK}),
    "driver_and_library_agree": with_host(HGX, nvml_version="13.590.48.01"),
    "one_vendor": replace(HGX, gpus=(*HGX.gpus[:7], AMD.gpus[7])),
    "uuid_of_its_vendor": with_gpu(AMD, 0, uuid=HGX.gpus[0].uuid),
    "amd_versions_known": with_host(AMD, amdsmi_version=""),
    "faults_of_its_vendor": with_fault(AMD, faults.DriverMismatch()),
    "xgmi_of_amd": with_gpu(HGX, 0, xgmi=ScenarioXgmi(1, (UP,))),
    "xgmi_links_lead_away": with_gpu(AMD, 0, xgmi=replace(AMD.gpus[0].xgmi, links=(DISABLED, UP, UP))),
    "xgmi_within_a_hive": with_gpu(AMD, 0, xgmi=replace(AMD.gpus[0].xgmi, hive_id=7)),
    "xgmi_symmetric": with_pair(AMD, 0, 1, xgmi=ScenarioXgmiPath(30, 64_000)),
    "xgmi_weight_is_real": with_pair(AMD, 0, 1, xgmi=ScenarioXgmiPath(20, 64_000)),
    "amd_access_is_one_answer": with_pair(
        AMD, 0, 1, p2p=p2p(AMD, 0, 1) | {P2pCapability.WRITE: P2pStatus.NS}
    ),
    "partitions_are_real": with_gpu(AMD, 0, compute_partition="NPS1"),
    "curves_are_possible": replace(HGX, curves=(replace(HGX.curves[0], peak_gbps=0.0),)),
    "fault_targets_exist": with_fault(HGX, faults.LinkDown(gpu=0, link=18)),
    "fault_calls_exist": with_fault(HGX, faults.CallHangs(call="nvmlDeviceGetMood")),
}


def broken_rules(scenario):
    return {violation.rule for violation in check(scenario)}


def test_every_rule_has_a_rejected_example():
    assert set(REJECTED) == {rule.__name__ for rule in RULES}
    assert len(RULES) >= 15


@pytest.mark.parametrize("rule", REJECTED)
def test_a_rule_refuses_its_example(rule):
    assert rule in broken_rules(REJECTED[rule])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_rule_says_what_it_is_about(rule):
    assert rule.__doc__


@pytest.mark.parametrize("name", scenario_names())
def test_the_built_in_worlds_could_exist(name):
    assert check(load_scenario(name)) == ()


def test_a_violation_holds_the_offending_value():
    assert check(REJECTED["pcie_width_is_real"]) == (
        Violation("pcie_width_is_real", "GPU 0000:18:00.0 has a PCIe link of 12 lanes"),
    )


@pytest.mark.parametrize(
    "fault",
    [
        faults.GpuLost(gpu=8),
        faults.GpuLost(gpu=-1),
        faults.PcieWidth(gpu=0, lanes=3),
        faults.NicDown(nic="mlx5_8"),
        faults.LinkErrors(gpu=9, link=0, count=1),
    ],
)
def test_a_fault_strikes_what_is_there(fault):
    assert broken_rules(with_fault(HGX, fault)) == {"fault_targets_exist"}


@pytest.mark.parametrize(
    ("fault", "rules"),
    [
        (faults.LinkDown(gpu=2, link=8), {"fault_targets_exist"}),
        (faults.LinkDown(gpu=2, link=2), {"fault_targets_exist"}),  # its own place in the hive: not wired
        (faults.CallHangs(call="nvmlDeviceGetName"), {"fault_calls_exist"}),
        (faults.CallHangs(call="amdsmi_init"), set()),
        (faults.LinkDown(gpu=2, link=3), set()),
        (faults.LinkErrors(gpu=2, link=3, count=1), {"fault_targets_exist", "faults_of_its_vendor"}),
    ],
)
def test_a_fault_strikes_what_an_amd_host_has(fault, rules):
    assert broken_rules(with_fault(AMD, fault)) == rules


def test_an_amd_pair_answers_for_what_amd_knows():
    unanswered = with_pair(
        AMD, 0, 1, p2p={P2pCapability.READ: P2pStatus.OK, P2pCapability.WRITE: P2pStatus.OK}
    )
    assert [violation.message for violation in check(unanswered)] == [
        "the pair 0 -> 1 has no answer for P2P atomics"
    ]
    assert not {P2pCapability.NVLINK, P2pCapability.PCI} & set(p2p(AMD, 0, 1))


def test_a_fabric_fault_needs_a_fabric():
    assert broken_rules(with_fault(MESH, faults.FabricInProgress())) == {"fault_targets_exist"}


def test_every_contradiction_is_listed():
    worst = with_gpu(with_gpu(HGX, 1, uuid=HGX.gpus[0].uuid, minor=0), 2, pcie_width=5)
    assert {"unique_uuids", "unique_minor_numbers", "pcie_width_is_real"} <= broken_rules(worst)


@st.composite
def scenarios_with_faults(draw):
    scenario = load_scenario(draw(st.sampled_from(scenario_names())))
    return with_faults(scenario, draw(st.lists(legal_faults(scenario), max_size=5)))


def legal_faults(scenario):
    gpu = st.integers(0, len(scenario.gpus) - 1)
    due = st.sampled_from([0.0, 10.0])
    is_amd = scenario.vendor is Vendor.AMD
    call = st.sampled_from(
        ["amdsmi_get_gpu_asic_info", "amdsmi_topo_get_link_type"]
        if is_amd
        else ["nvmlDeviceGetName", "nvmlDeviceGetNvLinkState", "nvmlDeviceGetMemoryInfo_v2"]
    )
    kinds = [
        st.builds(faults.GpuLost, gpu=gpu, after_seconds=due),
        st.builds(faults.GpuMissing, gpu=gpu, after_seconds=due),
        st.builds(faults.NoPermission, gpu=gpu, after_seconds=due),
        st.builds(faults.NotSupported, call=call, gpu=st.none() | gpu, after_seconds=due),
        st.builds(faults.PcieWidth, gpu=gpu, lanes=st.sampled_from([1, 4, 8]), after_seconds=due),
        st.builds(faults.GpuBusy, gpu=gpu, pid=st.integers(2, 9), after_seconds=due),
        st.builds(faults.DriverNotLoaded if is_amd else faults.DriverMismatch, after_seconds=due),
        st.builds(faults.BusbwSlow, factor=st.floats(0.1, 1.0), collective=st.sampled_from(Collective)),
    ]
    links = len(scenario.gpus[0].links)
    if links:
        link = st.integers(0, links - 1)
        kinds.append(st.builds(faults.LinkDown, gpu=gpu, link=link, after_seconds=due))
        kinds.append(st.builds(faults.LinkErrors, gpu=gpu, link=link, count=st.integers(0, 99)))
    if is_amd:
        ends = st.tuples(gpu, gpu).filter(lambda it: it[0] != it[1])
        kinds.append(ends.map(lambda it: faults.LinkDown(gpu=it[0], link=it[1])))
    if scenario.gpus[0].fabric:
        kinds.append(st.builds(faults.FabricInProgress, after_seconds=due))
    if scenario.nics:
        kinds.append(st.builds(faults.NicDown, nic=st.sampled_from([nic.name for nic in scenario.nics])))
    return st.one_of(kinds)


@settings(max_examples=60, deadline=None)
@given(scenario=scenarios_with_faults(), elapsed=st.sampled_from([0.0, 5.0, 10.0]))
def test_faults_leave_a_world_that_could_exist(scenario, elapsed):
    assert check(struck(scenario, elapsed)) == ()
