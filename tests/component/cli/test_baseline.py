"""`gpumond baseline`, `findings` and `fingerprint` on a history, without a daemon."""

import json
from dataclasses import replace

import pytest
from history_values import NIGHT, StandingClock, store_one

from gpumond.cli.main import main
from gpumond.model.baseline import Baseline, Candidate, InputChange, Scope, ScopeMemory, Track, TrackKey
from gpumond.model.change import Level
from gpumond.model.finding import Finding, FindingKind
from gpumond.store.records import JudgeRecord
from gpumond.store.sqlite import Store

SCOPE = Scope("nightly", "nccl-tests", "all")
KEY = TrackKey("all_reduce", "float", "sum", 2, "p1")
CHANGE = InputChange(NIGHT, "driver", "580", "590")
WAITING = Track(
    baseline=Baseline({64 << 20: 267.3e9}, {}, 0.002, 0.1, 21, NIGHT, {"driver": "580"}),
    candidate=Candidate(NIGHT, (CHANGE,), {"driver": "590"}, (), (0.95,), needs_person=True),
)
CANDIDATE = Finding(
    FindingKind.BASELINE_CANDIDATE,
    Level.WARNING,
    f"{SCOPE} since then",
    "a new normal waits",
    "",
    NIGHT,
    NIGHT,
    collectives=("all_reduce",),
)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(f'[store]\ndirectory = "{tmp_path / "state"}"\n')
    with Store.open(tmp_path / "state", clock=StandingClock()) as store:
        for driver in ("580", "590"):
            store.set_fingerprint(store_one(store).id, {"driver": driver, "nccl": "2.28.9"})
        memory = ScopeMemory({KEY: WAITING}, (CANDIDATE,))
        store.record_judgement(
            SCOPE, JudgeRecord(1, ScopeMemory(), memory), verdicts={}, remarks={}, findings=(CANDIDATE,)
        )
    return str(path)


def call(capsys, *words):
    code = main(list(words))
    return code, capsys.readouterr()


def test_show_says_what_is_normal_and_what_waits(capsys, config):
    code, output = call(capsys, "baseline", "show", "--config", config)
    assert code == 0
    assert "nightly all all_reduce: candidate_waiting, 21 nights, noise 0.25%" in output.out
    assert "64 MiB   267.30 GB/s" in output.out
    assert "candidate (driver 580 -> 590): -5.0%; waits for" in output.out


def test_show_as_json(capsys, config):
    _, output = call(capsys, "baseline", "show", "--json", "--config", config)
    (item,) = json.loads(output.out)["baselines"]
    assert (item["state"], item["needs_person"], item["busbw"]) == (
        "candidate_waiting",
        True,
        {str(64 << 20): 267.3e9},
    )


def test_accept_and_undo_leave_a_record(capsys, config):
    code, output = call(capsys, "baseline", "accept", "--reason", "planned", "--config", config)
    assert code == 0
    assert output.out == "the new baseline is accepted: nightly/nccl-tests/all\n"
    assert call(capsys, "findings", "--config", config)[1].out == "no findings\n"
    assert call(capsys, "baseline", "undo", "--reason", "oops", "--config", config)[0] == 0
    _, output = call(capsys, "baseline", "show", "--json", "--config", config)
    (decision,) = json.loads(output.out)["decisions"]
    assert (decision["kind"], decision["reason"], decision["undone_reason"]) == ("accept", "planned", "oops")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("accept",), 2, "the reason is empty"),
        (("accept", "--reason", "  "), 2, "the reason is empty"),
        (("accept", "--reason", "x", "--runs", "-1"), 2, "-1 is no number of runs"),
        (("accept", "--reason", "x", "--runs", "3"), 3, "a baseline needs 5 runs"),
        (("accept", "--reason", "x", "--sweep", "weekly"), 3, "nothing has been judged yet that is meant"),
        (("undo", "--reason", "x"), 3, "no decision stands"),
    ],
)
def test_what_cannot_be_decided(capsys, config, words, code, message):
    found, output = call(capsys, "baseline", *words, "--config", config)
    assert found == code
    assert message in output.err


def test_reject_and_reset(capsys, config):
    assert call(capsys, "baseline", "reject", "--reason", "x", "--config", config)[0] == 0
    assert "frozen" in call(capsys, "baseline", "show", "--config", config)[1].out
    assert call(capsys, "baseline", "reset", "--reason", "x", "--config", config)[0] == 0
    assert call(capsys, "baseline", "show", "--config", config)[1].out == ""


def test_findings_are_unhealthy_where_one_is_worse_than_info(capsys, config, tmp_path):
    code, output = call(capsys, "findings", "--config", config)
    assert code == 1
    assert "warning  baseline_candidate since 2026-11-29 02:00Z, open: a new normal waits" in output.out
    code, output = call(capsys, "findings", "--json", "--config", config)
    assert json.loads(output.out)["findings"][0]["collectives"] == ["all_reduce"]
    with Store.open(tmp_path / "state", clock=StandingClock()) as store:
        store.record_finding(replace(CANDIDATE, level=Level.INFO))
    assert call(capsys, "findings", "--config", config)[0] == 0


def test_fingerprint_diff_names_what_differs(capsys, config, tmp_path):
    with Store.open(tmp_path / "state", clock=StandingClock()) as store:
        ids = [run.id for run in reversed(store.runs(limit=2))]
    code, output = call(capsys, "fingerprint", "diff", *ids, "--config", config)
    assert (code, output.out) == (0, "driver: 580 -> 590\n")
    _, output = call(capsys, "fingerprint", "diff", *ids, "--json", "--config", config)
    assert json.loads(output.out)["differences"] == [{"key": "driver", "before": "580", "after": "590"}]
    assert (
        call(capsys, "fingerprint", "diff", ids[0], ids[0], "--config", config)[1].out == "no input differs\n"
    )
    assert call(capsys, "fingerprint", "diff", ids[0], "nothing", "--config", config)[0] == 3
