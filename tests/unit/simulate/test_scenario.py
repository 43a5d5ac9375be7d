"""Loading made-up hosts: those that come with gpumond, those in files, and what is refused."""

from __future__ import annotations

from importlib import resources

import pytest

from gpumond.errors import UsageError
from gpumond.model.topology import NvLinkRemote, P2pCapability, P2pStatus
from gpumond.simulate.faults import FAULTS, GpuLost, LinkDown, fault_from, parse_fault
from gpumond.simulate.scenario import load_scenario, scenario_names, with_faults
from gpumond.simulate.wiring import links_between

# The GPU part of `nvidia-smi topo -m` on a hybrid cube mesh; SYS where the mesh has no link across the sockets.
CUBE_MESH = """
 X  NV1 NV2 NV1 SYS SYS SYS NV2
NV1  X  NV1 NV2 SYS SYS NV2 SYS
NV2 NV1  X  NV2 SYS NV1 SYS SYS
NV1 NV2 NV2  X  NV1 SYS SYS SYS
SYS SYS SYS NV1  X  NV2 NV2 NV1
SYS SYS NV1 SYS NV2  X  NV1 NV2
SYS NV2 SYS SYS NV2 NV1  X  NV1
NV2 SYS SYS SYS NV1 NV2 NV1  X
"""


def labels(scenario):
    """The matrix as nvidia-smi prints it."""
    levels = {(pair.gpu, pair.peer): pair.level.value for pair in scenario.pairs}
    rows = []
    for number, gpu in enumerate(scenario.gpus):
        cells = []
        for peer_number, peer in enumerate(scenario.gpus):
            links = links_between(gpu, peer)
            cells.append("X" if gpu is peer else f"NV{links}" if links else levels[number, peer_number])
        rows.append(cells)
    return rows


def statuses(scenario, capability):
    return {pair.p2p[capability] for pair in scenario.pairs}


def refusal(function, *arguments):
    with pytest.raises(UsageError) as raised:
        function(*arguments)
    return raised.value


def test_the_scenarios_that_the_documentation_names():
    assert scenario_names() == (
        "dgx1-v100-cube-mesh",
        "gh200-1",
        "h200-2-vm",
        "hgx-a100-8",
        "hgx-b200-8",
        "hgx-h100-8",
        "hgx-h200-8",
        "l40s-8-pcie",
        "mi300x-8",
        "mi300x-8-guest",
        "mi355x-8",
        "rtx4080-10-no-p2p",
        "rtx4090-4-no-p2p",
        "rtx5090-2-no-p2p",
        "rtxpro6000-8-pcie",
    )


def test_the_cube_mesh_is_the_real_one():
    assert labels(load_scenario("dgx1-v100-cube-mesh")) == [
        row.split() for row in CUBE_MESH.split("\n")[1:-1]
    ]


def test_behind_nvswitch_every_pair_has_all_links():
    for name in ("hgx-h200-8", "h200-2-vm"):
        scenario = load_scenario(name)
        assert {cell for row in labels(scenario) for cell in row} == {"X", "NV18"}
        assert {link.remote_type for gpu in scenario.gpus for link in gpu.links} == {NvLinkRemote.SWITCH}


def test_pcie_hosts():
    l40s = labels(load_scenario("l40s-8-pcie"))
    assert l40s[0] == ["X", "PIX", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]
    rtx = load_scenario("rtx5090-2-no-p2p")
    assert labels(rtx) == [["X", "PHB"], ["PHB", "X"]]
    assert statuses(rtx, P2pCapability.READ) == {P2pStatus.GNS}
    mesh = load_scenario("dgx1-v100-cube-mesh")
    assert statuses(mesh, P2pCapability.READ) == {P2pStatus.OK, P2pStatus.TNS}


def test_an_unknown_name_gets_a_suggestion():
    error = refusal(load_scenario, "hgx-h200")
    assert (error.message, error.hint) == ("unknown scenario 'hgx-h200'", "Did you mean hgx-h200-8?")
    assert "Known scenarios: dgx1" in refusal(load_scenario, "zzz").hint


def test_a_file_that_breaks_a_host(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text('base = "hgx-h200-8"\n[[faults]]\nkind = "link_down"\ngpu = 3\nlink = 7\n')
    assert load_scenario(str(path)).faults == (LinkDown(gpu=3, link=7),)


BAD_FILES = {
    "not TOML": ("base = ", "is no scenario"),
    "unknown base": ('base = "hgx"', "unknown scenario 'hgx'"),
    "more than faults": ('base = "hgx-h200-8"\nmodel = "h200"', "unknown key 'model'"),
    "unknown fault": ('base = "hgx-h200-8"\n[[faults]]\nkind = "gpu_lots"', "unknown fault 'gpu_lots'"),
    "impossible fault": (
        'base = "hgx-h200-8"\n[[faults]]\nkind = "gpu_lost"\ngpu = 8',
        "fault_targets_exist",
    ),
    "missing keys": ('description = "x"', "model: Field required; host: Field required"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_with_its_place(tmp_path, case):
    text, message = BAD_FILES[case]
    path = tmp_path / "host.toml"
    path.write_text(text)
    assert message in refusal(load_scenario, str(path)).message


BAD_HOSTS = {
    "pci": ('pci = "0000:00:06.0"', 'pci = "00:06"', "gpus.0.pci"),
    "path": ('path = "pci0000:00"', 'path = "somewhere"', "gpus.0.path"),
    "model": ('model = "h200"', 'model = "h300"', "unknown GPU model 'h300'"),
    "switches": ("hidden = true", "", "name the switches"),
    "mesh": ('"nvswitch"\nhidden = true', '"mesh"\npairs = [[0, 2, 18]]', "joins GPU 0 and GPU 2 of 2"),
    "cpus": ('["0-31"]', '["all"]', "host.numa_nodes.0"),
    "version": ('"580.159.04"', '"newest"', "host.driver_version"),
    "rule": ("numa = -1", "numa = 5", "numa_node_exists: GPU 0000:00:06.0 is on NUMA node 5"),
}


@pytest.mark.parametrize("case", BAD_HOSTS)
def test_a_bad_host_is_refused_with_its_place(tmp_path, case):
    old, new, message = BAD_HOSTS[case]
    text = built_in_text("h200-2-vm")
    assert old in text
    path = tmp_path / "host.toml"
    path.write_text(text.replace(old, new))
    assert message in refusal(load_scenario, str(path)).message


def built_in_text(name):
    return (resources.files("gpumond.simulate") / "scenarios" / f"{name}.toml").read_text(encoding="utf-8")


def test_a_missing_file():
    assert "No such file" in refusal(load_scenario, "/nowhere/host.toml").message


def test_a_built_in_host_as_a_file_is_the_same_host(tmp_path):
    path = tmp_path / "h200-2-vm.toml"
    path.write_text(built_in_text("h200-2-vm"))
    assert load_scenario(str(path)) == load_scenario("h200-2-vm")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu_lots,gpu=1", "unknown fault 'gpu_lots'"),
        ("gpu_lost", "fault gpu_lost: gpu: Field required"),
        ("gpu_lost,gpu=x", "fault gpu_lost: gpu: Input should be a valid integer"),
        ("gpu_lost,gpu=1,link=3", "fault gpu_lost has no key 'link'"),
        ("gpu_lost,1", "not a fault setting: '1'"),
    ],
)
def test_a_bad_fault(text, message):
    error = refusal(parse_fault, text)
    assert error.message.startswith(message)
    assert error.hint


def test_a_fault_reads_the_same_from_a_line_and_from_a_table():
    expected = GpuLost(gpu=3, after_seconds=1.5)
    assert parse_fault("gpu_lost, gpu=3, after_seconds=1.5") == expected
    assert fault_from({"kind": "gpu_lost", "gpu": 3, "after_seconds": 1.5}) == expected


def test_every_fault_is_known_by_its_kind():
    assert [fault.__dataclass_fields__["kind"].default for fault in FAULTS.values()] == list(FAULTS)
    assert len(FAULTS) == 19


def test_faults_that_contradict_the_host_are_refused():
    assert (
        "fault_calls_exist"
        in refusal(with_faults, load_scenario("h200-2-vm"), [parse_fault("call_hangs,call=x")]).message
    )
