from __future__ import annotations

import pynvml
import pytest

from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import P2pCapability, P2pStatus, PathLevel
from gpumond.probe.nvml_codes import (
    P2P_INDEX,
    NvmlStatus,
    cause_of,
    driver_cause_of,
    p2p_status,
    path_level,
)


@pytest.mark.parametrize("status", [2, 3, 13, 22, 25, 26])
def test_what_a_driver_does_not_have_is_not_supported(status):
    assert cause_of(status, "call") == NOT_SUPPORTED


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (4, UnreadableReason.NO_PERMISSION),
        (17, UnreadableReason.NO_PERMISSION),
        (10, UnreadableReason.TIMEOUT),
        (15, UnreadableReason.GPU_LOST),
        (28, UnreadableReason.GPU_LOST),
        (16, UnreadableReason.RESET_REQUIRED),
        (12, UnreadableReason.NO_LIBRARY),
        (9, UnreadableReason.DRIVER_NOT_LOADED),
        (18, UnreadableReason.DRIVER_MISMATCH),
        (6, UnreadableReason.ERROR),
        (23, UnreadableReason.ERROR),
        (999, UnreadableReason.ERROR),
        (12345, UnreadableReason.ERROR),
    ],
)
def test_every_other_status_is_unreadable_with_its_reason(status, reason):
    cause = cause_of(status, "nvmlDeviceGetName")
    assert isinstance(cause, Unreadable)
    assert cause.reason is reason
    assert cause.detail.startswith("nvmlDeviceGetName: ")
    assert str(status) in cause.detail


def test_status_numbers_are_those_of_the_binding():
    """A number copied wrongly would map one fault to another."""
    for status in NvmlStatus:
        assert getattr(pynvml, f"NVML_ERROR_{status.name}") == status


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (12, UnreadableReason.NO_LIBRARY),
        (18, UnreadableReason.DRIVER_MISMATCH),
        (4, UnreadableReason.NO_PERMISSION),
        (999, UnreadableReason.DRIVER),
        (3, UnreadableReason.DRIVER),
    ],
)
def test_a_driver_that_cannot_be_used_always_says_why(status, reason):
    assert driver_cause_of(status, "nvmlInit").reason is reason


@pytest.mark.parametrize(
    ("number", "level"),
    [(0, "PIX"), (10, "PIX"), (20, "PXB"), (30, "PHB"), (40, "NODE"), (50, "SYS")],
)
def test_topology_levels_have_nvidia_smis_names(number, level):
    assert path_level(number) == Value(PathLevel(level))


def test_an_unknown_topology_level_is_no_guess():
    assert isinstance(path_level(15), Unreadable)


@pytest.mark.parametrize(
    ("number", "word"),
    [(0, "OK"), (1, "CNS"), (2, "GNS"), (3, "TNS"), (4, "DR"), (5, "NS"), (6, "U"), (7, "U")],
)
def test_p2p_statuses_have_nvidia_smis_names(number, word):
    assert p2p_status(number) is P2pStatus(word)


def test_p2p_capabilities_are_plain_numbers():
    """The binding's constant for READ is the tuple (0,), which ctypes refuses."""
    assert [P2P_INDEX[capability] for capability in P2pCapability] == [0, 1, 2, 3, 4]
