"""What NCCL's own log says of transports, in the words of every era, and on real logs of two H200s."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.judge.transport import TransportChange, transport_change
from gpumond.model.transport import AlgorithmChoice, PairTransport, TransportReport
from gpumond.parsers.nccl_log import (
    MAX_CHOICES,
    MAX_WARNINGS,
    LogReader,
    parse_nccl_log,
    transport_of,
)

DATA = Path(__file__).parents[2] / "data"
CAPTURES = DATA / "captures" / "h200x2"
LOGS = DATA / "nccl_log"

LINES = {
    "2.3": ("Ring 00 : 0[0] -> 1[1] via P2P/direct pointer", "P2P/direct"),
    "2.4": ("Ring 03 : 0[0] -> 1[1] via P2P/IPC", "P2P/IPC"),
    "2.5 shared memory": ("Ring 00 : 0[3b000] -> 1[af000] via direct shared memory", "SHM/direct"),
    "2.6 network": ("Ring 00 : 0 -> 1 [send] via NET/IB/0/GDRDMA", "NET/IB/GDRDMA"),
    "2.7": ("Channel 00 : 0[1a000] -> 1[1b000] via P2P/IPC/read", "P2P/IPC"),
    "2.8 indirect": ("Channel 01 : 0[1a000] -> 1[1b000] via P2P/indirect/2[1c000]", "P2P/indirect"),
    "2.12 proxy": (
        "Channel 00/0 : 0[1a000] -> 1[1b000] [receive] via NET/IB/0(3)/GDRDMA/Shared",
        "NET/IB/GDRDMA",
    ),
    "2.13 shared memory": ("Channel 02 : 0[1a000] -> 1[1b000] via SHM/direct/direct", "SHM/direct"),
    "2.13 copied": ("Channel 02 : 0[1a000] -> 1[1b000] via SHM/CE/CE", "SHM/CE"),
    "2.18": ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", "P2P/CUMEM"),
    "2.21": ("Channel 00/0 : 0[0] -> 1[1] via P2P/MNNVL", "P2P/MNNVL"),
    "2.26": ("Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/3/GDRDMA(PCI)", "NET/IB/GDRDMA"),
    "a plugin": (
        "Channel 00/0 : 0[0] -> 1[1] [send] via NET/AWS Libfabric/0/GDRDMA",
        "NET/AWS Libfabric/GDRDMA",
    ),
    "RCCL": ("Channel 00/0 : 0[c1000] -> 1[c6000] via P2P/IPC comm 0x55d1 nRanks 08", "P2P/IPC"),
}


@pytest.mark.parametrize(("line", "transport"), LINES.values(), ids=LINES)
def test_every_era_names_the_transport_of_a_pair(line, transport):
    report = parse_nccl_log(f"node-a:7:9 [0] NCCL INFO {line}\n")
    assert report.pairs == (PairTransport(0, 1, transport, 1),)
    assert report.summary == f"{transport}:1"


CAPTURED = {
    "ar_dbg.out": ("P2P/direct:48", 24, 32, True),
    "ar_dbgall.out": ("P2P/direct:48", 24, 32, True),
    "nccl.vm.2198.log": ("P2P/direct:48", 24, 32, True),
    "ar_nop2p.out": ("SHM/direct:8", 4, 4, True),
    "ar_noshm.out": ("NET/Socket:4", 2, 2, False),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_real_logs_of_one_process(name):
    report = parse_nccl_log((CAPTURES / name).read_text())
    assert (
        report.summary,
        report.collective_channels,
        report.p2p_channels,
        report.uses_gdr,
    ) == CAPTURED[name]
    assert report.nvls_channels == 0
    assert report.library_version == "2.28.9+cuda13.0"
    assert report.is_complete


def test_logs_of_several_processes_are_one_report():
    reader = LogReader()
    for rank in (0, 1):
        reader.read((LOGS / f"torch-rank-{rank}-tuning.log").read_text().splitlines())
    report = reader.report()
    assert report.pairs == (PairTransport(0, 1, "P2P/CUMEM", 24), PairTransport(1, 0, "P2P/CUMEM", 24))


def test_messages_have_channels_of_their_own():
    report = parse_nccl_log((LOGS / "nccl4py-sendrecv-tuning.log").read_text())
    assert report.channels == {"P2P/direct": 64}


def test_the_algorithm_of_each_size_is_told_once():
    assert parse_nccl_log((CAPTURES / "ar_dbgall.out").read_text()).choices == (
        AlgorithmChoice("AllReduce", 1 << 20, "RING", "LL", 24),
    )


def test_both_ends_and_every_communicator_tell_of_the_same_connection():
    line = "Channel 00/0 : 0[0] -> 1[1] [{}] via NET/IB/0\n"
    text = (line.format("send") + line.format("receive")) * 3
    assert parse_nccl_log(text).channels == {"NET/IB": 1}


def test_nvls_is_a_transport():
    line = "vm:1:2 [0] NCCL INFO 24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer"
    report = parse_nccl_log(f"{line}\nvm:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n")
    assert report.summary == "NVLS:16 P2P/CUMEM:1"
    assert parse_nccl_log("8 coll channels, 8 p2p channels, 8 p2p channels per peer").nvls_channels is None


def test_summaries_are_what_the_judge_compares():
    """From P2P to shared memory on the same pair of H200s."""
    before = parse_nccl_log((CAPTURES / "ar_dbg.out").read_text()).summary
    after = parse_nccl_log((CAPTURES / "ar_nop2p.out").read_text()).summary
    assert transport_change(before, after) is TransportChange.SLOWER
    assert transport_change(before, before) is TransportChange.NONE


def test_text_without_nccl_says_nothing():
    assert parse_nccl_log("") is None
    assert parse_nccl_log((CAPTURES / "ar_std.out").read_text()) is None


def test_what_is_too_much_is_left_out_and_said():
    lines = [f"AllReduce: {size} Bytes -> Algo RING proto LL" for size in range(MAX_CHOICES + 1)]
    report = parse_nccl_log("\n".join(lines))
    assert (len(report.choices), report.is_complete) == (MAX_CHOICES, False)
    warned = parse_nccl_log("\n".join(f"vm:1:2 [0] net.cc:1 NCCL WARN no {n}" for n in range(99)))
    assert len(warned.warnings) == MAX_WARNINGS
    assert warned.warnings[0] == "no 0"


@given(st.text(max_size=400))
def test_any_text_is_read(text):
    report = parse_nccl_log(f"Channel 00/0 : 0[0] -> 1[1] via {text}\n{text}")
    assert report is None or isinstance(report, TransportReport)
    assert isinstance(transport_of(text), str)
