"""Changes of the topology as an operator sees them: the host breaks under a running daemon, and the metrics say so."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from daemon_process import wait_until

from gpumond.model.topology import P2pStatus
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults

WHOLE = load_scenario("h200-2-vm")
LINK_DOWN = with_faults(WHOLE, [parse_fault("link_down,gpu=1,link=3")])
GPU_LOST = with_faults(WHOLE, [parse_fault("gpu_lost,gpu=1")])
P2P_LOST = replace(
    WHOLE, pairs=tuple(replace(it, p2p=dict.fromkeys(it.p2p, P2pStatus.CNS)) for it in WHOLE.pairs)
)
MATCHES = "gpumond_topology_matches_accepted"
OPEN = "gpumond_topology_open_changes"
TOTAL = "gpumond_topology_changes_total"


@pytest.fixture
def host(fake_nvml):
    return fake_nvml.host(WHOLE)


def is_open(daemon, kind, level="critical"):
    return lambda: daemon.value(OPEN, kind=kind, level=level) == 1 and daemon.value(MATCHES) == 0


def matches(daemon):
    return lambda: daemon.value(MATCHES) == 1


def topology(daemon, *words):
    done = subprocess.run(
        [sys.executable, "-m", "gpumond", "topology", *words, "--config", str(daemon.config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_breaks_shows_and_what_is_whole_again_does_too(write_config, daemons, host):
    daemon = daemons(write_config(), host.environment).start()
    assert daemon.value(MATCHES) == 1
    for scenario, kind in ((LINK_DOWN, "nvlink_down"), (GPU_LOST, "gpu_missing"), (P2P_LOST, "p2p_lost")):
        host.show(scenario)
        wait_until(is_open(daemon, kind), what=kind)
        host.show(WHOLE)
        wait_until(matches(daemon), what=f"the end of {kind}")
        assert daemon.value(OPEN, kind=kind, level="critical") == 0
        assert daemon.value(TOTAL, kind=kind, level="critical") == 1
    told = [(it["kind"], it["state"]) for it in daemon.events() if it["event"] == "topology_changed"]
    assert told == [
        (kind, state) for kind in ("nvlink_down", "gpu_missing", "p2p_lost") for state in ("open", "gone")
    ]
    assert daemon.terminate() == 0


def test_restart_keeps_and_accept_clears_and_undo_brings_back(write_config, daemons, host):
    config = write_config()
    daemon = daemons(config, host.environment).start()
    host.show(LINK_DOWN)
    wait_until(is_open(daemon, "nvlink_down"), what="nvlink_down")
    since = daemon.value("gpumond_topology_last_change_timestamp_seconds")
    daemon.kill()

    again = daemons(config, host.environment).start()
    # At once: not after a second reading, and not counted again.
    assert is_open(again, "nvlink_down")()
    assert again.value(TOTAL, kind="nvlink_down", level="critical") == 1
    assert again.value("gpumond_topology_last_change_timestamp_seconds") == since

    assert topology(again, "accept", "--reason", "no spare part").startswith("accepted: the state of")
    assert matches(again)()
    assert again.event("snapshot_accepted")["reason"] == "no spare part"
    assert topology(again, "undo", "--reason", "there is one").startswith("undone: ")
    wait_until(is_open(again, "nvlink_down"), what="nvlink_down after the undo")
    assert again.value(TOTAL, kind="nvlink_down", level="critical") == 2
    assert "undone by" in topology(again, "history")
    assert again.terminate() == 0
