"""`gpumond check-config`: what it prints, as text and as JSON, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpumond.cli.main import main

ROOT = Path(__file__).parents[3]
TEN = ROOT / "tests" / "data" / "config" / "invalid-ten-mistakes.toml"


@pytest.fixture
def check(capsys):
    def run(*arguments):
        code = main(["check-config", *map(str, arguments)])
        printed = capsys.readouterr()
        assert printed.err == ""
        return code, printed.out

    return run


def test_the_example(check):
    code, text = check(ROOT / "config.example.toml")
    assert code == 0
    assert text.splitlines()[0].endswith("config.example.toml: ok")
    assert "sweep nightly: 02:00-05:00 " in text
    assert "(this host's zone), every day, this host at its own time within the first 30m" in text
    assert (
        "all_reduce, all_gather, reduce_scatter, alltoall, sendrecv on all; 64MiB to 2GiB times 2, float"
        in text
    )
    assert "warning" not in text


def test_what_a_sweep_means(check, tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(
        '[[sweep]]\nname = "w"\ntimezone = "Asia/Tokyo"\ndays = ["sat", "sun"]\nspread = "0s"\niterations = 1\n'
    )
    code, text = check(file)
    assert code == 0
    assert "  sweep w: 02:00-05:00 Asia/Tokyo, sat, sun\n" in text
    assert "\nwarning: sweep w: with fewer than 5 iterations" in text


def test_no_sweep_is_a_warning_only(check, tmp_path):
    file = tmp_path / "c.toml"
    file.touch()
    code, text = check(file)
    assert code == 0
    assert "warning: no [[sweep]]: nothing will ever be measured" in text


def test_ten_mistakes(check):
    code, text = check(TEN)
    assert code == 2
    expected = TEN.with_suffix(".expected").read_text().replace(TEN.name, str(TEN))
    assert text == f"{expected}{TEN}: {len(expected.splitlines())} problems\n"


def test_a_missing_file_has_a_hint(check, tmp_path):
    code, text = check(tmp_path / "none.toml")
    assert code == 2
    problem, hint = text.splitlines()
    assert problem.endswith("none.toml: no such file")
    assert hint.startswith("hint: config.example.toml")


def test_json_of_a_valid_file(check):
    code, text = check(ROOT / "config.example.toml", "--json")
    document = json.loads(text)
    assert code == 0
    assert document["is_valid"] is True
    assert document["problems"] == document["warnings"] == []
    (sweep,) = document["sweeps"]
    assert (sweep["name"], sweep["window"], sweep["spread_seconds"]) == ("nightly", "02:00-05:00", 1800.0)
    assert sweep["max_size_bytes"] == 2 << 30
    assert len(document["hash"]) == 64


def test_json_of_a_bad_file(check):
    code, text = check(TEN, "--json")
    document = json.loads(text)
    assert code == 2
    assert document["is_valid"] is False
    assert document["problems"][0] == {
        "file": str(TEN),
        "line": 3,
        "key": "store.directory",
        "message": 'must be an absolute path, beginning with / (got "var/lib/gpumond")',
    }
