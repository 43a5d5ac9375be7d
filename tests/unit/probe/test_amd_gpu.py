"""AMD GPUs behind a library that answers little: what is read then, and what is not made up."""

from __future__ import annotations

import pytest

from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import P2pCapability, P2pStatus, Vendor
from gpumond.probe.amd import AmdSmiLibrary, Handle
from gpumond.probe.amd_gpu import read_gpu
from gpumond.probe.amd_pairs import read_pair
from gpumond.probe.amd_place import Place
from gpumond.probe.kfd import KfdGpu
from gpumond.probe.sysfs import pci_inventory

NOT_SUPPORTED_STATUS = 2
NO_PERM = 10
BUS_ID = "0000:0c:00.0"
NOWHERE = Place(None, None, {})


class RefusedError(Exception):
    def __init__(self, status):
        super().__init__(status)
        self._status = status

    def get_error_code(self):
        return self._status


class Binding:
    """amdsmi with the given answers (an int in `refused` is a status), and NOT_SUPPORTED for everything else."""

    AmdSmiLibraryException = RefusedError

    def __init__(self, answers, refused):
        self._answers = answers
        self._refused = refused

    def __getattr__(self, call):
        def answer(*_handles):
            if call in self._answers:
                return self._answers[call]
            raise RefusedError(self._refused.get(call, NOT_SUPPORTED_STATUS))

        if not call.startswith("amdsmi_"):
            raise AttributeError(call)
        return answer


def opened(place=NOWHERE, refused=(), **answers):
    library = AmdSmiLibrary(
        Binding({f"amdsmi_{call}": value for call, value in answers.items()}, dict(refused))
    )
    return library, read_gpu(library, Handle(object()), index=0, bus_id=BUS_ID, place=place)


def gpu_of(place=NOWHERE, refused=(), **answers):
    return opened(place, refused, **answers)[1].gpu


def test_a_library_that_supports_nothing_leaves_a_gpu_without_facts():
    gpu = gpu_of()
    assert (gpu.uuid, gpu.pci_bus_id) == (f"GPU-XX-{BUS_ID}", BUS_ID)
    for reading in (gpu.name, gpu.processes, gpu.numa_node, gpu.xgmi_links, gpu.pcie.width_lanes):
        assert reading == NOT_SUPPORTED


@pytest.mark.parametrize(
    ("cap", "watts"),
    [(750_000_000, Value(750.0)), (0, NOT_SUPPORTED), ("N/A", NOT_SUPPORTED)],
)
def test_the_power_cap_is_in_watts(cap, watts):
    """amdsmi counts microwatts on a host (amdsmi_power_cap_info_t)."""
    assert gpu_of(get_power_cap_info={"power_cap": cap}).power_limit_watts == watts


def test_the_uuid_is_kfds_then_the_one_inside_amdsmis():
    amdsmi = "95ff74a1-0000-1000-8047-9ac5c8bf3b4f"
    node = KfdGpu(2, BUS_ID, 0xAB, 0, 128, ())
    assert gpu_of(Place(None, node, {}), get_gpu_device_uuid=amdsmi).uuid == "GPU-00000000000000ab"
    assert gpu_of(get_gpu_device_uuid=amdsmi).uuid == "GPU-95479ac5c8bf3b4f"


def test_a_gpu_that_may_not_say_who_it_is_is_silent():
    _, found = opened(refused={"amdsmi_get_gpu_device_uuid": NO_PERM})
    assert isinstance(found, Unreadable)
    assert found.reason is UnreadableReason.NO_PERMISSION


@pytest.mark.parametrize(
    ("statuses", "pending", "failure"),
    [
        ([], False, False),
        ([0, 0], False, False),
        ([0, 1], True, False),
        ([2], False, True),
        ([1, 2], True, True),
    ],
)
def test_bad_pages_are_pending_or_could_not_be_retired(statuses, pending, failure):
    gpu = gpu_of(get_gpu_bad_page_info=[{"status": status} for status in statuses])
    assert (gpu.remapped_rows_pending, gpu.remapped_rows_failure) == (Value(pending), Value(failure))


def test_the_numa_node_is_sysfs_then_the_drivers(tree):
    for bus, numa in ((0x0C, 1), (0x0D, -1)):
        chain = f"pci0000:08/0000:08:01.1/0000:{bus:02x}:00.0"
        tree.add_pci(chain, vendor="0x1002", pci_class="0x120000", numa=numa)
    pci = pci_inventory(tree.root, Vendor.AMD)
    known, unknown = (Place(device, None, {0: frozenset({3, 4})}) for device in pci.gpus)
    assert gpu_of(known, topo_get_numa_node_number=0).numa_node == Value(1)
    fallen_back = gpu_of(unknown, topo_get_numa_node_number=0)
    assert (fallen_back.numa_node, fallen_back.cpu_affinity) == (Value(0), Value("3-4"))
    assert gpu_of(unknown, topo_get_numa_node_number=4_294_967_295).numa_node == NOT_SUPPORTED
    lost = gpu_of(unknown, refused={"amdsmi_topo_get_numa_node_number": 12}).numa_node
    assert isinstance(lost, Unreadable)


def pair_of(**answers):
    library, gpu = opened(**answers)
    return read_pair(library, gpu, gpu, (NOWHERE, NOWHERE))


@pytest.mark.parametrize("kind", [0, 3, 4, 7])
def test_a_link_type_that_is_neither_is_unreadable_and_not_pcie(kind):
    """INTERNAL, NOT_APPLICABLE, UNKNOWN, and what a newer library may bring."""
    pair = pair_of(topo_get_link_type={"hops": 1, "type": kind}, topo_get_link_weight=15)
    assert pair.xgmi == Unreadable(UnreadableReason.MALFORMED, f"amdsmi_topo_get_link_type: link type {kind}")


@pytest.mark.parametrize(("accessible", "status"), [(True, P2pStatus.OK), (False, P2pStatus.NS)])
def test_access_is_one_answer_for_reading_and_writing(accessible, status):
    p2p = pair_of(is_P2P_accessible=accessible).p2p
    assert p2p[P2pCapability.READ] == p2p[P2pCapability.WRITE] == Value(status)
    assert {p2p[it] for it in (P2pCapability.NVLINK, P2pCapability.PCI)} == {NOT_SUPPORTED}


def test_an_xgmi_path_with_half_an_answer():
    path = pair_of(
        topo_get_link_type={"hops": 1, "type": 2},
        topo_get_link_weight=0,
        get_minmax_bandwidth_between_processors={"min_bandwidth": 0, "max_bandwidth": 64_000},
    ).xgmi.value
    assert (path.weight, path.bandwidth_min_bytes_per_second) == (NOT_SUPPORTED, NOT_SUPPORTED)
    assert path.bandwidth_max_bytes_per_second == Value(64_000_000_000)
    assert path.capabilities == NOT_SUPPORTED
