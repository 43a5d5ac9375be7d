"""`gpumond history` on a real store, as a person and as a script read it."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from history_values import StandingClock, ended, make_point, make_run, make_sweep, measured

from gpumond.cli.main import main
from gpumond.errors import ExitCode
from gpumond.model.benchmark import Collective, Placement
from gpumond.model.run import Cause, Engine, GpuSet, SweepOutcome, Verdict
from gpumond.store.sqlite import Store

# The first of these is before the end of summer time in Berlin, the second in the hour that comes twice.
FIRST = datetime(2026, 10, 24, 1, 0, tzinfo=UTC)
SECOND = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def in_berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def store(directory):
    with Store.open(directory, clock=StandingClock()) as opened:
        yield opened


@pytest.fixture
def history(directory, capfdbinary):
    """`history("--json")` -> (exit status, standard output, standard error)."""

    def _history(*words):
        code = main(["history", "--state-directory", str(directory), *words])
        output = capfdbinary.readouterr()
        return code, output.out.decode(), output.err.decode()

    return _history


@pytest.fixture
def nights(store):
    """A good night, one with a fault, one that was skipped, and one that is running."""
    good = make_sweep(at=FIRST, id="20261024T010000Z-000001")
    store.start_sweep(good)
    store.finish_run(
        measured(
            make_run(good, id="20261024T010001Z-000002"),
            make_point(64 * 1024 * 1024, busbw=267.3e9),
            make_point(2 << 30, busbw=338.12e9),
            make_point(2 << 30, busbw=335.0e9, placement=Placement.IN_PLACE),
            verdict=Verdict.NOT_EVALUATED,
            reason="learning",
            tool_version="2.19.6",
        ),
        output=b"# nccl-tests \xff\n",
    )
    store.finish_sweep(ended(good))
    bad = make_sweep("weekly", SECOND, id="20261025T013000Z-000003")
    store.start_sweep(bad)
    store.finish_run(
        measured(
            make_run(
                bad,
                id="20261025T013001Z-000004",
                collective=Collective.ALL_GATHER,
                gpu_set=GpuSet("numa0", ("GPU-a",)),
            ),
            make_point(1000, wrong_elements=3),
            make_point(8, wrong_elements=None),
            verdict=Verdict.FAILED,
            reason="wrong_results",
            detail="the data arrived corrupt\x1b[2J at 1000 bytes",
        ),
        output=b"",
    )
    store.finish_sweep(ended(bad, SweepOutcome.FAILURE, "wrong_results"))
    skipped = make_sweep(at=SECOND + timedelta(days=1), id="20261026T013000Z-000005")
    store.start_sweep(skipped)
    store.finish_sweep(ended(skipped, SweepOutcome.SKIPPED, "busy"))
    running = make_sweep(at=SECOND + timedelta(days=2), id="20261027T013000Z-000006")
    store.start_sweep(running)
    store.start_run(make_run(running, id="20261027T013001Z-000007"))


LIST = """\
STARTED                    SWEEP    GPU-SET  COLLECTIVE   SIZE  BUSBW-GB/s  #WRONG  VERDICT                 CAUSE   ID
2026-10-27T02:30:00+01:00  nightly  all      all_reduce      -           -       -  running                 -       20261027T013001Z-000007
2026-10-26T02:30:00+01:00  nightly  -        -               -           -       -  skipped:busy            -       20261026T013000Z-000005
2026-10-25T02:30:00+01:00  weekly   numa0    all_gather  1000B      267.30       3  failed:wrong_results    exited  20261025T013001Z-000004
2026-10-24T03:00:00+02:00  nightly  all      all_reduce   2GiB      338.12       0  not_evaluated:learning  exited  20261024T010001Z-000002
"""

RUN = """\
run          20261025T013001Z-000004
sweep        weekly (20261025T013000Z-000003)
started      2026-10-25T02:30:00+01:00 (2026-10-25T01:30:00Z)
ended        2026-10-25T02:30:04+01:00 (2026-10-25T01:30:04Z)
duration     4.0 s
engine       nccl-tests
collective   all_gather
GPU set      numa0
GPU          GPU-a
verdict      failed:wrong_results
detail       the data arrived corrupt\\x1b[2J at 1000 bytes
cause        exited, exit status 0
text         ok
transport    -
watched      no
parameters   p1
command      /opt/nccl-tests/all_reduce_perf -b 8
environment  NCCL_DEBUG=WARN

 SIZE  TYPE   REDOP  PLACEMENT     TIME-us  ALGBW-GB/s  BUSBW-GB/s  #WRONG
1000B  float  sum    out_of_place   251.10      267.30      267.30       3
   8B  float  sum    out_of_place   251.10      267.30      267.30       -
"""

SWEEP = """\
sweep         weekly (20261025T013000Z-000003)
asked for by  window
started       2026-10-25T02:30:00+01:00 (2026-10-25T01:30:00Z)
ended         2026-10-25T02:30:20+01:00 (2026-10-25T01:30:20Z)
outcome       failure:wrong_results
detail        -
runs          1 of 1 planned

STARTED                    SWEEP   GPU-SET  COLLECTIVE   SIZE  BUSBW-GB/s  #WRONG  VERDICT               CAUSE   ID
2026-10-25T02:30:00+01:00  weekly  numa0    all_gather  1000B      267.30       3  failed:wrong_results  exited  20261025T013001Z-000004
"""


def test_the_list_has_runs_and_refusals_newest_first(history, nights):
    assert history() == (ExitCode.HEALTHY, LIST, "")


def test_the_list_can_be_cut_by_columns(history, nights):
    _, out, _ = history()
    assert {len(line.split()) for line in out.splitlines()} == {10}


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["--limit", "2"], ["000007", "000005"]),
        (["--sweep", "weekly"], ["000004"]),
        (["--collective", "all_gather"], ["000005", "000004"]),  # a night that was skipped explains the gap
        (["--sweep", "weekly", "--collective", "all_reduce"], []),
    ],
)
def test_the_list_is_narrowed(history, nights, words, kept):
    code, out, _ = history(*words)
    assert code == ExitCode.HEALTHY
    assert [line[-6:] for line in out.splitlines()[1:]] == kept


def test_one_run_in_full(history, nights):
    assert history("20261025T013001Z-000004") == (ExitCode.HEALTHY, RUN, "")


def test_one_sweep_with_its_runs(history, nights):
    assert history("20261025T013000Z-000003") == (ExitCode.HEALTHY, SWEEP, "")


def test_a_running_run_has_no_end_yet(history, nights):
    _, out, _ = history("20261027T013001Z-000007")
    assert "ended        not yet\n" in out
    assert "verdict      running\n" in out


def test_json_is_in_base_units(history, nights, store):
    code, out, err = history("--json", "--limit", "4")
    document = json.loads(out)
    assert (code, err) == (ExitCode.HEALTHY, "")
    assert [run["id"][-6:] for run in document["runs"]] == ["000007", "000004", "000002"]
    assert [sweep["reason"] for sweep in document["sweeps"]] == ["busy"]
    assert document["runs"][2]["points"][1]["busbw_bytes_per_second"] == 338.12e9
    assert json.loads(history("--json", "20261024T010001Z-000002")[1]) == document["runs"][2]
    sweep = json.loads(history("--json", "20261025T013000Z-000003")[1])
    assert sweep["sweep"]["outcome"] == "failure"
    assert sweep["runs"] == [document["runs"][1]]


def test_raw_output_comes_out_as_it_went_in(directory, nights, capfdbinary):
    words = ["history", "--state-directory", str(directory), "--raw", "20261024T010001Z-000002"]
    assert main(words) == ExitCode.HEALTHY
    assert capfdbinary.readouterr().out == b"# nccl-tests \xff\n"


def test_raw_output_that_is_not_kept(history, nights):
    code, out, err = history("--raw", "20261027T013001Z-000007")
    assert (code, out) == (ExitCode.USAGE, "")
    assert "no output of run 20261027T013001Z-000007 is kept" in err
    assert "keep_output" in err


@pytest.mark.parametrize("words", [["nothing"], ["--json", "nothing"], ["--raw", "nothing"]])
def test_an_unknown_id(history, nights, words):
    code, out, err = history(*words)
    assert (code, out) == (ExitCode.USAGE, "")
    assert "no run and no sweep has the id nothing" in err


def test_raw_needs_an_id(history, nights):
    code, _, err = history("--raw")
    assert code == ExitCode.USAGE
    assert "--raw needs the id of a run" in err


@pytest.mark.parametrize(
    "words", [["--limit", "0"], ["--limit", "x"], ["--json", "--raw"], ["--collective", "x"]]
)
def test_a_command_line_that_makes_no_sense(history, words):
    with pytest.raises(SystemExit) as caught:
        history(*words)
    assert caught.value.code == ExitCode.USAGE


def test_an_empty_history_says_so(history, store):
    code, out, err = history()
    assert code == ExitCode.HEALTHY
    assert out.startswith("STARTED")
    assert "nothing was measured yet" in err
    assert json.loads(history("--json")[1]) == {"runs": [], "sweeps": []}


def test_no_history_is_exit_10_with_a_hint_and_makes_nothing(history, directory):
    code, out, err = history()
    assert (code, out) == (ExitCode.STORE, "")
    assert f"there is no history in {directory}" in err
    assert "hint: The daemon makes it" in err
    assert not directory.exists()


def test_the_configuration_says_where_the_history_is(directory, nights, tmp_path, capsys):
    file = tmp_path / "config.toml"
    file.write_text(f'[store]\ndirectory = "{directory}"\n')
    assert main(["history", "--config", str(file), "--limit", "1"]) == ExitCode.HEALTHY
    assert "000007" in capsys.readouterr().out


def test_simulated_numbers_are_called_so(history, store):
    sweep = make_sweep(at=FIRST)
    store.start_sweep(sweep)
    run = measured(make_run(sweep, engine=Engine.SIMULATED), cause=Cause.EXITED)
    store.finish_run(run, output=b"")
    assert "SIMULATED" in history()[2]
    assert "SIMULATED" in history(run.id)[2]
    assert "SIMULATED" in history(sweep.id)[2]
