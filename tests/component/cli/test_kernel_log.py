"""`gpumond kernel-log` on a made-up host, on a paste, and where there is nothing to read."""

from __future__ import annotations

import io
import json
import sys

import pytest

from gpumond.cli.main import main
from gpumond.simulate.scenario import load_scenario

PASTE = """\
2026-11-28T01:00:00,000000+00:00 NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.
2026-11-28T01:00:01,000000+00:00 NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.
2026-11-28T01:00:02,000000+00:00 usb 1-1: new device
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(f'[store]\ndirectory = "{tmp_path}/state"\n[simulate]\nscenario = "h200-2-vm"\n')
    return str(path)


def test_a_healthy_host_has_nothing_to_tell(config, capsys):
    assert main(["kernel-log", "--config", config]) == 0
    assert capsys.readouterr().out == "no Xid, SXid or PCIe error in the kernel log of this boot\n"


def test_a_lost_gpu_left_an_xid(config, tmp_path, capsys):
    scenario = tmp_path / "lost.toml"
    whole = load_scenario("h200-2-vm")
    bus_id = whole.gpus[1].pci_bus_id
    scenario.write_text('base = "h200-2-vm"\n[[faults]]\nkind = "gpu_lost"\ngpu = 1\n')
    text = (tmp_path / "config.toml").read_text().replace('"h200-2-vm"', f'"{scenario}"')
    (tmp_path / "config.toml").write_text(text)
    assert main(["kernel-log", "--json", "--config", config]) == 0
    (event,) = json.loads(capsys.readouterr().out)["events"]
    assert (event["pci_bus_id"], event["code"], event["level"]) == (bus_id, "79", "critical")


def test_a_paste_is_counted(config, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PASTE.encode())))
    assert main(["kernel-log", "--from", "-", "--config", config]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "standard input:"
    assert (
        "2026-11-28 01:00:01  critical  Xid 79          0000:3b:00.0  2 times since 2026-11-28 01:00:00"
        in lines[1]
    )
    assert lines[2].endswith("GPU has fallen off the bus.")
