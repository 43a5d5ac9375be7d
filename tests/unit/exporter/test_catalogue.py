"""Naming rules (prometheus/docs naming.md, reference 1.1) and the contract of DESIGN 5, held by the table itself."""

from __future__ import annotations

import re

import pytest

from gpumond.exporter.catalogue import AT_SCRAPE, PROCESS, STEADY
from gpumond.exporter.family import Freshness, Kind

FAMILIES = (*STEADY, *AT_SCRAPE)
UNIT_SUFFIXES = {"seconds", "bytes_per_second", "lanes", ""}
TARGET_LABELS = {
    "cluster",
    "region",
    "zone",
    "env",
    "service",
    "owner",
    "hostname",
    "instance",
    "job",
    "type",
    "severity",
}
UNITS_NOT_BASE = re.compile(r"(_gbps|_percent|_ms|_us|_milliseconds|_mib|_gib|_bits)")

# The names of DESIGN 5 that the model has data for today: other people's rules and dashboards build on them.
CONTRACT = {
    "build_info",
    "node_info",
    "gpu_info",
    "gpu_set_info",
    "simulated",
    "gpus",
    "gpus_expected",
    "gpu_present",
    "collector_success",
    "collector_duration_seconds",
    "collector_last_success_timestamp_seconds",
    "collector_interval_seconds",
    "topology_class_info",
    "topology_link_info",
    "topology_matches_accepted",
    "topology_open_changes",
    "topology_changes_total",
    "topology_last_change_timestamp_seconds",
    "p2p_supported",
    "gpu_link_up",
    "gpu_link_errors_total",
    "fabric_ready",
    "gpu_pcie_link_width_lanes",
    "gpu_pcie_link_width_max_lanes",
    "gpu_pcie_link_generation_max",
    "nic_info",
    "nic_port_up",
    "nic_gpu_link_info",
    "gpu_ecc_errors_total",
    "gpu_row_remap_pending",
    "gpu_row_remap_failure",
    "collective_busbw_bytes_per_second",
    "collective_busbw_expected_bytes_per_second",
    "collective_algbw_bytes_per_second",
    "collective_time_seconds",
    "collective_wrong_elements",
    "collective_measured_timestamp_seconds",
    "collective_verdict",
    "sweep_running",
    "sweep_run_start_timestamp_seconds",
    "sweep_last_run_success",
    "sweep_last_run_timestamp_seconds",
    "sweep_last_run_duration_seconds",
    "sweep_last_success_timestamp_seconds",
    "sweep_due_timestamp_seconds",
    "sweep_overdue_grace_seconds",
    "sweep_interval_seconds",
    "sweep_timeout_seconds",
    "sweep_consecutive_failures",
    "sweep_consecutive_skips",
    "sweep_runs_total",
    "sweep_failures_total",
    "sweep_skips_total",
    "sweep_preemptions_total",
    "preemption_seconds",
    "paused",
    "finding",
    "config_last_reload_successful",
    "config_last_reload_success_timestamp_seconds",
    "scheduler_heartbeat_timestamp_seconds",
    "state_write_success",
    "unkillable_processes",
    "time_seconds",
}


def test_the_contract_is_kept():
    assert {family.name for family in FAMILIES} >= {f"gpumond_{name}" for name in CONTRACT}


def test_no_name_twice():
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))
    assert not set(names) & set(PROCESS)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
class TestEveryFamily:
    def test_name(self, family):
        assert re.fullmatch(r"gpumond_[a-z][a-z0-9_]*", family.name)
        assert not UNITS_NOT_BASE.search(family.name)
        assert not re.search(r"_(sum|count|bucket|created)$", family.name)

    def test_kind_and_unit_follow_the_name(self, family):
        assert (family.kind is Kind.COUNTER) == family.name.endswith("_total")
        assert (family.kind is Kind.INFO) == family.name.endswith("_info")
        assert family.unit in UNIT_SUFFIXES
        assert family.name.endswith(family.unit)

    def test_labels(self, family):
        assert len(set(family.labels)) == len(family.labels)
        assert not set(family.labels) & TARGET_LABELS
        assert all(re.fullmatch(r"[a-z_]+", label) for label in family.labels)
        assert "gpu" not in family.labels or "uuid" in family.labels
        assert "peer" not in family.labels or "peer_uuid" in family.labels

    def test_help_is_prose_and_says_how_fresh_the_value_is(self, family):
        assert family.text.endswith(".")
        assert family.help.endswith(family.freshness.value)
        assert "\n" not in family.help
        assert (family.freshness is Freshness.SCRAPE) == (family in AT_SCRAPE)
