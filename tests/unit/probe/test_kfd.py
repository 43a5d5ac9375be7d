"""KFD's tree of text files: whatever stands in it, or does not, is an answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gpumond.model.topology import Vendor
from gpumond.probe import kfd
from gpumond.probe.amd_place import Place, device_of
from gpumond.probe.sysfs import pci_inventory

MI300X = {"simd_count": 1216, "unique_id": 0x95479AC5C8BF3B4F, "location_id": 0x0C00, "hive_id": 7}


@dataclass(frozen=True)
class KfdTree:
    root: Path

    @property
    def nodes(self) -> Path:
        return self.root / "class/kfd/kfd/topology/nodes"

    def add(self, node: int, *links: dict[str, int], p2p: tuple[dict[str, int], ...] = (), **properties: int):
        write(self.nodes / str(node) / "properties", properties)
        for directory, entries in (("io_links", links), ("p2p_links", p2p)):
            for place, link in enumerate(entries):
                write(self.nodes / str(node) / directory / str(place) / "properties", link)


def write(path, properties):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name} {value}\n" for name, value in properties.items()))


@pytest.fixture
def kfd_tree(tmp_path):
    return KfdTree(tmp_path)


def read(tree):
    return list(kfd.read_gpus(tree.root).values())


def test_cpus_are_no_gpus(kfd_tree):
    kfd_tree.add(0, simd_count=0, cpu_cores_count=96)
    kfd_tree.add(1, **MI300X, domain=1, drm_render_minor=128)
    (gpu,) = read(kfd_tree)
    assert (gpu.node, gpu.pci_bus_id, gpu.uuid) == (1, "0001:0c:00.0", "GPU-95479ac5c8bf3b4f")
    assert (gpu.hive_id, gpu.render_minor) == (7, 128)


def test_nodes_are_in_the_order_of_their_numbers(kfd_tree):
    for node in (10, 2):
        kfd_tree.add(node, simd_count=1, location_id=node << 8)
    assert [gpu.node for gpu in read(kfd_tree)] == [2, 10]


@pytest.mark.parametrize(
    ("location", "bus_id"),
    [
        (0x0C00, "0000:0c:00.0"),
        (0xDF0B, "0000:df:01.3"),
        (0x20000C00, "0000:0c:00.2"),  # the second partition of a board
    ],
)
def test_bus_ids(kfd_tree, location, bus_id):
    kfd_tree.add(1, **(MI300X | {"location_id": location}))
    assert [gpu.pci_bus_id for gpu in read(kfd_tree)] == [bus_id]


def test_links_by_their_numbers(kfd_tree):
    xgmi = {"type": 11, "node_to": 2, "weight": 15, "min_bandwidth": 50_000, "max_bandwidth": 64_000}
    kfd_tree.add(1, {"type": 2, "node_to": 0, "weight": 20}, xgmi, **MI300X)
    kfd_tree.add(2, **(MI300X | {"location_id": 0x2200}), p2p=({"type": 2, "node_to": 3},))
    kfd_tree.add(3, **(MI300X | {"location_id": 0x3800}))
    one, two, three = read(kfd_tree)
    assert one.link_to(two) == kfd.KfdLink(2, kfd.LINK_XGMI, 15, 50_000, 64_000)
    assert two.link_to(three) == kfd.KfdLink(3, kfd.LINK_PCIE, 0, 0, 0)
    assert three.link_to(one) is None


@pytest.mark.parametrize(
    "text",
    ["", "simd_count\n", "simd_count many\n", "simd_count 0\nunique_id 5\n", "\0\xff simd_count 1 2\n"],
)
def test_a_node_that_says_nothing_is_left_out(kfd_tree, text):
    """A container's view of a GPU that is not its own is an empty file."""
    path = kfd_tree.nodes / "1/properties"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="latin-1")
    assert read(kfd_tree) == []


def test_without_kfd_there_are_no_gpus(tmp_path):
    assert kfd.read_gpus(tmp_path) == {}
    (tmp_path / "class/kfd/kfd/topology").mkdir(parents=True)
    (tmp_path / "class/kfd/kfd/topology/nodes").write_text("a file")
    assert kfd.read_gpus(tmp_path) == {}


def test_a_gpu_without_a_unique_id_has_no_uuid(kfd_tree):
    kfd_tree.add(1, simd_count=64, unique_id=0, location_id=0x0300)
    assert [gpu.uuid for gpu in read(kfd_tree)] == [None]


def test_a_partition_sits_where_its_board_sits(tree):
    tree.add_pci("pci0000:08/0000:08:01.1/0000:0c:00.0", vendor="0x1002", pci_class="0x120000", numa=1)
    tree.add_node(1, "8-15")
    pci = pci_inventory(tree.root, Vendor.AMD)
    for bus_id in ("0000:0c:00.0", "0000:0c:00.5"):
        place = Place.of(bus_id, pci, {})
        assert place.device is pci.gpus[0]
        node = place.numa_node()
        assert (node.value, place.cpu_affinity(node).value, place.level_to(place).value) == (1, "8-15", "PIX")
    assert device_of("0000:0d:00.0", pci) is None
