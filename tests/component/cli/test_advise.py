"""`gpumond advise` and what both it and `gpumond topology` do with what somebody sent."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from gpumond.cli.main import main
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults

CASES = Path(__file__).parents[2] / "data" / "topology" / "cases"
CUBE_MESH = str(CASES / "05-v100-hybrid-cube-mesh.txt")


@pytest.fixture
def gpumond(capsys):
    """`gpumond("advise", ...)` -> exit code, standard output, standard error."""

    def call(*words):
        code = main(words)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def snapshot_document(gpumond):
    """What `gpumond topology --json` printed on a simulated host, to be changed and sent."""
    return json.loads(gpumond("topology", "--simulate", "hgx-h100-8", "--json")[1])


def test_text_for_people(gpumond):
    code, out, err = gpumond("advise", "--simulate", "l40s-8-pcie", "--params", "70B", "--serve")
    assert (code, err) == (0, "")
    assert out.startswith("Simulated host: l40s-8-pcie\n\nclass: pcie-p2p\n")
    assert "\nstrategy\n  Serve 2 copies, each TP2 x PP2.\n      arithmetic: 42.0 GB a GPU with this" in out
    # What all lines of a topic rest on is said once.
    assert out.count("CUDA takes UUIDs") == 1


def test_json_for_programs(gpumond):
    code, out, _ = gpumond("advise", "--simulate", "hgx-h100-8", "--params", "7B", "--train", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["class"] == "nvswitch"
    assert document["groups"] == [
        {"gpus": [f"GPU{n}" for n in range(8)], "tier": "direct", "p2p_is_certain": True}
    ]
    assert (document["plan"]["sharding"], document["plan"]["data"]) == ("ZeRO-1", 8)
    assert all(line["facts"] for line in document["lines"])


def test_a_paste(gpumond):
    code, out, _ = gpumond("advise", "--from", CUBE_MESH)
    assert code == 0
    assert "TP4 inside GPU0-GPU3.\n      text: GPU0-GPU3: 6 pairs, 3 NV1, 3 NV2, P2P not told" in out


def test_a_paste_on_standard_input(gpumond, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(CUBE_MESH).read_bytes())))
    assert "TP4 inside GPU4-GPU7." in gpumond("advise", "--from", "-")[1]


@pytest.mark.parametrize("is_bare", [True, False])
def test_a_snapshot_that_somebody_sent(gpumond, snapshot_document, tmp_path, is_bare):
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps(snapshot_document["snapshot"] if is_bare else snapshot_document))
    here = gpumond("advise", "--simulate", "hgx-h100-8", "--params", "70B", "--serve")
    assert gpumond("advise", "--from", str(file), "--params", "70B", "--serve") == here
    assert gpumond("topology", "--from", str(file)) == gpumond("topology", "--simulate", "hgx-h100-8")


@pytest.mark.parametrize("command", ["advise", "topology"])
@pytest.mark.parametrize(
    "misfit",
    [
        ({"schema": 99}, "its schema 99 is newer than"),
        ({"schema": 99, "gpus": "of another shape"}, "its schema 99 is newer than"),
        ({"gpus": "none"}, "gpus: Input should be a valid"),
        ({"vendor": "acme"}, "vendor"),
    ],
)
def test_a_snapshot_that_cannot_be_used(gpumond, snapshot_document, tmp_path, command, misfit):
    change, message = misfit
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps(snapshot_document["snapshot"] | change))
    code, out, err = gpumond(command, "--from", str(file))
    assert (code, out) == (2, "")
    assert f"{file}: this snapshot cannot be used: " in err
    assert message in err
    assert "hint: A snapshot is what `gpumond topology --json` prints" in err


@pytest.mark.parametrize("command", ["advise", "topology"])
@pytest.mark.parametrize(
    "text", ["", "No devices were found\n", "{}", '{"snapshot": 3}', "{" * 100_000, "[1, 2"]
)
def test_no_matrix_is_not_evaluated(gpumond, tmp_path, command, text):
    file = tmp_path / "paste.txt"
    file.write_text(text)
    code, out, err = gpumond(command, "--from", str(file))
    assert (code, out) == (3, "")
    assert f"no topology matrix in {file}" in err


@pytest.mark.parametrize("command", ["advise", "topology"])
def test_no_file_is_a_usage_error(gpumond, command):
    code, _, err = gpumond(command, "--from", "/nowhere/paste.txt")
    assert code == 2
    assert "no such file or directory" in err


@pytest.mark.parametrize("command", ["advise", "topology"])
def test_hostile_names_reach_the_terminal_harmlessly(gpumond, snapshot_document, tmp_path, command):
    snapshot = snapshot_document["snapshot"]
    snapshot["nics"][0]["name"] = "mlx5\x1b[2J\x07; reboot"
    snapshot["gpus"][0]["name"]["value"] = "H100\x1b]0;evil\x07\u202e"
    snapshot["gpus"][1]["uuid"] = "GPU-1; reboot"
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps(snapshot))
    _, out, _ = gpumond(command, "--from", str(file))
    assert out
    assert all(character.isprintable() or character == "\n" for character in out)


def test_half_a_matrix(gpumond, tmp_path):
    file = tmp_path / "paste.txt"
    lines = Path(CUBE_MESH).read_text().splitlines()
    file.write_text("\n".join(lines[:4]))
    code, out, err = gpumond("topology", "--from", str(file))
    assert code == 0
    assert "class" in out
    assert "GPU7" in err
    assert gpumond("advise", "--from", str(file))[0] == 0


def test_sixty_four_gpus(gpumond, tmp_path):
    names = [f"GPU{n}" for n in range(64)]
    rows = ["\t".join([name, *("X" if peer == name else "NV18" for peer in names)]) for name in names]
    file = tmp_path / "paste.txt"
    file.write_text("\n".join(["\t" + "\t".join(names), *rows]) + "\n")
    code, out, _ = gpumond("advise", "--from", str(file))
    assert code == 0
    assert "TP64 inside GPU0-GPU63." in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--params", "7B"], "--train or --serve is missing"),
        (["--serve"], "--params is missing"),
        (["--params", "8x7B", "--serve"], "--params: not a number of parameters: '8x7B'"),
        (["--params", "0", "--serve"], "--params: between 1 and"),
        (["--params", "7B", "--train", "--dtype", "int4"], "--dtype int4 with --train"),
        (["--simulate", "hgx-h100"], "unknown scenario 'hgx-h100'"),
    ],
)
def test_half_a_question_is_a_usage_error(gpumond, words, message):
    host = [] if "--simulate" in words else ["--simulate", "gh200-1"]
    code, out, err = gpumond("advise", *host, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "hint: " in err


def test_a_driver_that_is_not_loaded(gpumond, fake_nvml, monkeypatch):
    broken = with_faults(load_scenario("h200-2-vm"), [parse_fault("driver_not_loaded")])
    for name, value in fake_nvml.host(broken).environment.items():
        monkeypatch.setenv(name, value)
    code, out, err = gpumond("advise")
    assert (code, out) == (12, "")
    assert "kernel driver is not loaded" in err
