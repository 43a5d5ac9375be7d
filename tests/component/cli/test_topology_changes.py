"""`gpumond topology diff, accept, reject, undo, history` as commands: what they print, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from snapshot_edits import edited, gpu, links, nic

from gpumond import codec
from gpumond.cli.main import main
from gpumond.clock import SystemClock
from gpumond.model.reading import Unreadable, UnreadableReason, Value
from gpumond.monitor.inventory import inventory_of
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.simulate.snapshot import render_snapshot
from gpumond.store.sqlite import Store

DOWN = Value(value=False)
HGX = render_snapshot(load_scenario("hgx-h200-8"), taken_at=datetime(2026, 11, 29, 2, 0, tzinfo=UTC))
LINK_DOWN = edited(HGX, links(3, 7, is_up=DOWN))
BLIND = edited(HGX, gpu(0, ecc_mode=Unreadable(UnreadableReason.ERROR)))


def topology(*words, environment=None):
    return subprocess.run(
        [sys.executable, "-m", "gpumond", "topology", *words],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def file(tmp_path):
    """`file("a", snapshot)` -> a path that holds what `gpumond topology --json` would print of it."""

    def write(name, snapshot):
        path = tmp_path / f"{name}.json"
        path.write_bytes(codec.encode({"gpus": [], "links": {}, "snapshot": snapshot}))
        return str(path)

    return write


class TestTwoFiles:
    """In this process: a subprocess for each would cost a second."""

    @pytest.fixture
    def diff(self, file, capsys):
        def run(before, after, *options):
            code = main(["topology", "diff", file("a", before), file("b", after), *options])
            printed = capsys.readouterr()
            return code, printed.out, printed.err

        return run

    @pytest.mark.parametrize(
        ("after", "code"), [(HGX, 0), (LINK_DOWN, 1), (BLIND, 3), (edited(BLIND, links(0, 1, is_up=DOWN)), 1)]
    )
    def test_exit_codes_with_fail_on_change(self, diff, after, code):
        assert diff(HGX, after, "--fail-on-change")[0] == code

    def test_without_the_option_a_change_is_no_failure(self, diff):
        assert diff(HGX, LINK_DOWN)[0] == 0

    def test_text(self, diff):
        _, text, _ = diff(HGX, LINK_DOWN)
        assert "SIMULATED host hgx-h200-8" in text
        assert "critical  nvlink_down  GPU 0000:5d:00.0: NVLink 7 is down\n" in text
        assert "18 links up -> 17 links up" in text

    def test_no_difference(self, diff):
        assert diff(HGX, HGX)[1].endswith("\nno difference\n")

    @pytest.mark.parametrize("place", ["before", "behind"])
    def test_json(self, file, capsys, place):
        files = [file("a", HGX), file("b", LINK_DOWN)]
        words = ["--json", "diff", *files] if place == "before" else ["diff", *files, "--json"]
        assert main(["topology", *words]) == 0
        document = json.loads(capsys.readouterr().out)
        (change,) = document["changes"]
        assert (change["kind"], change["level"], change["subject"]["kind"]) == (
            "nvlink_down",
            "critical",
            "gpu",
        )
        assert document["current"]["simulated"] == "hgx-h200-8"

    def test_a_hostile_name_moves_no_cursor_and_makes_no_line(self, diff):
        hostile = edited(
            HGX, nic("mlx5_3", name="\x1b[2Jevil\ncritical  gpu_missing"), gpu(0, name=Value("\x9b2J"))
        )
        code, text, _ = diff(HGX, hostile)
        assert code == 0
        assert "evil" in text
        assert not set(text) - {"\n"} & {"\x1b", "\x9b", "\r"}
        assert not [line for line in text.splitlines() if line.startswith("critical  gpu_missing")]

    def test_snapshots_of_two_hosts_are_all_differences(self, diff, two_gpus):
        code, text, _ = diff(HGX, two_gpus, "--fail-on-change")
        assert code == 1
        assert "gpu_missing" in text


BROKEN = {
    "newer": b'{"snapshot": {"schema": 99, "taken_at": "x", "pairs": []}}',
    "half": codec.encode({"snapshot": HGX})[:2000],
    "other": b'{"resources": []}',
    "list": b"[1, 2]",
    "empty": b"",
    "binary": b"\x00\xff\x00",
    "deep": b'{"snapshot":' * 50_000,
    "field": codec.encode({"snapshot": HGX}).replace(b'"index":0', b'"index":"zero"', 1),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_file_that_is_no_snapshot_is_refused_by_name(name, tmp_path, file, capsys):
    path = tmp_path / f"{name}.broken"
    path.write_bytes(BROKEN[name])
    assert main(["topology", "diff", file("good", HGX), str(path)]) == 2
    assert f"{name}.broken" in capsys.readouterr().err


def test_usage(file, capsys, tmp_path):
    good = file("good", HGX)
    assert main(["topology", "diff", good]) == 2
    assert main(["topology", "diff", good, str(tmp_path / "nowhere.json")]) == 2
    assert main(["topology", "diff", "-", "-"]) == 2
    assert main(["topology", "--stored", "diff"]) == 2
    assert main(["topology", "accept", "--reason", "  "]) == 2
    assert main(["topology", "history", "--limit", "0"]) == 2
    assert capsys.readouterr().err.count("hint: ") >= 4


def test_a_snapshot_of_a_driver_that_could_not_be_asked_is_not_evaluated(file, capsys):
    blind = replace(HGX, driver=Unreadable(UnreadableReason.DRIVER_MISMATCH, "nvmlInit: \x1b[2J"))
    assert main(["topology", "diff", file("a", HGX), file("b", blind)]) == 3
    assert "\x1b" not in capsys.readouterr().err


# --- this host, without a daemon ---------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(
        f'[store]\ndirectory = "{tmp_path}/state"\nmin_free = "0"\n'
        f'[benchmark]\nlock_file = "{tmp_path}/run/gpu.lock"\n'
    )
    return ("--config", str(path))


@pytest.fixture
def host(fake_nvml):
    """The driver of two H200s, which `host.show(scenario)` changes."""
    return fake_nvml.host(load_scenario("h200-2-vm"))


LINK_3_DOWN = with_faults(load_scenario("h200-2-vm"), [parse_fault("link_down,gpu=1,link=3")])


def test_the_whole_story_without_a_daemon(host, config):
    def run(*words):
        return topology(*words, *config, environment=host.environment)

    assert run("accept", "--reason", "as delivered").stdout.startswith("accepted: the state of")
    assert run("diff", "--fail-on-change").returncode == 0
    host.show(LINK_3_DOWN)
    done = run("diff", "--fail-on-change")
    assert (done.returncode, done.stderr) == (1, "")
    assert "nvlink_down  GPU 0000:00:07.0: NVLink 3 is down" in done.stdout
    assert ": as delivered\n" in done.stdout
    assert run("reject", "--reason", "repair ordered").returncode == 0
    assert run("accept", "--reason", "it is not worth a repair").returncode == 0
    assert run("diff", "--fail-on-change").returncode == 0
    done = run("undo", "--reason", "it is")
    assert done.stdout.startswith("undone: what ")
    assert run("diff", "--fail-on-change").returncode == 1
    lines = run("history").stdout.splitlines()
    told = [line.split("  ", 1)[1].split(" by ")[0] for line in lines]
    assert told == ["undone", "accepted", "rejected", "accepted"]
    assert lines[0].endswith(": it is")
    document = json.loads(run("history", "--json").stdout)
    assert [it["reason"] for it in document["decisions"]] == [
        "it is not worth a repair",
        "repair ordered",
        "as delivered",
    ]


def test_nothing_to_undo(config, host):
    assert topology("accept", "--reason", "first", *config, environment=host.environment).returncode == 0
    done = topology("undo", "--reason", "no", *config, environment=host.environment)
    assert done.returncode == 3
    assert "no decision that could be undone" in done.stderr


def test_without_a_store_there_is_nothing_to_compare_with(config, capsys):
    assert main(["topology", "diff", *config]) == 10
    assert main(["topology", "history", *config]) == 10
    assert capsys.readouterr().err.count("there is no history") == 2


def test_with_a_store_in_which_nothing_is_accepted(config, capsys, tmp_path):
    Store.open(tmp_path / "state", clock=SystemClock()).close()
    assert main(["topology", "diff", *config]) == 3
    assert "no state of this host is accepted" in capsys.readouterr().err


def test_a_host_without_a_driver_accepts_nothing_and_compares_nothing(config, tmp_path, two_gpus):
    assert topology("accept", "--reason", "x", *config).returncode == 12
    with Store.open(tmp_path / "state", clock=SystemClock()) as store:
        store.accept_snapshot(two_gpus, inventory_of(two_gpus), by="test", reason="before")
    done = topology("diff", *config)
    assert (done.returncode, done.stdout) == (12, "")


def test_without_a_word_it_is_what_it_was(host):
    done = topology(environment=host.environment)
    assert done.returncode == 0
    assert "GPU Legend" in done.stdout
