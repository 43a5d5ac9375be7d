"""`gpumond schedule` on a configuration file and a real history."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime

import history_values as values
import pytest

from gpumond.cli import schedule
from gpumond.config.load import load
from gpumond.errors import ConfigError
from gpumond.model.run import SweepOutcome
from gpumond.store.sqlite import Store

CONFIG = """
[store]
directory = "{directory}"

[[sweep]]
name = "nightly"
window = "02:00-05:00"
timezone = "Europe/Berlin"
spread = "0s"

[[sweep]]
name = "weekly"
window = "22:00-04:00"
timezone = "America/New_York"
days = ["sat"]
spread = "1h"
"""


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG.format(directory=tmp_path / "state"))
    return path


def plans_at(file, instant: str, count: int = 3):
    clock = values.StandingClock(utc(instant))
    plans = schedule.plan_sweeps(load(file), clock, clock.now(), machine_id="host-a", count=count)
    return {plan.sweep.name: [start.at for start in plan.starts] for plan in plans}


def run_command(file, *words: str) -> int:
    parser = argparse.ArgumentParser()
    schedule.configure(parser)
    return schedule.run(parser.parse_args(["--config", str(file), *words]))


def record(file, started: str, outcome: SweepOutcome) -> None:
    at = utc(started)
    with Store.open(file.parent / "state", clock=values.StandingClock(at)) as store:
        sweep = values.make_sweep("nightly", at)
        store.start_sweep(sweep)
        store.finish_sweep(values.ended(sweep, outcome, "busy" if outcome is SweepOutcome.SKIPPED else ""))


def test_without_a_history_every_night_is_to_come(file, capsys):
    plans = plans_at(file, "2026-03-27T12:00")
    assert plans["nightly"] == [utc("2026-03-28T01:00"), utc("2026-03-29T01:00"), utc("2026-03-30T00:00")]
    assert [start.weekday() for start in plans["weekly"]] == [6, 6, 6]  # Saturday evening in New York
    assert "no date counts as done" in capsys.readouterr().err


def test_an_open_window_that_is_not_done_is_now(file):
    assert plans_at(file, "2026-11-29T02:30")["nightly"][0] == utc("2026-11-29T02:30")


@pytest.mark.parametrize("outcome", [SweepOutcome.SUCCESS, SweepOutcome.FAILURE])
def test_a_date_that_is_done_is_not_shown_again(file, outcome):
    record(file, "2026-11-29T01:00", outcome)
    assert plans_at(file, "2026-11-29T02:30")["nightly"][0] == utc("2026-11-30T01:00")


def test_a_refused_night_is_tried_again_inside_the_window(file):
    record(file, "2026-11-29T02:28", SweepOutcome.SKIPPED)
    assert plans_at(file, "2026-11-29T02:30")["nightly"][:2] == [
        utc("2026-11-29T02:38"),
        utc("2026-11-30T01:00"),
    ]


def test_text_shows_both_times(file, capsys):
    assert run_command(file, "-n", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "nightly: 02:00-05:00 Europe/Berlin, every day; this host starts 0 min 00 s after the window opens"
    )
    assert lines[4].startswith("weekly: 22:00-04:00 America/New_York, sat; this host starts ")
    assert lines[2].split()[3] in ("CET", "CEST")
    assert lines[2].endswith("Z")
    assert len(lines) == 7


def test_json_has_local_time_utc_and_the_window(file, capsys):
    assert run_command(file, "-n", "4", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    nightly, weekly = document["sweeps"]
    assert (nightly["sweep"], nightly["timezone"], len(nightly["starts"])) == ("nightly", "Europe/Berlin", 4)
    assert 0 <= weekly["offset_seconds"] < 3600
    for start in weekly["starts"]:
        assert datetime.fromisoformat(start["local"]) == datetime.fromisoformat(start["utc"])
        assert start["window_opens"] <= start["utc"] < start["window_closes"]
        assert datetime.fromisoformat(start["date"]).weekday() == 5


def test_without_a_sweep_there_is_nothing_to_show(tmp_path, capsys):
    empty = tmp_path / "config.toml"
    empty.write_text("")
    assert run_command(empty) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "no sweep is configured" in printed.err
    assert run_command(empty, "--json") == 0
    assert json.loads(capsys.readouterr().out)["sweeps"] == []


def test_a_zone_that_is_none_is_refused(file):
    file.write_text(file.read_text().replace("Europe/Berlin", "Europe/Berlim"))
    with pytest.raises(ConfigError, match="Europe/Berlin"):
        run_command(file)


@pytest.mark.parametrize("count", ["0", "-1", "1001", "x"])
def test_a_count_has_bounds(file, count):
    with pytest.raises(SystemExit) as raised:
        run_command(file, "-n", count)
    assert raised.value.code == 2


def test_a_sweep_that_waits_for_a_change_says_so(file, capsys):
    more = '[[sweep]]\nname = "changed"\nafter = ["boot", "change"]\nwhen = "idle"\n'
    file.write_text(file.read_text() + more + more.replace("changed", "later").replace("idle", "window"))
    assert run_command(file) == 0
    text = capsys.readouterr().out
    assert (
        "changed: once after each boot or change, at any hour at which the GPUs are idle\n  nothing" in text
    )
    assert ", every day, once after each boot or change; this host starts " in text
    record(
        file, "2026-03-01T01:00", SweepOutcome.SUCCESS
    )  # there is a history now, and this host has booted since
    assert run_command(file) == 0
    assert "at once: idle GPUs are all it needs" in capsys.readouterr().out
