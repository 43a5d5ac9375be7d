"""`gpumond topology --from FILE` on real files."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from gpumond.cli.paste import LARGEST_FILE_BYTES
from gpumond.cli.topology_file import run_from_file
from gpumond.errors import NotEvaluatedError, UsageError

CASES = Path(__file__).parents[1] / "data" / "topology" / "cases"
CUBE_MESH = CASES / "05-v100-hybrid-cube-mesh.txt"


def test_text_for_people(capsys):
    assert run_from_file(str(CUBE_MESH), as_json=False) == 0
    printed = capsys.readouterr()
    assert (
        "class       nvlink-partial\n            28 pairs of GPUs: 12 no NVLink, 8 NV1, 8 NV2\n"
        in printed.out
    )
    assert "GPU0  X     NV1   NV2   NV1   SYS   SYS   SYS   NV2   NODE" in printed.out
    assert "NIC3: mlx5_3\n" in printed.out
    assert printed.err == ""


def test_json_for_programs(capsys):
    assert run_from_file(str(CUBE_MESH), as_json=True) == 0
    document = json.loads(capsys.readouterr().out)
    expected = json.loads(CUBE_MESH.with_suffix(".json").read_text())
    assert document["links"] == expected["links"]
    assert document["class"] == expected["class"]
    assert document["class_facts"] == ["28 pairs of GPUs: 12 no NVLink, 8 NV1, 8 NV2"]
    assert document["problems"] == []


def test_problems_go_to_standard_error(tmp_path, capsys):
    file = tmp_path / "paste.txt"
    file.write_text(CUBE_MESH.read_text().replace("GPU7    NV2  ", "GPU7    ERR! "))
    run_from_file(str(file), as_json=False)
    printed = capsys.readouterr()
    assert printed.err == f"{file}: line 9: no label for GPU7 to GPU0\n"
    assert "GPU7  ?     SYS" in printed.out


def test_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CUBE_MESH.read_bytes())))
    assert run_from_file("-", as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["gpus"][-1] == "GPU7"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_what_windows_writes(tmp_path, encoding, capsys):
    file = tmp_path / "paste.txt"
    file.write_text(CUBE_MESH.read_text(), encoding=encoding)
    run_from_file(str(file), as_json=True)
    assert json.loads(capsys.readouterr().out)["class"] == "nvlink-partial"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file or directory"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "a binary file"),
        (b"x" * (LARGEST_FILE_BYTES + 1), "more than 16 MiB"),
    ],
)
def test_no_text_is_a_usage_error(tmp_path, content, message):
    file = tmp_path / "paste.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError) as raised:
        run_from_file(str(file), as_json=False)
    assert raised.value.message == f"{file}: {message}"
    assert raised.value.exit_code == 2
    assert raised.value.hint.endswith(".")


@pytest.mark.parametrize("path", ["/dev/zero", "/", "a\0b", ""])
def test_no_file_is_a_usage_error(path):
    with pytest.raises(UsageError):
        run_from_file(path, as_json=False)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\xff", b"\xc3\x28 GPU0 GPU1", b"No devices were found\n"])
@pytest.mark.parametrize("as_json", [True, False])
def test_no_matrix_is_not_evaluated(tmp_path, content, as_json, capsys):
    file = tmp_path / "paste.txt"
    file.write_bytes(content)
    with pytest.raises(NotEvaluatedError) as raised:
        run_from_file(str(file), as_json=as_json)
    assert raised.value.exit_code == 3
    out = capsys.readouterr().out
    assert (json.loads(out)["problems"][0]["kind"] == "no_matrix") if as_json else out == ""


def test_names_in_a_text_reach_the_terminal_without_control_characters(tmp_path, capsys):
    file = tmp_path / "paste.txt"
    file.write_text(
        "GPU0 NIC0 CPU Affinity\nGPU0 X SYS 0\nNIC0 SYS X\nNIC0: mlx5\x07_\x1b[2J\x9b0\n\x1b]0;evil\x07\n"
    )
    run_from_file(str(file), as_json=False)
    out = capsys.readouterr().out
    assert "NIC0: mlx5_0\n" in out
    assert all(character.isprintable() or character == "\n" for character in out)
