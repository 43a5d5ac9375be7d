"""`gpumond check` on a real history: quick, without a daemon, with the exit codes of its contract."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from datetime import timedelta

import pytest
from history_values import ended, make_point, make_run, make_snapshot, make_sweep, measured

from gpumond.cli.main import main
from gpumond.clock import SystemClock
from gpumond.config.glance import Glance, glance_at
from gpumond.config.load import load
from gpumond.errors import ConfigError
from gpumond.model.change import Change, ChangeKind, Level, OpenChange, Subject, SubjectKind
from gpumond.model.run import Verdict
from gpumond.store.records import ChangeEnding
from gpumond.store.sqlite import Store

SECONDS_MAX = 1.0
MISSING = Change(
    ChangeKind.GPU_MISSING, Level.CRITICAL, Subject(SubjectKind.GPU, ("GPU-a",)), "GPU 0 is missing", "", ""
)


class AgoClock(SystemClock):
    """As if everything had happened some time ago."""

    def __init__(self, **ago):
        self._ago = timedelta(**ago)

    def now(self):
        return super().now() - self._ago


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(f'[store]\ndirectory = "{tmp_path}/state"\n')
    return path


@pytest.fixture
def daemon_was_here(tmp_path):
    """`daemon_was_here(hours=2)`: a daemon looked at the host for the last time so long ago."""

    def fill(verdict=Verdict.OK, reason="", **ago):
        clock = AgoClock(**ago)
        with Store.open(tmp_path / "state", clock=clock) as store:
            store.record_snapshot(make_snapshot(clock.now()))
            store.accept_inventory((), by="gpumond", reason="first")
            sweep = make_sweep(at=clock.now())
            store.start_sweep(sweep)
            run = measured(make_run(sweep), make_point(), verdict=verdict, reason=reason)
            store.finish_run(run, output=b"")
            store.finish_sweep(ended(sweep))
            store.check_writable()

    return fill


@pytest.fixture
def missing_gpu(tmp_path):
    def record():
        with Store.open(tmp_path / "state", clock=SystemClock()) as store:
            changes = (OpenChange(MISSING, SystemClock().now()),)
            store.record_changes(changes, ending=ChangeEnding.GONE)

    return record


@pytest.fixture
def check(config, capsys):
    """`check("--json")` -> (exit status, standard output)."""

    def run(*words):
        code = main(["check", "--config", str(config), *words])
        return code, capsys.readouterr().out

    return run


def test_a_healthy_host(check, daemon_was_here):
    daemon_was_here()
    code, said = check()
    assert (code, said.splitlines()[0]) == (
        0, "ok: 0 GPUs as accepted; 1 of 1 collectives as fast as their baseline",
    )  # fmt: skip
    assert check("--nagios")[0] == 0


def test_a_host_that_learns_is_let_through_and_says_so(check, daemon_was_here):
    daemon_was_here(Verdict.NOT_EVALUATED, "learning")
    assert check()[0] == 0
    assert check()[1].startswith("not_evaluated (learning): ")
    assert check("--nagios")[1].startswith("GPUMOND OK: not_evaluated (learning)")


def test_a_missing_gpu_fails_whatever_the_benchmarks_said(check, daemon_was_here, missing_gpu):
    daemon_was_here()
    missing_gpu()
    for words, code in ((), 1), (("--fail-on", "critical"), 1), (("--nagios",), 2):
        assert check(*words)[0] == code
    document = json.loads(check("--json")[1])
    assert (document["exit_code"], document["report"]["verdict"], document["report"]["reason"]) == (
        1, "failed", "gpu_missing",
    )  # fmt: skip
    assert document["report"]["troubles"][0]["is_confirmed"] is True


def test_a_dead_daemon_is_said_and_is_no_failure(check, daemon_was_here):
    daemon_was_here(hours=3)
    code, said = check()
    assert code == 0
    assert said.startswith("not_evaluated (stale): the daemon has been silent for 3 h")
    code, said = check("--nagios")
    assert (code, said[:15]) == (3, "GPUMOND UNKNOWN")


def test_no_history_is_an_error_of_the_environment_and_unknown_to_nagios(check, capsys):
    assert check()[0] == 10
    code, said = check("--nagios")
    assert code == 3
    assert said.startswith("GPUMOND UNKNOWN: there is no history in ")


def test_a_wrong_configuration_is_told_in_full(check, config):
    config.write_text('[store]\ndirectory = "state"\n')
    assert check()[0] == 2
    assert "config.toml:2: store.directory" in check("--nagios")[1]


def test_a_level_that_does_not_exist(check):
    with pytest.raises(SystemExit) as error:
        check("--fail-on", "mild")
    assert error.value.code == 2


def test_the_best_of_three_takes_less_than_a_second(config, daemon_was_here, missing_gpu):
    daemon_was_here()
    missing_gpu()
    times = []
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "gpumond", "check", "--config", config], capture_output=True, check=False
        )
        times.append(time.perf_counter() - began)
        assert done.returncode == 1
    assert min(times) < SECONDS_MAX, times


def test_it_loads_neither_pydantic_nor_what_could_ask_a_driver(config, daemon_was_here, missing_gpu):
    daemon_was_here()
    missing_gpu()
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gpumond", "check", "--config", config],
        capture_output=True,
        text=True,
        check=False,
    )
    loaded = set(re.findall(r"\|\s+([\w.]+)$", done.stderr, flags=re.MULTILINE))
    assert "gpumond.store.sqlite" in loaded
    assert loaded & {"pydantic", "structlog", "pynvml", "uvicorn", "subprocess", "gpumond.process"} == set()


# --- the glance at the configuration, which must see what a full reading sees ---


@pytest.mark.parametrize(
    "text",
    [
        "",
        '[store]\ndirectory = "/srv/gpumond"\n[snapshot]\ninterval = "5m"\ndeadline = "1m30s"\n',
        'store.directory = "/srv/gpumond"\n',
        '[snapshot]\ninterval = "1d"\n',
    ],
)
def test_a_glance_sees_what_a_full_reading_sees(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(text)
    config = load(path)
    assert glance_at(path) == Glance(
        config.store.directory, config.snapshot.interval, config.snapshot.deadline
    )


@pytest.mark.parametrize(
    "text",
    [
        "[store\n",
        "store = 1\n",
        '[store]\ndirectory = "relative"\n',
        "[store]\ndirectory = 7\n",
        "[snapshot]\ninterval = 60\n",
        '[snapshot]\ninterval = "soon"\n',
        "\xff",
    ],
)
def test_a_glance_leaves_every_doubt_to_a_full_reading(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="latin-1")
    assert glance_at(path) is None
    with pytest.raises(ConfigError):
        load(path)
