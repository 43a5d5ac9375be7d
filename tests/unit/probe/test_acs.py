"""ACS out of configuration spaces as the kernel shows them, to root and to everybody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.probe.acs import control_of, read_redirects
from gpumond.probe.sysfs import pci_inventory

PORT, SWITCH = "0000:e0:01.0", "0000:e1:00.0"
GPU_CHAIN = f"pci0000:e0/{PORT}/{SWITCH}/0000:e2:00.0"

SV_RR_CR_UF = 0x1D
"""What `lspci -vvv` prints as `ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ ...`."""


def space(*capabilities: tuple[int, int, int]) -> bytes:
    """Extended capabilities as (id, offset, ACS control); each points to the next."""
    content = bytearray(4096)
    for place, (number, offset, control) in enumerate(capabilities):
        following = capabilities[place + 1][1] if place + 1 < len(capabilities) else 0
        content[offset : offset + 4] = (number | 1 << 16 | following << 20).to_bytes(4, "little")
        content[offset + 6 : offset + 8] = control.to_bytes(2, "little")
    return bytes(content)


AER = (0x0001, 0x100, 0)


@pytest.fixture
def host(tree):
    """A GPU below a root port and a switch port; `config(bus_id, content)` is what their configuration space holds."""
    tree.add_pci(GPU_CHAIN)
    real = tree.root / "devices/pci0000:e0" / PORT
    directories = {PORT: real, SWITCH: real / SWITCH}
    for name, directory in directories.items():
        (tree.root / "bus/pci/devices" / name).symlink_to(directory)

    def config(bus_id, content, status="active"):
        (directories[bus_id] / "config").write_bytes(content)
        (directories[bus_id] / "power").mkdir(exist_ok=True)
        (directories[bus_id] / "power/runtime_status").write_text(status + "\n")

    config(PORT, space(AER))
    config(SWITCH, space(AER))
    return config


def redirects(tree):
    return read_redirects(tree.root, pci_inventory(tree.root))


@pytest.mark.parametrize("control", [0x04, 0x08, 0x10, SV_RR_CR_UF])
def test_a_bridge_that_redirects_is_named(host, tree, control):
    host(SWITCH, space(AER, (0x000D, 0x148, control)))
    assert redirects(tree) == Value((SWITCH,))


@pytest.mark.parametrize("control", [0x00, 0x01, 0x42])
def test_acs_that_lets_p2p_pass(host, tree, control):
    host(PORT, space(AER, (0x0019, 0x148, 0xFFFF), (0x000D, 0x220, control)))
    assert redirects(tree) == Value(())


def test_bridges_without_acs_and_without_an_extended_space(host, tree):
    host(PORT, bytes(256))
    assert redirects(tree) == Value(())


def test_all_but_root_see_64_bytes(host, tree):
    host(PORT, bytes(64))
    assert redirects(tree) == Unreadable(
        UnreadableReason.NO_PERMISSION, "PCI configuration space is shown to root only"
    )


def test_a_bridge_that_sleeps_is_not_woken(host, tree):
    host(SWITCH, space(AER), status="suspended")
    assert redirects(tree) == Unreadable(UnreadableReason.ASLEEP, f"bridge {SWITCH} sleeps")


def test_a_virtual_machine_shows_no_bridges(tree):
    tree.add_pci("pci0000:00/0000:00:06.0")
    assert redirects(tree) == NOT_SUPPORTED


@given(st.binary(max_size=600))
def test_no_space_is_an_error_or_an_endless_loop(content):
    assert 0 <= control_of(content) <= 0xFFFF


def test_a_list_that_points_at_itself_ends():
    content = bytearray(space(AER))
    content[0x100:0x104] = (0x0001 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    assert control_of(bytes(content)) == 0
