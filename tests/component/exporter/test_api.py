"""`/api/v1/runs` and `/api/v1/findings` over a real store."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import web_access
from history_values import StandingClock, make_point, make_run, make_sweep, measured

from gpumond.codec import decode
from gpumond.exporter.api import ENTRIES, ENTRIES_MAX
from gpumond.model.benchmark import Collective
from gpumond.model.change import Level
from gpumond.model.finding import Finding, FindingKind, FindingsDocument
from gpumond.model.run import Run
from gpumond.store.sqlite import Store

AT = datetime(2026, 11, 29, 2, tzinfo=UTC)
RUNS = 25


def finding(number=0):
    return Finding(
        kind=FindingKind.STEP,
        level=Level.WARNING,
        subject=f"all/{number}",
        detail="busbw is 6 % lower",
        evidence="",
        first_at=AT + timedelta(minutes=number),
        last_at=AT + timedelta(minutes=number),
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A history of 25 runs in two sweeps, and two findings, one of them closed."""
    path = tmp_path_factory.mktemp("api") / "state"
    with Store.open(path, clock=StandingClock()) as store:
        for number in range(RUNS):
            sweep = make_sweep("nightly" if number % 5 else "weekly", AT + timedelta(hours=number))
            store.start_sweep(sweep)
            collective = Collective.ALL_REDUCE if number % 2 else Collective.ALL_GATHER
            run = make_run(sweep, collective=collective, environment={"NCCL_DEBUG": "secret"})
            store.start_run(run)
            store.finish_run(measured(run, make_point()), output=b"raw output")
        for number in range(2):
            store.record_finding(finding(number))
        store.close_finding(FindingKind.STEP, "all/0")
    return path


@pytest.fixture(scope="module")
def served(serve_all, directory):
    return serve_all(open_history=partial(Store.open, directory, clock=StandingClock(), read_only=True))


def runs(served, query=""):
    answer = served.ask(f"/api/v1/runs{query}")
    assert (answer.code, answer.headers["Content-Type"]) == (200, "application/json")
    return json.loads(answer.body)["runs"]


class TestRuns:
    def test_the_newest_first(self, served):
        found = runs(served)
        assert len(found) == ENTRIES
        assert [run["started_at"] for run in found] == sorted(
            (run["started_at"] for run in found), reverse=True
        )
        assert found[0]["points"][0]["size_bytes"] == 64 << 20

    def test_limit_sweep_collective(self, served):
        assert len(runs(served, "?limit=3")) == 3
        assert len(runs(served, f"?limit={ENTRIES_MAX}")) == RUNS
        assert {run["sweep"] for run in runs(served, "?sweep=weekly")} == {"weekly"}
        assert {run["collective"] for run in runs(served, "?collective=all_gather")} == {"all_gather"}
        assert runs(served, "?sweep=none") == []

    def test_how_a_benchmark_was_started_is_not_in_the_list(self, served):
        body = served.ask(f"/api/v1/runs?limit={ENTRIES_MAX}").body
        assert b"secret" not in body
        assert b"raw output" not in body

    def test_a_run_in_full(self, served):
        (run,) = runs(served, "?limit=1")
        answer = served.ask(f"/api/v1/runs/{run['id']}")
        assert decode(Run, answer.body).environment == {"NCCL_DEBUG": "secret"}

    def test_no_such_run(self, served):
        answer = served.ask("/api/v1/runs/none")
        assert (answer.code, json.loads(answer.body)["error"]) == (404, "there is no such run")

    @pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"X_Forwarded_For": "10.0.0.1"}], ids=str)
    def test_a_run_is_shown_to_this_host_only(self, served, headers):
        (run,) = runs(served, "?limit=1")
        answer = served.ask(f"/api/v1/runs/{run['id']}", **headers)
        assert answer.code == 403
        assert b"secret" not in answer.body
        assert "TLS" in json.loads(answer.body)["hint"]

    def test_or_to_whoever_has_a_client_certificate(self, serve, directory, tmp_path):
        open_history = partial(Store.open, directory, clock=StandingClock(), read_only=True)
        served = serve(access=web_access.with_clients(tmp_path), open_history=open_history)
        served.client = web_access.client("client")
        (run,) = runs(served, "?limit=1")
        assert served.ask(f"/api/v1/runs/{run['id']}", X_Forwarded_For="10.0.0.1").code == 200


class TestFindings:
    def test_open_ones(self, served):
        found = decode(FindingsDocument, served.ask("/api/v1/findings").body).findings
        assert [item.subject for item in found] == ["all/1"]

    def test_all(self, served):
        found = decode(FindingsDocument, served.ask("/api/v1/findings?all=true").body).findings
        assert [item.subject for item in found] == ["all/1", "all/0"]
        assert replace(found[0], first_at=AT, last_at=AT) == replace(finding(1), first_at=AT, last_at=AT)

    def test_limit(self, served):
        assert len(json.loads(served.ask("/api/v1/findings?all=true&limit=1").body)["findings"]) == 1


class TestErrors:
    @pytest.mark.parametrize(
        ("path", "code", "said"),
        [
            ("runs?limit=0", 400, "limit must be a number from 1 to 200"),
            ("runs?limit=201", 400, "limit must be a number from 1 to 200"),
            ("runs?limit=-1", 400, "limit must be a number from 1 to 200"),
            ("runs?limit=%D9%A3", 400, "limit must be a number from 1 to 200"),
            ("runs?limit=" + "9" * 5000, 400, "limit must be a number from 1 to 200"),
            ("runs?limit=1&limit=2", 400, "limit is there twice"),
            ("runs?sweeep=x", 400, "unknown parameter sweeep; there are limit, sweep, collective"),
            ("runs?collective=all_reduc", 400, "collective must be one of all_reduce, "),
            ("runs/x?limit=1", 400, "unknown parameter limit; there are none"),
            ("findings?all=1", 400, "all must be true or false (got 1)"),
            ("findings?open=true", 400, "unknown parameter open; there are limit, all"),
            ("nothing", 404, "not found"),
        ],
    )
    def test_say_what_is_wrong(self, served, path, code, said):
        answer = served.ask(f"/api/v1/{path}")
        assert (answer.code, answer.headers["Content-Type"]) == (code, "application/json")
        assert json.loads(answer.body)["error"].startswith(said)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"

    def test_a_method(self, served):
        answer = served.ask("/api/v1/runs", "POST")
        assert (answer.code, json.loads(answer.body)["error"]) == (405, "method not allowed")
        assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD"}

    @pytest.mark.parametrize("path", ["runs", "findings", "runs/x"])
    def test_no_history(self, serve, path):
        answer = serve().ask(f"/api/v1/{path}")
        assert (answer.code, json.loads(answer.body)) == (
            503,
            {"error": "there is no history", "hint": "Start the daemon."},
        )

    def test_a_fault_of_ours(self, serve):
        def broken():
            raise ZeroDivisionError

        answer = serve(open_history=broken).ask("/api/v1/runs")
        assert (answer.code, json.loads(answer.body)["error"]) == (
            500,
            "a fault of gpumond; its log says more",
        )
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
