from __future__ import annotations

import pytest

from gpumond.model.reading import NOT_SUPPORTED, Value
from gpumond.model.topology import PathLevel, Vendor
from gpumond.probe.sysfs import path_level, pci_inventory

SWITCH = "pci0000:15/0000:15:01.0/0000:16:00.0"  # root port, upstream port of a switch


def chain(text):
    return tuple(text.split("/"))


GPU = chain(f"{SWITCH}/0000:17:00.0/0000:18:00.0")


@pytest.mark.parametrize(
    ("other", "level"),
    [
        (f"{SWITCH}/0000:17:01.0/0000:19:00.0", "PIX"),  # another port of the same switch
        (f"{SWITCH}/0000:17:00.0/0000:18:00.1", "PIX"),  # another function of the same device
        (
            f"{SWITCH}/0000:17:02.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0",
            "PXB",
        ),  # a switch behind the switch
        (f"{SWITCH}/0000:17:02.0/0000:1a:00.0/0000:1b:00.0", "PXB"),  # a bridge behind the switch
        ("pci0000:15/0000:15:02.0/0000:20:00.0", "PHB"),  # another root port
        ("pci0000:15/0000:15:03.0", "PHB"),  # an endpoint in the root complex
    ],
)
def test_levels_below_one_host_bridge(other, level):
    assert path_level(GPU, chain(other), None, None) is PathLevel(level)
    assert path_level(chain(other), GPU, None, None) is PathLevel(level)


@pytest.mark.parametrize(
    ("node", "other_node", "level"),
    [(0, 0, PathLevel.NODE), (0, 1, PathLevel.SYS), (0, None, None), (None, None, None)],
)
def test_levels_between_host_bridges_need_both_numa_nodes(node, other_node, level):
    assert path_level(GPU, chain("pci0000:80/0000:80:01.0/0000:81:00.0"), node, other_node) is level


def test_a_device_without_a_bridge_chain_has_no_level():
    assert path_level((), GPU, 0, 0) is None


def test_gpus_are_nvidias_display_devices_ordered_by_bus_id(tree):
    tree.add_pci("pci0000:00/0000:00:07.0")
    tree.add_pci("pci0000:00/0000:00:06.0", pci_class="0x030000")
    tree.add_pci("pci0000:00/0000:00:08.0", pci_class="0x068000")  # an NVSwitch
    tree.add_pci("pci0000:00/0000:00:09.0", vendor="0x1af4")
    gpus = pci_inventory(tree.root).gpus
    assert [gpu.bus_id for gpu in gpus] == ["0000:00:06.0", "0000:00:07.0"]
    assert gpus[0].path == ("pci0000:00", "0000:00:06.0")


@pytest.mark.parametrize(("driver", "expected"), [("nvidia", 1), ("vfio-pci", 0)])
def test_a_gpu_given_away_to_a_virtual_machine_is_none_of_ours(tree, driver, expected):
    tree.add_driver(tree.add_pci("pci0000:00/0000:00:06.0"), driver)
    assert len(pci_inventory(tree.root).gpus) == expected


@pytest.mark.parametrize(
    ("vendor", "pci_class", "expected"),
    [
        ("0x1002", "0x120000", 1),  # Instinct
        ("0x1002", "0x038000", 1),
        ("0x1002", "0x030000", 1),
        ("0x1002", "0x040300", 0),  # the sound of a graphics card
        ("0x1022", "0x118000", 0),  # the NPU of a CPU
        ("0x10de", "0x030200", 0),
    ],
)
def test_gpus_of_amd(tree, vendor, pci_class, expected):
    tree.add_pci("pci0000:08/0000:0c:00.0", vendor=vendor, pci_class=pci_class)
    assert len(pci_inventory(tree.root, Vendor.AMD).gpus) == expected


def test_numa_minus_one_is_unknown_and_not_a_node(tree):
    tree.add_pci("pci0000:00/0000:00:06.0", numa=-1)
    tree.add_pci("pci0000:00/0000:00:07.0", numa=8)
    assert [gpu.numa_node for gpu in pci_inventory(tree.root).gpus] == [None, 8]


@pytest.mark.parametrize(
    ("status", "is_asleep"),
    [("active", False), ("suspended", True), ("suspending", True), ("unsupported", False)],
)
def test_a_sleeping_gpu_is_seen_without_waking_it(tree, status, is_asleep):
    tree.add_pci("pci0000:00/0000:00:06.0", **{"power/runtime_status": status})
    assert pci_inventory(tree.root).gpus[0].is_asleep is is_asleep


@pytest.mark.parametrize(
    ("speed", "generation"),
    [
        ("2.5 GT/s PCIe", Value(1)),
        ("8.0 GT/s PCIe", Value(3)),
        ("8 GT/s", Value(3)),  # before Linux 5.x
        ("32.0 GT/s PCIe", Value(5)),
        ("64.0 GT/s PCIe", Value(6)),
        ("Unknown", NOT_SUPPORTED),
        ("", NOT_SUPPORTED),
    ],
)
def test_pcie_generation_from_the_transfer_rate(tree, speed, generation):
    tree.add_pci("pci0000:00/0000:00:06.0", current_link_speed=speed)
    assert pci_inventory(tree.root).gpus[0].link.generation == generation


@pytest.mark.parametrize(
    ("width", "lanes"),
    [("16", Value(16)), ("0", NOT_SUPPORTED), ("63", NOT_SUPPORTED), ("255", NOT_SUPPORTED)],
)
def test_pcie_width_of_a_device_that_left_the_bus_is_no_number_of_lanes(tree, width, lanes):
    tree.add_pci("pci0000:00/0000:00:06.0", current_link_width=width)
    assert pci_inventory(tree.root).gpus[0].link.width_lanes == lanes


def test_iommu_group_type_is_in_the_kernels_words(tree):
    tree.add_iommu_group(tree.add_pci("pci0000:00/0000:00:06.0"), 7, "DMA-FQ")
    tree.add_pci("pci0000:00/0000:00:07.0")
    assert [gpu.iommu_group_type for gpu in pci_inventory(tree.root).gpus] == ["DMA-FQ", None]


def test_numa_node_ids_need_not_be_consecutive(tree):
    tree.add_node(0, "0-79")
    tree.add_node(8, "80-159")
    assert pci_inventory(tree.root).cpus_of_node == {0: frozenset(range(80)), 8: frozenset(range(80, 160))}


def test_a_host_without_sysfs_has_no_devices(tmp_path):
    assert pci_inventory(tmp_path / "nothing").gpus == ()


def test_binary_rubbish_in_sysfs_is_no_error(tree):
    device = tree.add_pci("pci0000:00/0000:00:06.0")
    (device / "numa_node").write_bytes(b"\xff\xfe\x00")
    assert pci_inventory(tree.root).gpus[0].numa_node is None
