"""Slurm runs our HealthCheckProgram: it drains for a confirmed finding, and gives back only what it has drained."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from daemon_process import wait_until
from history_values import make_snapshot
from slurm_cluster import HOST, running_slurm

from gpumond.clock import SystemClock
from gpumond.model.change import Change, ChangeKind, Level, OpenChange, Subject, SubjectKind
from gpumond.store.records import ChangeEnding
from gpumond.store.sqlite import Store

pytestmark = pytest.mark.system

SCRIPT = Path(__file__).parents[2] / "deploy/slurm/gpumond-healthcheck"
INTERVAL_SECONDS = 1

MISSING = Change(
    ChangeKind.GPU_MISSING, Level.CRITICAL, Subject(SubjectKind.GPU, ("GPU-b",)), "GPU 1 is missing", "", ""
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("health")


@pytest.fixture(scope="module")
def slurm(directory, tmp_path_factory):
    (directory / "gpumond").write_text(f'#!/bin/sh\nexec {sys.executable} -m gpumond "$@"\n')
    (directory / "gpumond").chmod(0o755)
    (directory / "config.toml").write_text(f'[store]\ndirectory = "{directory}/state"\n')
    (directory / "settings").write_text(f'gpumond="{directory}/gpumond"\nconfig="{directory}/config.toml"\n')
    cluster_directory = tmp_path_factory.mktemp("slurm")
    # HealthCheckProgram takes no arguments and no environment.
    program = directory / "healthcheck"
    program.write_text(
        f"#!/bin/sh\nexport GPUMOND_SLURM_SETTINGS={directory}/settings SLURM_CONF={cluster_directory}/slurm.conf\n"
        f"{SCRIPT}\necho done >>{directory}/checks\n"
    )
    program.chmod(0o755)
    more = f"HealthCheckProgram={program}\nHealthCheckInterval={INTERVAL_SECONDS}\nHealthCheckNodeState=ANY\n"
    with running_slurm(cluster_directory, more) as cluster:
        yield cluster


@pytest.fixture
def host(directory):
    """`host(missing=True)`: what the daemon last knew."""

    def write(*, missing):
        with Store.open(directory / "state", clock=SystemClock()) as store:
            now = SystemClock().now()
            store.record_snapshot(make_snapshot(now))
            changes = (OpenChange(MISSING, now),) if missing else ()
            store.record_changes(changes, ending=ChangeEnding.GONE)
            store.check_writable()

    return write


def facts(slurm):
    return slurm.run("scontrol", "-o", "show", "node", HOST).output


def checks(directory):
    path = directory / "checks"
    return len(path.read_text().splitlines()) if path.exists() else 0


def after_two_more_checks(directory):
    """One may have begun before what the test has just done."""
    seen = checks(directory)
    wait_until(lambda: checks(directory) >= seen + 2, seconds=60, what="two health checks")


def test_a_missing_gpu_drains_the_node_and_its_return_gives_it_back(slurm, host, directory):
    host(missing=True)
    wait_until(lambda: "DRAIN" in slurm.state(), seconds=60, what="the drain")
    assert "Reason=gpumond: failed (gpu_missing): GPU 1 is missing [" in facts(slurm)
    job = slurm.submit("true")
    after_two_more_checks(directory)
    assert [line for line in slurm.jobs() if "PENDING" in line], f"job {job} must wait"
    host(missing=False)
    wait_until(lambda: "DRAIN" not in slurm.state(), seconds=60, what="the node back")
    wait_until(lambda: not slurm.jobs(), seconds=60, what="the end of the job")


def test_a_drain_of_somebody_else_is_left_alone(slurm, host, directory):
    slurm.run("scontrol", "update", f"nodename={HOST}", "state=drain", "reason=fan = noise")
    host(missing=True)
    after_two_more_checks(directory)
    assert "Reason=fan = noise [" in facts(slurm)
    host(missing=False)
    after_two_more_checks(directory)
    assert "DRAIN" in slurm.state()
    assert "Reason=fan = noise [" in facts(slurm)
    slurm.run("scontrol", "update", f"nodename={HOST}", "state=undrain")


def test_what_cannot_be_judged_changes_nothing(slurm, host, directory):
    host(missing=True)
    wait_until(lambda: "DRAIN" in slurm.state(), seconds=60, what="the drain")
    history = directory / "state" / "history.db"
    history.rename(directory / "elsewhere")
    after_two_more_checks(directory)
    assert "DRAIN" in slurm.state()
    (directory / "elsewhere").rename(history)
    host(missing=False)
    wait_until(lambda: "DRAIN" not in slurm.state(), seconds=60, what="the node back")
    history.rename(directory / "elsewhere")
    after_two_more_checks(directory)
    assert "DRAIN" not in slurm.state()
    (directory / "elsewhere").rename(history)
