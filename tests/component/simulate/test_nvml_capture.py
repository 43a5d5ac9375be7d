"""The scenario `h200-2-vm` on the fake library answers NVIDIA's own binding as the captured host answered it.

Every call that the capture records is made again. Left out on purpose (`NOT_COVERED`): what the capture's own binding
refused before it reached a library. Milliseconds are not compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpumond.simulate.scenario import load_scenario

CAPTURE_FILE = Path(__file__).parents[2] / "data/nvml/h200x2.json"
CAPTURE = json.loads(CAPTURE_FILE.read_text(encoding="utf-8"))
DUMP = Path(__file__).parents[2] / "fakes/nvml_dump.py"

NOT_COVERED = {
    "nvmlDeviceGetPciInfoExt",  # called with too few arguments: a TypeError of Python
    "NVML_P2P_CAPS_INDEX_READ",  # a tuple where the binding wants a number: an ArgumentError of ctypes
}
# The binding of the capture gave the unversioned struct 80 bytes for the cluster UUID, ours 16: compared as bytes.
UNVERSIONED_FABRIC = "nvmlDeviceGetGpuFabricInfo:c_nvmlGpuFabricInfo_t"
STATE_OFFSET = 24

SYSTEM_CALLS = [key for key in CAPTURE if key.startswith("nvml")]
DEVICE_CALLS = [key for key in CAPTURE["devices"][0] if key not in {"links", "fields", "pairs"}]
LINK_CALLS = list(CAPTURE["devices"][0]["links"][0])
FIELDS = list(CAPTURE["devices"][0]["fields"])


@pytest.fixture(scope="module")
def dumped(fake_nvml):
    environment = os.environ | fake_nvml.environment(load_scenario("h200-2-vm"))
    output = subprocess.run(
        [sys.executable, DUMP, CAPTURE_FILE], env=environment, capture_output=True, check=True, timeout=60
    ).stdout
    return json.loads(output)


def recorded(entry):
    """A captured answer: its value, or the name of its error, as the dump has it."""
    value = entry.get("v", entry)
    if isinstance(value, dict) and "error" in value:
        return {"error": value["error"].partition(":")[0].partition("(")[0]}
    return value


@pytest.mark.parametrize("call", SYSTEM_CALLS)
def test_system(dumped, call):
    assert dumped[call] == recorded(CAPTURE[call])


@pytest.mark.parametrize(
    "call", [call for call in DEVICE_CALLS if call not in NOT_COVERED | {UNVERSIONED_FABRIC}]
)
def test_gpu(dumped, call):
    for ours, theirs in zip(dumped["devices"], CAPTURE["devices"], strict=True):
        assert ours[call] == recorded(theirs[call])


def test_fabric_through_the_unversioned_struct(dumped):
    for ours, theirs in zip(dumped["devices"], CAPTURE["devices"], strict=True):
        assert ours[UNVERSIONED_FABRIC] == {"clusterUuid": [0] * 16, "status": 0, "cliqueId": 0, "state": 3}
        captured_bytes = theirs[UNVERSIONED_FABRIC]["v"]["clusterUuid"]
        assert captured_bytes[STATE_OFFSET] == ours[UNVERSIONED_FABRIC]["state"]
        assert captured_bytes[:16] == ours[UNVERSIONED_FABRIC]["clusterUuid"]


@pytest.mark.parametrize("call", LINK_CALLS)
def test_nvlinks(dumped, call):
    for ours, theirs in zip(dumped["devices"], CAPTURE["devices"], strict=True):
        assert [link[call] for link in ours["links"]] == [recorded(link[call]) for link in theirs["links"]]


@pytest.mark.parametrize(
    "status", sorted({entry["ret"] for entry in CAPTURE["devices"][0]["fields"].values()})
)
def test_field_values_by_their_status(dumped, status):
    for ours, theirs in zip(dumped["devices"], CAPTURE["devices"], strict=True):
        expected = {name: entry for name, entry in theirs["fields"].items() if entry["ret"] == status}
        assert {name: ours["fields"][name] for name in expected} == expected


@pytest.mark.parametrize(
    "call", [call for call in CAPTURE["devices"][0]["pairs"]["1"] if call not in NOT_COVERED]
)
def test_pairs(dumped, call):
    for ours, theirs in zip(dumped["devices"], CAPTURE["devices"], strict=True):
        for peer, calls in theirs["pairs"].items():
            assert ours["pairs"][peer][call] == recorded(calls[call])


def test_the_capture_is_as_large_as_it_should_be():
    """A table test over an empty table proves nothing."""
    assert [len(SYSTEM_CALLS), len(DEVICE_CALLS), len(LINK_CALLS), len(FIELDS)] == [4, 52, 15, 193]
    assert [len(device["links"]) for device in CAPTURE["devices"]] == [18, 18]
