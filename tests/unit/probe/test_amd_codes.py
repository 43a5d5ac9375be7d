from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import IoLinkCapability, P2pStatus, XgmiLinkState
from gpumond.probe import amd_codes

UP, DOWN, DISABLED = XgmiLinkState.UP, XgmiLinkState.DOWN, XgmiLinkState.DISABLED


@pytest.mark.parametrize("status", [1, 2, 3, 52])
def test_what_a_library_does_not_have_is_not_supported(status):
    assert amd_codes.cause_of(status, "call") == NOT_SUPPORTED


@pytest.mark.parametrize(
    ("status", "reason", "name"),
    [
        (8, UnreadableReason.TIMEOUT, "TIMEOUT (8)"),
        (9, UnreadableReason.ERROR, "RETRY (9)"),
        (10, UnreadableReason.NO_PERMISSION, "NO_PERM (10)"),
        (30, UnreadableReason.ERROR, "BUSY (30)"),
        (31, UnreadableReason.ERROR, "NOT_FOUND (31)"),
        (32, UnreadableReason.DRIVER, "NOT_INIT (32)"),
        (34, UnreadableReason.DRIVER_NOT_LOADED, "DRIVER_NOT_LOADED (34)"),
        (40, UnreadableReason.ERROR, "NO_DATA (40)"),
        (777, UnreadableReason.ERROR, "status 777"),
    ],
)
def test_what_should_be_there_and_is_not_says_why(status, reason, name):
    assert amd_codes.cause_of(status, "call") == Unreadable(reason, f"call: {name}")


@pytest.mark.parametrize("status", [2, 18, 777])
def test_at_the_start_an_unnamed_cause_is_the_drivers(status):
    assert amd_codes.driver_cause_of(status, "amdsmi_init").reason is UnreadableReason.DRIVER
    assert amd_codes.driver_cause_of(10, "amdsmi_init").reason is UnreadableReason.NO_PERMISSION


@pytest.mark.parametrize(
    ("amdsmi_uuid", "rocr_uuid"),
    [
        ("95ff74a1-0000-1000-8047-9ac5c8bf3b4f", "GPU-95479ac5c8bf3b4f"),
        (
            "9500744C-0000-1000-8047-9AC5C8BF3B4F",
            "GPU-95479ac5c8bf3b4f",
        ),  # a newer amdsmi: partition 0, not ff
        ("00ff744c-0000-1000-8000-00000000002a", "GPU-000000000000002a"),
    ],
)
def test_the_unique_id_inside_a_uuid_is_what_rocr_takes(amdsmi_uuid, rocr_uuid):
    unique_id = amd_codes.unique_id_of(amdsmi_uuid)
    assert amd_codes.rocr_uuid(unique_id) == rocr_uuid


@pytest.mark.parametrize("text", ["", "N/A", "GPU-95479ac5c8bf3b4f", "95ff74a1-0000-4000-8047-9ac5c8bf3b4f"])
def test_other_texts_hold_no_unique_id(text):
    assert amd_codes.unique_id_of(text) is None


def test_a_gpu_without_a_unique_id_has_no_name_for_rocr():
    assert amd_codes.rocr_uuid(0) is None


@given(st.integers(1, 2**64 - 1))
def test_every_unique_id_makes_a_name_of_twenty_characters(unique_id):
    """ROCr refuses longer ones."""
    assert len(amd_codes.rocr_uuid(unique_id) or "") == 20


@pytest.mark.parametrize("value", ["N/A", 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF])
def test_all_ones_and_not_available_are_no_numbers(value):
    assert amd_codes.number(value) == NOT_SUPPORTED


def test_a_count_may_be_anything_else():
    assert [amd_codes.number(value) for value in (0, 0xFFFF, 7)] == [Value(0), Value(0xFFFF), Value(7)]
    assert amd_codes.number_not_zero(0) == NOT_SUPPORTED
    assert [amd_codes.lanes(value) for value in (16, 0, 63, 0xFFFF, "N/A")] == [
        Value(16),
        *[NOT_SUPPORTED] * 4,
    ]


@pytest.mark.parametrize(("value", "node"), [(0, 0), (1, 1), (4_294_967_295, None), (-1, None)])
def test_numa_node_minus_one_is_unknown_in_both_spellings(value, node):
    assert amd_codes.numa_node(value) == node


@pytest.mark.parametrize(
    ("rate", "generation"),
    [(2_500, 1), (16_000, 4), (32_000, 5), (32, 5), (64_000, 6), (16, 4)],
)
def test_pcie_generation_from_mt_per_second_or_gt_per_second(rate, generation):
    assert amd_codes.pcie_generation(rate) == Value(generation)


@pytest.mark.parametrize("rate", [0, 1, 12_345, "N/A", 0xFFFFFFFF])
def test_an_odd_rate_is_no_generation(rate):
    assert amd_codes.pcie_generation(rate) == NOT_SUPPORTED


@pytest.mark.parametrize(
    ("letters", "is_trusted", "expected"),
    [
        ("XUUU", True, Value((DISABLED, UP, UP, UP))),
        ("XUDU", False, Value((DISABLED, UP, DOWN, UP))),
        ("XDDD", True, Value((DISABLED, DOWN, DOWN, DOWN))),
        ("XDDD", False, NOT_SUPPORTED),
        ("DDDD", False, NOT_SUPPORTED),
        ("XXXX", True, NOT_SUPPORTED),
        ("", True, NOT_SUPPORTED),
    ],
)
def test_link_states(letters, is_trusted, expected):
    assert amd_codes.link_states(list(letters), is_trusted=is_trusted) == expected


def test_a_link_state_that_nobody_knows_yet_is_unreadable():
    states = amd_codes.link_states(["U", "N/A"], is_trusted=True)
    assert states == Unreadable(UnreadableReason.MALFORMED, "xGMI link status N/A")


def flags(**changes):
    keys = ("coherent", "atomics_32bit", "atomics_64bit", "dma", "bi_directional")
    return {f"is_iolink_{key}": changes.get(key, 1) for key in keys}


def test_what_a_link_can_do():
    assert amd_codes.capabilities(flags()) == Value(tuple(IoLinkCapability))
    assert amd_codes.capabilities(flags(coherent=0, dma=0)) == Value(
        (IoLinkCapability.ATOMICS_32BIT, IoLinkCapability.ATOMICS_64BIT, IoLinkCapability.BIDIRECTIONAL)
    )
    assert amd_codes.capabilities(flags(dma=0xFF)) == NOT_SUPPORTED
    assert amd_codes.capabilities({}) == NOT_SUPPORTED


@pytest.mark.parametrize(
    ("missing", "status"),
    [("coherent", P2pStatus.OK), ("atomics_32bit", P2pStatus.NS), ("atomics_64bit", P2pStatus.NS)],
)
def test_atomics_work_in_both_sizes_or_not(missing, status):
    found = amd_codes.capabilities(flags(**{missing: 0}))
    assert amd_codes.atomics_status(found.value) is status


def test_no_hive_is_no_name():
    assert amd_codes.hive(0) == NOT_SUPPORTED
    assert amd_codes.hive(0xB7F9F50F7508BF17) == Value("0xb7f9f50f7508bf17")
