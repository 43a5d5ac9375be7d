"""What a made-up NCCL says of its ways, read by the parser that reads the real one."""

from __future__ import annotations

import pytest

from gpumond.parsers.nccl_log import LogReader
from gpumond.simulate.nccl_log import log_lines
from gpumond.simulate.scenario import load_scenario


@pytest.mark.parametrize(
    ("scenario", "channels"),
    [
        ("hgx-h200-8", {"P2P/CUMEM": 8 * 24, "NVLS": 16}),
        ("h200-2-vm", {"P2P/CUMEM": 2 * 24}),  # as captured: 24 each way, no NVLS
        ("l40s-8-pcie", {"P2P/CUMEM": 8 * 4}),
        ("rtx4090-4-no-p2p", {"SHM/direct": 4 * 2}),
    ],
)
def test_the_parser_reads_what_was_meant(scenario, channels):
    world = load_scenario(scenario)
    reader = LogReader()
    reader.read(log_lines(world, world.gpus, host="gpu-01", pid=7))
    assert reader.report().channels == channels


def test_one_gpu_has_no_ring():
    world = load_scenario("gh200-1")
    reader = LogReader()
    reader.read(log_lines(world, world.gpus, host="gpu-01", pid=7))
    report = reader.report()
    assert report is not None
    assert report.channels == {}
