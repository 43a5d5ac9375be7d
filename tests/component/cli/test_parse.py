"""`gpumond parse` on real files, pipes and devices: what it prints, and the documented exit codes."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpumond.cli.main import main
from gpumond.parsers.nccl_tests import reader

DATA = Path(__file__).parents[2] / "data"
STANDARD = DATA / "captures" / "h200x2" / "ar_std.out"
KEYS = {
    "tool",
    "collective",
    "ngpus",
    "nranks",
    "rows",
    "avg_busbw_gbps",
    "out_of_bounds",
    "outcome",
    "error",
}
HEADER = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
ROW = "256 64 float sum -1 34.24 0.01 0.00 0 33.65 0.01 0.00 0\n"
FOOTER = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.01 \n#\n"


def parse(capsys, path, *options):
    code = main(["parse", str(path), *options])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("path", sorted((DATA / "nccl").glob("*.txt")), ids=lambda path: path.stem)
def test_every_case_as_json_and_as_an_exit_code(capsys, path):
    expected = json.loads(path.with_suffix(".json").read_text())
    code, out, _ = parse(capsys, path, "--json")
    document = json.loads(out)
    assert document.keys() >= KEYS
    assert document["outcome"] == expected["outcome"]
    assert len(document["rows"]) == len(expected["rows"])
    assert code == {"ok": 0, "wrong_results": 1, "failed": 1, "truncated": 3}[expected["outcome"]]


def test_a_person_sees_the_rows_and_the_verdict(capsys):
    code, out, err = parse(capsys, STANDARD)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "all_reduce, 2 ranks, nccl-tests 2.19.6 on library 2.28.9"
    assert lines[-4].split() == ["2", "GiB", "float", "sum", "6351.22", "338.12", "338.12", "0", "6325.99", "339.47", "339.47", "0"]  # fmt: skip
    assert lines[-2] == "ok: 29 rows, no wrong values"
    assert "says nothing of a link" in lines[-1]
    table = lines[4:-3]
    assert len({len(line) for line in table}) == 1, "the columns are not aligned"


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        ("captures/h200x2/ar_term.out", 3, "truncated: 0 rows, and no footer"),
        ("captures/h200x2/ar_t1.out", 1, "failed: timeout: an operation took more than 1 s"),
        ("captures/h200x2/ar_c0.out", 0, "ok: 4 rows, data not checked element by element"),
        ("captures/h200x2/index.txt", 3, "no output of nccl-tests or rccl-tests in it"),
        ("nccl/07-wrong-values-with-trailing-failure-lines.txt", 1, "wrong results: data were corrupted, 128 wrong elements in 2 measurements"),
        ("nccl/05-hash-stripped-allgather-failed.txt", 1, "wrong results: data were corrupted, 2 values out of bounds"),
        ("nccl/18-alltoall-one-gpu-sudo-prompt.txt", 0, "ok: 1 row, no wrong values"),
    ],
)  # fmt: skip
def test_the_verdict_is_one_sentence(capsys, name, code, sentence):
    found, out, _ = parse(capsys, DATA / name)
    assert found == code
    assert sentence in out.splitlines()


def write(tmp_path, text):
    path = tmp_path / "log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_rejected_row_is_shown_with_its_reason_and_is_never_healthy(capsys, tmp_path):
    lie = ROW.replace("34.24 0.01", "34.24 9.01")
    code, out, _ = parse(capsys, write(tmp_path, HEADER + ROW + lie + FOOTER))
    assert code == 3
    assert "rejected line 3: out-of-place algbw 9.01 is not 256 B / 34.24 us: 256 64 float sum -1" in out


def test_a_run_without_rows_is_no_result(capsys, tmp_path):
    code, out, _ = parse(capsys, write(tmp_path, HEADER + FOOTER.replace("0.01", "-nan")))
    assert (code, out.splitlines()[-1]) == (3, "no result: the run ended without a row that can be read")


def test_notes_are_shown(capsys, tmp_path):
    clamp = "# Reducing maxBytes to 48247057066 due to memory limitation\n"
    _, out, _ = parse(capsys, write(tmp_path, clamp + HEADER + ROW + FOOTER))
    assert "note: sizes end at 48247057066 bytes: the GPUs have no memory for more" in out.splitlines()


def test_an_empty_file_is_said_to_be_empty(capsys, tmp_path):
    code, out, _ = parse(capsys, write(tmp_path, ""))
    assert (code, out) == (3, f"{tmp_path / 'log'} is empty: there is nothing to judge\n")
    code, out, _ = parse(capsys, tmp_path / "log", "--json")
    assert (code, json.loads(out)["outcome"]) == (3, "truncated")


def test_a_file_that_is_not_utf8_is_read_all_the_same(capsys, tmp_path):
    text = f"# caf\xe9\n{HEADER}{ROW}{FOOTER}".encode("latin-1")
    code, out, err = parse(capsys, write(tmp_path, text), "--json")
    assert (code, len(json.loads(out)["rows"])) == (0, 1)
    assert err == f"note: {tmp_path / 'log'} is not all UTF-8; what cannot be read is taken as \ufffd\n"


REFUSED = {
    "missing": ("cannot read '{path}': no such file or directory", "Give the file"),
    "directory": ("cannot read '{path}': is a directory", "Give one file in it."),
    "binary": ("{path} is binary, not the text that a benchmark printed", "Give the text"),
    "compressed": ("{path} is compressed", "zcat"),
    "too large": ("{path} is larger than 1 MiB", "Cut out the part"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_sentence_with_a_hint(capsys, tmp_path, monkeypatch, kind):
    path = tmp_path / "log"
    if kind == "directory":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(bytes(range(256)) * 100)
    elif kind == "compressed":
        path.write_bytes(b"\x1f\x8b\x08\0" + bytes(100))
    elif kind == "too large":
        monkeypatch.setattr("gpumond.cli.parse.MAX_INPUT_BYTES", 2**20)
        path.write_text("word\n" * 300_000)
    message, hint = REFUSED[kind]
    code, out, err = parse(capsys, path)
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert first == f"gpumond: {message.format(path=path)}"
    assert second.startswith("hint: ")
    assert hint in second


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_device_without_end_is_refused_at_once(capsys, device):
    code, _, err = parse(capsys, device)
    assert code == 2
    assert f"{device} is binary" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(capsys, tmp_path):
    path = write(tmp_path, ROW)
    path.chmod(0)
    code, _, err = parse(capsys, path)
    assert code == 2
    assert "sudo cat FILE | gpumond parse -" in err


def test_a_nul_in_the_name(capsys):
    code, _, err = parse(capsys, "a\0b")
    assert code == 2
    assert "cannot read 'a\\x00b'" in err


def test_a_pipe_that_is_written_slowly(capsys, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = STANDARD.read_bytes()

    def write_slowly():
        with pipe.open("wb", buffering=0) as stream:
            for start in range(0, len(text), 500):
                stream.write(text[start : start + 500])

    writer = threading.Thread(target=write_slowly)
    writer.start()
    code, out, _ = parse(capsys, pipe, "--json")
    writer.join()
    assert (code, len(json.loads(out)["rows"])) == (0, 29)


def test_standard_input_and_a_reader_that_goes_away():
    command = [sys.executable, "-m", "gpumond", "parse", "-"]
    done = subprocess.run(
        [*command, "--json"], input=STANDARD.read_bytes(), capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, len(json.loads(done.stdout)["rows"]), done.stderr) == (0, 29, b"")
    gone = subprocess.run(
        ["sh", "-c", f'{" ".join(command)} < "{STANDARD}" | head -1'], capture_output=True, timeout=60, check=False
    )  # fmt: skip
    assert gone.stdout == b"all_reduce, 2 ranks, nccl-tests 2.19.6 on library 2.28.9\n"
    assert b"Traceback" not in gone.stderr


def test_the_limit_that_the_message_names_is_the_readers():
    assert reader.MAX_INPUT_BYTES == 64 * 2**20
