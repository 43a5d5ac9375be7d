"""`gpumond judge` and `gpumond reference` as programs: documents, text, exit codes."""

import json

import pytest
from nightly_history import LEARNED, Host

from gpumond.cli.main import main


@pytest.fixture
def history(tmp_path):
    """`history(lines)` -> a file that holds them."""

    def write(lines):
        path = tmp_path / "history.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
        return str(path)

    return write


def judge(capsys, path, *options):
    code = main(["judge", "--history", path, *options])
    return code, capsys.readouterr()


def test_the_document_has_every_key_of_the_contract(capsys, history):
    host = Host()
    lines = host.nights(0, LEARNED) + host.nights(LEARNED, LEARNED + 2, factor=0.9)
    code, output = judge(capsys, history(lines), "--json")
    document = json.loads(output.out)
    assert code == 1
    assert len(document["verdicts"]) == len(lines)
    assert {"at", "collective", "verdict", "reason", "score", "basis"} <= set(document["verdicts"][0])
    assert {"kind", "level", "first_at", "confirmed_at", "collectives", "cause"} <= set(
        document["findings"][0]
    )
    last = document["verdicts"][-1]
    assert (last["at"], last["verdict"], last["reason"], last["basis"]) == (
        lines[-1]["at"],
        "degraded",
        "step",
        "baseline",
    )
    step = next(item for item in document["findings"] if item["kind"] == "step")
    assert (step["first_at"], step["confirmed_at"]) == (lines[-2]["at"], lines[-1]["at"])
    assert (step["collectives"], step["cause"], step["level"]) == (["all_reduce"], [], "warning")


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (lambda host: host.nights(0, 3), 0),  # still learning
        (lambda host: host.nights(0, 30), 0),
        (lambda host: host.nights(0, LEARNED) + host.nights(LEARNED, 30, factor=0.9), 1),
        (lambda host: host.nights(0, 3, rows=[], outcome="failed"), 1),
        (lambda host: host.nights(0, 3, tainted=True), 3),
        (lambda _host: [], 3),
    ],
)
def test_exit_codes(capsys, history, lines, code):
    assert judge(capsys, history(lines(Host())))[0] == code


def test_the_text_shows_the_newest_verdicts_and_every_finding(capsys, history):
    host = Host()
    lines = host.nights(0, LEARNED) + host.nights(LEARNED, 32, factor=0.9)
    _, output = judge(capsys, history(lines))
    assert "the newest 20 of 32 runs" in output.out
    assert "step (warning) 2026-01-29T02:00:00Z open [all_reduce]" in output.out
    assert "nothing that we record changed" in output.out


def test_a_line_that_is_none_is_a_usage_error_with_its_number(capsys, history):
    code, output = judge(capsys, history([Host().line(0), {"at": "2026-01-01T00:00:00Z"}]))
    assert code == 2
    assert "line 2: sweep" in output.err


def test_a_missing_file_is_a_usage_error(capsys):
    code, output = judge(capsys, "/nowhere/history.jsonl")
    assert code == 2
    assert "no such file" in output.err


def test_a_file_that_is_no_text_is_a_usage_error(capsys, tmp_path):
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00\x80")
    code, _ = judge(capsys, str(path))
    assert code == 2


def test_reference_names_values_and_sources(capsys):
    assert main(["reference", "MI300X"]) == 0
    output = capsys.readouterr().out
    assert "312.91" in output
    assert "stas00/ml-engineering" in output
    assert "7 x 48.0 x 0.93 = 312.5" in output


def test_reference_without_words_shows_one_line_a_platform_and_collective(capsys):
    assert main(["reference", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["measured"]) == 109
    assert main(["reference"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "HGX H200 (Azure ND H200 v5)" in line]
    assert len(lines) == 1


def test_reference_of_an_unknown_platform_lists_the_known_ones(capsys):
    assert main(["reference", "Abacus"]) == 2
    error = capsys.readouterr().err
    assert "no measurement of 'Abacus'" in error
    assert "HGX H200" in error


def test_a_name_from_outside_moves_no_cursor(capsys, history):
    line = {**Host().line(0), "collective": "all_reduce\x1b[2J"}
    _, output = judge(capsys, history([line]))
    assert "\x1b" not in output.out
    assert "all_reduce?[2J" in output.out


def test_a_byte_order_mark_and_separators_inside_a_text_are_no_mistake(capsys, tmp_path):
    path = tmp_path / "history.jsonl"
    line = {**Host().line(0), "collective": "all\u2028reduce"}
    path.write_text(f"\ufeff{json.dumps(line, ensure_ascii=False)}\r\n", encoding="utf-8")
    code, output = judge(capsys, str(path), "--json")
    assert (code, len(json.loads(output.out)["verdicts"])) == (0, 1)
