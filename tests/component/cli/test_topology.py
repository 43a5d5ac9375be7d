"""`gpumond topology` as a command: what it prints where, and with which exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpumond.clock import SystemClock
from gpumond.model.status import InventoryEntry
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.store.sqlite import Store

DATA = Path(__file__).parents[2] / "data/topology"
CAPTURED_LABELS = {"GPU0-GPU1": "NV18"}


def topology(*arguments, environment=None):
    return subprocess.run(
        [sys.executable, "-m", "gpumond", "topology", *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def host(fake_nvml):
    """`host("gpu_lost,gpu=1")` -> the environment in which a command sees the two H200s with these faults."""

    def environment(*faults):
        scenario = with_faults(load_scenario("h200-2-vm"), [parse_fault(fault) for fault in faults])
        return fake_nvml.host(scenario).environment

    return environment


def rows_of(text):
    lines = re.sub(r"\x1b\[\d*m", "", text).splitlines()
    return [
        line.split() for line in lines if line.startswith("GPU") and ":" not in line and "Legend" not in line
    ]


def test_the_matrix_is_the_one_that_nvidia_smi_printed_on_that_host(host):
    done = topology(environment=host())
    assert done.returncode == 0, done.stderr
    assert rows_of(done.stdout) == rows_of((DATA / "h200x2-topo-m.txt").read_text())
    assert len(rows_of(done.stdout)) == 2


def test_json_has_the_labels_and_the_whole_snapshot(host):
    done = topology("--json", environment=host())
    document = json.loads(done.stdout)
    assert document["links"] == CAPTURED_LABELS
    assert document["gpu_uuids"] == {
        gpu: document["snapshot"]["gpus"][at]["uuid"] for at, gpu in enumerate(document["gpus"])
    }


def test_a_lost_gpu_is_named_and_the_rest_is_shown(host):
    done = topology(environment=host("gpu_lost,gpu=1"))
    assert done.returncode == 0
    assert "Silent GPUs" in done.stdout
    assert "gpu lost" in done.stdout


@pytest.mark.parametrize(
    ("fault", "message", "hint"),
    [
        ("driver_mismatch", "have different versions", "Reboot"),
        ("driver_not_loaded", "kernel driver is not loaded", "modprobe nvidia"),
        ("call_fails,call=nvmlInitWithFlags,status=4", "may not ask the NVIDIA driver", "/dev/nvidia*"),
        (
            "call_fails,call=nvmlInitWithFlags,status=999",
            "does not answer (nvmlInit: UNKNOWN (999))",
            "nvidia-smi",
        ),
    ],
)
def test_a_driver_that_cannot_be_used_is_an_environment_error_with_a_hint(host, fault, message, hint):
    done = topology(environment=host(fault))
    assert done.returncode == 12
    assert done.stdout == ""
    assert message in done.stderr
    assert hint in done.stderr.partition("hint: ")[2]


def test_a_missing_driver_is_still_a_document_for_a_program():
    done = topology("--json")
    assert done.returncode == 12
    assert json.loads(done.stdout)["snapshot"]["driver"]["reason"] == "no_library"
    assert "libnvidia-ml.so.1 is not installed" in done.stderr


def test_a_host_without_gpus_says_so(host):
    done = topology(environment=host("gpu_missing,gpu=0", "gpu_missing,gpu=1"))
    assert done.returncode == 12
    assert "shows no GPU" in done.stderr


def test_a_probe_that_crashes_is_not_evaluated(host):
    done = topology(environment=host("call_crashes,call=nvmlDeviceGetName"))
    assert done.returncode == 3
    assert "SIGSEGV" in done.stderr


def test_a_simulated_host_says_that_it_is_one():
    done = topology("--simulate", "hgx-h200-8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Simulated host: hgx-h200-8\n")
    assert len(rows_of(done.stdout)) == 8


def test_an_unknown_simulated_host_is_a_usage_error():
    done = topology("--simulate", "h200-2-wm")
    assert done.returncode == 2
    assert "Did you mean h200-2-vm?" in done.stderr


@pytest.fixture
def stored(tmp_path, two_gpus):
    """The arguments that name a store which holds the two H200s, accepted under other numbers than their order."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    with Store.open(state, clock=SystemClock()) as store:
        store.record_snapshot(two_gpus)
        entries = [
            InventoryEntry(5 + at, gpu.uuid, gpu.pci_bus_id, "NVIDIA H200")
            for at, gpu in enumerate(two_gpus.gpus)
        ]
        store.accept_inventory(entries, by="test", reason="other numbers")
    config = tmp_path / "config.toml"
    config.write_text(f'[store]\ndirectory = "{state}"\n')
    return ("--stored", "--config", str(config))


def test_what_is_stored_is_shown_under_the_accepted_numbers(stored, two_gpus):
    done = topology(*stored)
    assert done.returncode == 0, done.stderr
    assert f"Stored: like this since {two_gpus.taken_at:%Y-%m-%d}" in done.stdout
    assert [row[0] for row in rows_of(done.stdout)] == ["GPU5", "GPU6"]


def test_the_same_as_json(stored):
    assert json.loads(topology(*stored, "--json").stdout)["links"] == {"GPU5-GPU6": "NV18"}


def test_a_store_without_a_snapshot_has_evaluated_nothing(tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    Store.open(state, clock=SystemClock()).close()
    config = tmp_path / "config.toml"
    config.write_text(f'[store]\ndirectory = "{state}"\n')
    done = topology("--stored", "--config", str(config))
    assert done.returncode == 3
    assert "no snapshot is stored" in done.stderr


def test_sources_exclude_each_other():
    assert topology("--stored", "--live").returncode == 2
