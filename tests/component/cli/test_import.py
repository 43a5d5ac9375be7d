"""`gpumond import`: what is kept of a log, and that it counts nowhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpumond.cli.main import main
from gpumond.clock import SystemClock
from gpumond.model.run import Purpose
from gpumond.store.sqlite import Store

CAPTURES = Path(__file__).parents[2] / "data" / "captures" / "h200x2"
STANDARD = CAPTURES / "ar_std.out"


@pytest.fixture
def gpumond(tmp_path, capsys):
    """`gpumond(*words)` -> exit status, standard output, standard error."""
    config = tmp_path / "config.toml"
    config.write_text(f'[store]\ndirectory = "{tmp_path}/state"\n')

    def call(*words):
        code = main([words[0], "--config", str(config), *map(str, words[1:])])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def store_of(tmp_path):
    def opened():
        return Store.open(tmp_path / "state", clock=SystemClock(), read_only=True)

    return opened


def test_a_log_is_kept_as_it_is_and_is_never_current(gpumond, store_of, tmp_path):
    log = tmp_path / "old.log"
    log.write_bytes(STANDARD.read_bytes())
    os.utime(log, (1_700_000_000, 1_700_000_000))
    code, out, _ = gpumond("import", log, "--sweep", "nightly", "--gpu-set", "all")
    assert code == 0
    with store_of() as store:
        (run,) = store.runs(limit=9)
        assert run.id in out
        assert (run.sweep, run.gpu_set.name, run.purpose) == ("nightly", "all", Purpose.IMPORTED)
        assert run.started_at.timestamp() == 1_700_000_000
        assert len(run.points) == 58
        assert store.raw_output(run.id) == STANDARD.read_bytes()
        assert store.latest_points() == ()
        assert store.latest_verdicts() == ()
        assert store.latest_transports() == ()
        assert store.sweep_history("nightly").runs == 0
        assert store.open_runs() == ()
    _, listed, _ = gpumond("history")
    assert "imported" in listed


def test_the_instant_can_be_given_and_json_printed(gpumond):
    code, out, _ = gpumond("import", STANDARD, "--measured-at", "2026-11-01T02:00+01:00", "--json")
    assert (code, json.loads(out)["started_at"]) == (0, "2026-11-01T01:00:00Z")


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (lambda path: path.write_bytes((CAPTURES / "ar_bad.out").read_bytes()), 3, "holds no row"),
        (lambda path: path.write_bytes(b"\x7fELF" + bytes(4000)), 2, "is binary"),
        (lambda path: path.write_bytes(b""), 3, "holds no row"),
        (lambda path: None, 2, "cannot read"),
    ],
    ids=["no rows", "a program", "empty", "missing"],
)
def test_what_is_no_log_is_refused_and_nothing_is_kept(gpumond, tmp_path, make, code, said):
    make(tmp_path / "log")
    ended, out, err = gpumond("import", tmp_path / "log")
    assert (ended, out) == (code, "")
    assert said in err
    assert not (tmp_path / "state").exists()
