"""What each answer of a driver becomes. `samples` below is label values -> value of one family."""

from __future__ import annotations

from dataclasses import replace

import pytest
import status as fakes

from gpumond.exporter import hardware
from gpumond.model.identity import GpuUuid
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import Fabric, NvLinkRemote, P2pCapability, P2pStatus, SilentGpu

U0, U1 = fakes.uuid_of(0), fakes.uuid_of(1)
B1 = fakes.bus_id_of(1)


@pytest.fixture
def status():
    return fakes.two_gpu_status()


def with_snapshot(status, **changes):
    return replace(status, snapshot=replace(status.snapshot, **changes))


def with_first_gpu(status, **changes):
    first, *others = status.snapshot.gpus
    return with_snapshot(status, gpus=(replace(first, **changes), *others))


def with_links(status, **changes):
    links = tuple(replace(link, **changes) for link in status.snapshot.gpus[0].nvlinks.value)
    return with_first_gpu(status, nvlinks=Value(links))


def lose(status, reason, pci_bus_id=B1):
    silent = SilentGpu(1, pci_bus_id, Unreadable(reason))
    return with_snapshot(status, gpus=status.snapshot.gpus[:1], silent_gpus=(silent,))


class TestPresence:
    def test_both_are_there(self, status):
        assert dict(hardware.gpu_present(status)) == {("0", U0): True, ("1", U1): True}
        assert list(hardware.gpus(status)) == [((), 2)]

    def test_a_gpu_that_is_not_listed_any_more_stays_with_0(self, status):
        status = with_snapshot(status, gpus=status.snapshot.gpus[:1])
        assert dict(hardware.gpu_present(status)) == {("0", U0): True, ("1", U1): False}
        assert list(hardware.gpus(status)) == [((), 1)]
        assert list(hardware.gpus_expected(status)) == [((), 2)]

    @pytest.mark.parametrize(
        ("reason", "present"),
        [
            (UnreadableReason.GPU_LOST, False),
            (UnreadableReason.RESET_REQUIRED, False),
            (UnreadableReason.ASLEEP, True),
            (UnreadableReason.TIMEOUT, None),
            (UnreadableReason.NO_PERMISSION, None),
            (UnreadableReason.ERROR, None),
        ],
    )
    def test_a_silent_gpu(self, status, reason, present):
        samples = dict(hardware.gpu_present(lose(status, reason)))
        assert samples.get(("1", U1)) is present

    @pytest.mark.parametrize(
        ("reason", "present"), [(UnreadableReason.GPU_LOST, False), (UnreadableReason.TIMEOUT, None)]
    )
    def test_a_silent_gpu_without_an_address(self, status, reason, present):
        samples = dict(hardware.gpu_present(lose(status, reason, pci_bus_id=None)))
        assert samples.get(("1", U1)) is present

    def test_another_gpu_in_the_same_slot_is_not_the_accepted_one(self, status):
        new = replace(status.snapshot.gpus[1], uuid=GpuUuid("GPU-new"))
        status = with_snapshot(status, gpus=(status.snapshot.gpus[0], new))
        assert dict(hardware.gpu_present(status)) == {("0", U0): True, ("1", U1): False}
        assert ("", "GPU-new", B1, "NVIDIA H200", "96.00.CF.00.01") in dict(hardware.gpu_info(status))

    def test_nothing_is_said_without_a_snapshot_or_a_driver(self, status):
        blind = with_snapshot(status, driver=Unreadable(UnreadableReason.DRIVER_MISMATCH), gpus=())
        for unknown in (blind, replace(status, snapshot=None)):
            assert not list(hardware.gpu_present(unknown))
            assert not list(hardware.gpus(unknown))
            assert list(hardware.gpus_expected(unknown)) == [((), 2)]

    def test_a_missing_gpu_keeps_its_info(self, status):
        status = with_snapshot(status, gpus=status.snapshot.gpus[:1])
        assert ("1", U1, B1, "NVIDIA H200", "") in dict(hardware.gpu_info(status))


class TestNodeInfo:
    def node(self, status):
        [(labels, value)] = hardware.node_info(status)
        assert value == 1
        return labels

    def test_of_one_model(self, status):
        expected = ("nvidia", "NVIDIA H200", "2", "580.159.04", "13.0", "6.8.0-50-generic")
        assert self.node(status) == expected

    def test_a_lost_gpu_does_not_change_what_the_host_is(self, status):
        assert self.node(with_snapshot(status, gpus=())) == self.node(status)

    def test_of_two_models(self, status):
        mixed = (status.inventory[0], replace(status.inventory[1], name="NVIDIA L40S"))
        assert self.node(replace(status, inventory=mixed))[1] == hardware.MIXED_MODELS

    def test_before_anything_is_accepted(self, status):
        assert self.node(replace(status, inventory=()))[:3] == ("nvidia", "NVIDIA H200", "2")

    def test_of_a_host_without_a_driver(self, status):
        host = replace(status.snapshot.host, driver_version=NOT_SUPPORTED, cuda_version=NOT_SUPPORTED)
        bare = with_snapshot(replace(status, inventory=()), vendor=None, gpus=(), host=host)
        assert self.node(bare) == ("", "", "0", "", "", "6.8.0-50-generic")

    def test_no_snapshot_no_sample(self, status):
        assert not list(hardware.node_info(replace(status, snapshot=None)))


@pytest.mark.parametrize("answer", [NOT_SUPPORTED, fakes.UNREADABLE])
class TestNoAnswerNoSample:
    def test_of_a_gpu(self, status, answer):
        width = hardware.per_gpu(lambda gpu: gpu.remapped_rows_pending, float)
        assert dict(width(with_first_gpu(status, remapped_rows_pending=answer))) == {("1", U1): 0}

    def test_ecc(self, status, answer):
        samples = dict(hardware.ecc_errors(with_first_gpu(status, ecc_errors=answer)))
        assert samples == {("1", U1, "corrected"): 2, ("1", U1, "uncorrected"): 0}

    def test_all_links(self, status, answer):
        status = with_first_gpu(status, nvlinks=answer)
        assert {labels[0] for labels, _ in hardware.gpu_link_up(status)} == {"1"}
        assert {labels[0] for labels, _ in hardware.gpu_link_errors(status)} == {"1"}

    def test_one_link(self, status, answer):
        assert {labels[0] for labels, _ in hardware.gpu_link_up(with_links(status, is_up=answer))} == {"1"}

    def test_p2p(self, status, answer):
        pairs = tuple(replace(pair, p2p={P2pCapability.READ: answer}) for pair in status.snapshot.pairs)
        assert not list(hardware.p2p_supported(with_snapshot(status, pairs=pairs)))

    def test_topology(self, status, answer):
        pairs = tuple(replace(pair, level=answer, nvlinks=answer) for pair in status.snapshot.pairs)
        assert not list(hardware.topology_link_info(with_snapshot(status, pairs=pairs)))


class TestLinks:
    def test_directed_pairs_with_both_ends(self, status):
        assert dict(hardware.topology_link_info(status)) == {
            ("0", "1", U0, U1, "NV18"): 1,
            ("1", "0", U1, U0, "NV18"): 1,
        }

    def test_p2p_answers(self, status):
        answers = {
            P2pCapability.READ: Value(P2pStatus.OK),
            P2pCapability.WRITE: Value(P2pStatus.CNS),
            P2pCapability.NVLINK: Value(P2pStatus.U),  # neither yes nor no
            P2pCapability.ATOMICS: Value(P2pStatus.OK),  # not exported
        }
        pairs = tuple(replace(pair, p2p=answers) for pair in status.snapshot.pairs[:1])
        assert dict(hardware.p2p_supported(with_snapshot(status, pairs=pairs))) == {
            ("0", "1", U0, U1, "read"): True,
            ("0", "1", U0, U1, "write"): False,
        }

    def test_a_link_that_is_down(self, status):
        assert (
            dict(hardware.gpu_link_up(with_links(status, is_up=Value(False))))["0", U0, "3", "nvlink"]
            is False
        )

    def test_errors_behind_a_switch_are_told_by_link(self, status):
        samples = dict(hardware.gpu_link_errors(with_links(status, errors=Value({"replay": 7}))))
        mine = {labels: value for labels, value in samples.items() if labels[0] == "0"}
        assert mine == {("0", U0, str(link), "nvlink", "replay"): 7 for link in range(18)}

    def test_errors_of_direct_links_are_summed(self, status):
        status = with_links(
            status, remote_type=Value(NvLinkRemote.GPU), errors=Value({"replay": 7, "recovery": 1})
        )
        samples = dict(hardware.gpu_link_errors(status))
        mine = {labels: value for labels, value in samples.items() if labels[0] == "0"}
        assert mine == {("0", U0, "", "nvlink", "replay"): 126, ("0", U0, "", "nvlink", "recovery"): 18}

    def test_a_sum_that_lacks_a_link_is_no_sum(self, status):
        links = [fakes.nvlink(link, Value(NvLinkRemote.GPU)) for link in range(3)]
        links[1] = replace(links[1], errors=fakes.UNREADABLE)
        samples = hardware.gpu_link_errors(with_first_gpu(status, nvlinks=Value(tuple(links))))
        assert {labels[0] for labels, _ in samples} == {"1"}

    def test_links_that_lead_to_nobody_knows_where_are_left_out(self, status):
        samples = hardware.gpu_link_errors(with_links(status, remote_type=fakes.UNREADABLE))
        assert {labels[0] for labels, _ in samples} == {"1"}


@pytest.mark.parametrize(
    ("fabric", "ready"),
    [
        (Fabric(0, 0, 0, "", 0, None), None),  # not supported: nothing to be ready
        (Fabric(1, 0, 0, "", 0, None), False),
        (Fabric(2, 0, 0, "", 0, None), False),
        (Fabric(3, 0, 0, "", 0, 1), True),
        (Fabric(3, 999, 0, "", 0, 1), False),
    ],
)
def test_fabric_readiness(fabric, ready):
    assert hardware.fabric_readiness(fabric) == ready


def test_nics(status):
    assert dict(hardware.nic_info(status)) == {
        ("mlx5_0", "0000:60:00.0", "a088:c203:00ab:0000", "InfiniBand"): 1
    }
    assert dict(hardware.nic_port_up(status)) == {("mlx5_0", "1"): True}
    assert dict(hardware.nic_gpu_link_info(status)) == {
        ("mlx5_0", "0", U0, "PIX"): 1,
        ("mlx5_0", "1", U1, "SYS"): 1,
    }


def test_gpu_sets(status):
    assert dict(hardware.gpu_set_info(status)) == {("all", U0): 1, ("all", U1): 1}
