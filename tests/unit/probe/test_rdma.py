from __future__ import annotations

from gpumond.model.reading import NOT_SUPPORTED, Unreadable, Value
from gpumond.model.topology import PathLevel
from gpumond.probe.rdma import read_nics
from gpumond.probe.sysfs import pci_inventory


def nics(tree):
    return read_nics(tree.root, pci_inventory(tree.root), ())


def test_devices_come_in_the_order_in_which_people_count(tree):
    for number in (10, 2, 0):
        tree.add_nic(f"mlx5_{number}", f"pci0000:{number:02d}/0000:{number:02d}:00.0")
    assert [nic.name for nic in nics(tree)] == ["mlx5_0", "mlx5_2", "mlx5_10"]


def test_identity_port_and_rate(tree):
    tree.add_nic("mlx5_0", "pci0000:15/0000:15:01.0/0000:16:00.0", numa=1)
    nic = nics(tree)[0]
    assert nic.pci_bus_id == "0000:16:00.0"
    assert nic.node_guid == "0000:0000:0000:x5_0"
    assert nic.numa_node == Value(1)
    assert nic.ports_up == {1: True}
    assert nic.rate_bits_per_second == Value(400_000_000_000)
    assert nic.link_layer == "InfiniBand"


def test_the_rate_of_a_port_that_is_down_is_not_a_rate(tree):
    tree.add_nic("mlx5_0", "pci0000:15/0000:15:01.0", state="1: DOWN", rate="2.5 Gb/sec (1X SDR)")
    nic = nics(tree)[0]
    assert nic.ports_up == {1: False}
    assert isinstance(nic.rate_bits_per_second, Unreadable)


def test_paths_to_other_devices(tree):
    switch = "pci0000:15/0000:15:01.0/0000:16:00.0"
    tree.add_nic("mlx5_0", f"{switch}/0000:17:00.0/0000:18:00.0", numa=0)
    tree.add_nic("mlx5_1", f"{switch}/0000:17:01.0/0000:19:00.0", numa=0)
    tree.add_nic("mlx5_2", "pci0000:80/0000:80:01.0", numa=1)
    first = nics(tree)[0]
    assert first.nic_levels == {"mlx5_1": PathLevel.PIX, "mlx5_2": PathLevel.SYS}


def test_a_path_that_sysfs_does_not_tell_is_left_out(tree):
    tree.add_nic("mlx5_0", "pci0000:15/0000:15:01.0", numa=0)
    tree.add_nic("mlx5_1", "pci0000:80/0000:80:01.0", numa=-1)
    assert [nic.nic_levels for nic in nics(tree)] == [{}, {}]


def test_a_software_device_has_no_place_in_the_pci_tree(tree):
    tree.add_software_nic("siw0")
    nic = nics(tree)[0]
    assert (nic.pci_bus_id, nic.numa_node, nic.levels) == (None, NOT_SUPPORTED, {})


def test_virtual_functions_beside_their_physical_function_are_left_out(tree):
    physical = tree.add_pci("pci0000:15/0000:15:01.0/0000:16:00.0", vendor="0x15b3")
    virtual = tree.add_nic("mlx5_1", "pci0000:15/0000:15:01.0/0000:16:00.1")
    ((virtual / "device").resolve() / "physfn").symlink_to(physical)
    assert nics(tree) == ()


def test_a_host_without_rdma_has_no_nics(tree):
    assert nics(tree) == ()
