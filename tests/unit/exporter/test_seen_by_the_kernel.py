"""Xids, the PCIe generation at work, and P2P that is not what was accepted, as samples."""

from dataclasses import replace

import status as fakes

from gpumond.exporter.hardware import XIDS_MAX, p2p_expected, pcie_generation_under_load, xid_last_timestamps
from gpumond.model.kernel_log import KernelEventKind

STATUS = fakes.two_gpu_status()
(XID,) = STATUS.kernel_tallies
FIRST, SECOND = STATUS.inventory


def test_an_xid_has_the_number_of_its_gpu_and_how_bad_it_is():
    assert list(xid_last_timestamps(STATUS)) == [
        (("0", FIRST.uuid, "94", "warning"), XID.last_at.timestamp())
    ]


def test_other_devices_and_other_events_are_no_xids():
    other = replace(XID, pci_bus_id="0000:ff:00.0")
    switch = replace(XID, kind=KernelEventKind.SXID)
    assert list(xid_last_timestamps(replace(STATUS, kernel_tallies=(other, switch)))) == []


def test_a_gpu_that_makes_ever_new_xids_does_not_fill_the_series():
    many = tuple(replace(XID, code=str(code)) for code in range(500))
    assert len(list(xid_last_timestamps(replace(STATUS, kernel_tallies=many)))) == XIDS_MAX


def test_generation_and_expectation():
    assert list(pcie_generation_under_load(STATUS)) == [(("0", FIRST.uuid), 5), (("1", SECOND.uuid), 5)]
    assert list(p2p_expected(STATUS)) == [(("0", "1", FIRST.uuid, SECOND.uuid, "read"), True)]
