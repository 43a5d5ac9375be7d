"""Lines of NVIDIA's driver and of the kernel's AER, as hosts printed them over the years."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.model.change import Level
from gpumond.model.kernel_log import KernelEventKind, merged, name_of, tally_of, without_process
from gpumond.parsers.kernel_log import events_in_text, kernel_event, read_entry, xid_level

AT = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)

EVENTS = [
    (
        "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        ("xid", "0000:3b:00.0", "79", "critical"),
    ),
    ("NVRM: Xid (0000:01:00): 31, Ch 0000000b, engmask 00000120", ("xid", "0000:01:00.0", "31", "info")),
    (
        "NVRM: Xid (PCI:00010000:3B:00): 13, pid=1234, name=python, Graphics Exception",
        ("xid", "10000:3b:00.0", "13", "info"),
    ),
    (
        "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping",
        ("xid", "0000:10:1c.0", "63", "info"),
    ),
    (
        "NVRM: Xid (PCI:0000:c1:00): 94, pid=9, name=x, Contained: SM",
        ("xid", "0000:c1:00.0", "94", "warning"),
    ),
    ("NVRM: Xid (PCI:0000:c1:00): 149, NETIR_LINK_EVT Fatal XC1", ("xid", "0000:c1:00.0", "149", "critical")),
    (
        "NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x0",
        ("xid", "0000:c1:00.0", "154", "warning"),
    ),
    (
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        ("sxid", "0000:c1:00.0", "20034", "critical"),
    ),
    (
        "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
        ("sxid", "0000:06:00.0", "12028", "warning"),
    ),
    (
        "pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        ("aer", "0000:00:1c.0", "corrected", "info"),
    ),
    (
        "nvidia 0000:09:00.0: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
        ("aer", "0000:09:00.0", "nonfatal", "warning"),
    ),
    (
        "pcieport 0000:c0:01.1: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer",
        ("aer", "0000:c0:01.1", "fatal", "critical"),
    ),
    (
        "pcieport 0000:07:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Receiver ID)",
        ("aer", "0000:07:00.0", "corrected", "info"),
    ),
]

NO_EVENTS = [
    "",
    "usb 1-1: new high-speed USB device",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05",
    # The second and third line of one SXid.
    "nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Severity 0 Engine instance 60 Sub-engine instance 00",
    "nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Data {0x0000003c, 0x0000003c}",
    # The port reports first, the device says it itself.
    "pcieport 0000:00:1d.0: AER: Corrected error received: 0000:07:04.0",
    "audit: a user wrote Xid (PCI:0000:3b:00): 79 into a name",
]


@pytest.mark.parametrize(("message", "expected"), EVENTS)
def test_events(message, expected):
    event = kernel_event(message, AT)
    assert (event.kind, event.pci_bus_id, event.code, event.level) == expected
    assert (event.at, event.detail) == (AT, message)


@pytest.mark.parametrize("message", NO_EVENTS)
def test_everything_else_is_no_event(message):
    assert kernel_event(message, AT) is None


def test_what_is_printed_of_a_message_is_one_bounded_line():
    event = kernel_event("NVRM: Xid (PCI:0000:3b:00): 79, \x1b[2J\nname=" + "x" * 5000, AT)
    assert event.detail.isprintable()
    assert event.detail.startswith("NVRM: Xid (PCI:0000:3b:00): 79, [2J name=xxx")
    assert len(event.detail) == 240


@pytest.mark.parametrize(
    ("xid", "level"), [(46, "critical"), (143, "critical"), (43, "info"), (9999, "warning")]
)
def test_how_bad_an_xid_is(xid, level):
    assert xid_level(xid) is Level(level)


def test_an_entry_of_the_journal():
    line = json.dumps(
        {
            "__CURSOR": "s=1;i=2",
            "__REALTIME_TIMESTAMP": "1764381600000001",
            "MESSAGE": [78, 86, 255],
            "X": "y",
        }
    )
    entry = read_entry(line)
    assert (entry.cursor, entry.message) == ("s=1;i=2", "NV\ufffd")
    assert entry.at == datetime(2025, 11, 29, 2, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "line",
    [
        "-- No entries --",
        "[]",
        "null",
        '{"MESSAGE": "no cursor", "__REALTIME_TIMESTAMP": "1"}',
        '{"__CURSOR": "s=1", "MESSAGE": "no time"}',
        '{"__CURSOR": "s=1", "__REALTIME_TIMESTAMP": "tomorrow"}',
        '{"__CURSOR": "", "__REALTIME_TIMESTAMP": "1"}',
        '{"__CURSOR": "s=1", "__REALTIME_TIMESTAMP": "99999999999999999999999"}',
        '{"__CURSOR": "s=1", "__REALTIME_TIMESTAMP": "1", "MESSAGE": [1, 999]}',
        '{"__CURSOR": "' + "s" * 2000 + '", "__REALTIME_TIMESTAMP": "1"}',
    ],
)
def test_what_is_no_entry(line):
    assert read_entry(line) is None


@given(st.text())
def test_no_line_is_an_error(line):
    read_entry(line)
    kernel_event(line, AT)
    list(events_in_text(line, read_at=AT))


def test_pasted_text_with_and_without_a_time():
    lines = [
        "[Fri Nov 28 01:00:00 2026] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "2026-11-28T01:00:00,123456+01:00 NVRM: Xid (PCI:0000:3b:00): 48, DBE",
        "2026-11-28T03:00:00+0100 host kernel: NVRM: Xid (PCI:0000:3b:00): 63, Row Remapper",
        "[ 4908.2] nothing",
    ]
    found = [(event.code, event.at) for event in events_in_text("\n".join(lines), read_at=AT)]
    assert found == [
        ("79", AT),
        ("48", datetime(2026, 11, 28, 0, 0, 0, 123456, tzinfo=UTC)),
        ("63", datetime(2026, 11, 28, 2, 0, tzinfo=UTC)),
    ]


def test_tallies_of_one_kind_add_up():
    early = tally_of(kernel_event(EVENTS[0][0], AT))
    late = tally_of(kernel_event(EVENTS[0][0] + " again", AT.replace(hour=5)))
    both = merged(late, early)
    assert both == merged(early, late)
    assert (both.count, both.first_at, both.last_at) == (2, AT, AT.replace(hour=5))
    assert both.detail.endswith("again")
    with pytest.raises(ValueError, match="not the same"):
        merged(early, tally_of(kernel_event(EVENTS[1][0], AT)))


def test_a_message_without_its_process():
    said = [without_process(tally_of(kernel_event(text, AT))).detail for text in (EVENTS[0][0], EVENTS[2][0])]
    assert said == [
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:00010000:3B:00): 13, Graphics Exception",
    ]


def test_names_as_people_say_them():
    assert name_of(KernelEventKind.XID, "79") == "Xid 79"
    assert name_of(KernelEventKind.AER, "fatal") == "AER fatal"
