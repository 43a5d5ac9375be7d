"""Benchmarks in cgroups of their own, on the kernel's real ones: what hides from everything else does not outlive them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
from delegated_cgroup import delegated_cgroup, enter

from gpumond.model.run import Cause
from gpumond.process import cgroup
from gpumond.process.leftovers import kill_all_in
from gpumond.process.ownership import OwnProcesses
from gpumond.process.procfs import process_is_alive, read_stat
from gpumond.process.supervisor import Cancellation, Limits

HIDING = """
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        devnull = os.open(os.devnull, os.O_RDWR)
        pid = os.getpid()
        sys.stdout.write(f"{pid}\\n")
        sys.stdout.flush()
        os.dup2(devnull, 1)
        os.dup2(devnull, 2)
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(30)"], {})
    os._exit(0)
os.wait()
"""
"""A daemon by the book: a session of its own, its parents gone, its environment empty."""

THEN_WAITS = HIDING + "time.sleep(60)\n"

RUNNING_AWAY = """
import os, sys, time
end = time.monotonic() + 30
print(1, flush=True)
os.dup2(os.open(os.devnull, os.O_RDWR), 1)
os.dup2(1, 2)
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
"""
"""It has another pid whenever anybody has read the old one."""


@pytest.fixture
def delegated():
    with delegated_cgroup() as directory:
        yield directory


@pytest.fixture
def run_directory(delegated):
    return delegated / "run-1"


def run_hiding(supervise, script, **options):
    """The result, and the pid of the daemon that it has started, with its start ticks."""
    found = []

    def on_line(line):
        pid = int(line)
        found.append((pid, read_stat(pid).start_ticks))
        return True

    result = supervise(sys.executable, "-c", script, on_line=on_line, **options)
    (identity,) = found
    return result, identity


class TestTheEnd:
    @pytest.mark.parametrize(("script", "cause"), [(HIDING, Cause.EXITED), (THEN_WAITS, Cause.ROW_STALLED)])
    def test_what_hides_from_everything_else_is_gone_with_the_run(
        self, supervise, run_directory, script, cause
    ):
        limits = Limits(20, row_seconds=0.3, grace_seconds=1)
        result, hidden = run_hiding(supervise, script, limits=limits, cgroup=run_directory)
        assert result.cause is cause
        assert result.leftovers == ()
        assert not process_is_alive(*hidden)
        assert not run_directory.exists()

    def test_without_a_cgroup_the_same_process_stays(self, supervise):
        """What the tests above prove is the cgroup's work."""
        _, hidden = run_hiding(supervise, HIDING)
        assert process_is_alive(*hidden)
        os.kill(hidden[0], signal.SIGKILL)

    def test_what_forks_faster_than_anybody_can_count(self, supervise, delegated, run_directory):
        cancellation = Cancellation()

        def on_line(_line):
            time.sleep(0.2)
            cancellation.cancel(grace_seconds=0)
            return True

        started = time.monotonic()
        result = supervise(
            sys.executable,
            "-c",
            RUNNING_AWAY,
            limits=Limits(20, lost_seconds=5),
            cgroup=run_directory,
            on_line=on_line,
            cancellation=cancellation,
        )
        assert result.cause in (Cause.EXITED, Cause.CANCELLED)
        assert result.leftovers == ()
        assert not cgroup.is_populated(delegated)
        assert time.monotonic() - started < 5

    def test_a_callback_that_raises(self, supervise, run_directory):
        found = []

        def on_line(line):
            found.append(int(line))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            supervise(sys.executable, "-c", THEN_WAITS, cgroup=run_directory, on_line=on_line)
        assert read_stat(found[0]) is None or read_stat(found[0]).state == "Z"
        assert not run_directory.exists()

    def test_cgroups_that_the_benchmark_made_itself(self, supervise, run_directory):
        """A container engine does that."""
        script = f"mkdir {run_directory}/a {run_directory}/a/b; echo $$ > {run_directory}/a/b/cgroup.procs; sleep 30"
        result = supervise("sh", "-c", script, limits=Limits(0.5, grace_seconds=0), cgroup=run_directory)
        assert result.cause is Cause.TOTAL_TIMEOUT
        assert not run_directory.exists()


class TestTheBeginning:
    def test_the_program_is_inside_before_it_begins(self, supervise, run_directory):
        result = supervise("cat", "/proc/self/cgroup", cgroup=run_directory)
        (line,) = [line for line in result.output.decode().splitlines() if line.startswith("0::")]
        assert line.endswith(f"/{run_directory.parent.name}/{run_directory.name}")

    @pytest.mark.parametrize("name", ["absent/run-1", "."])
    def test_a_cgroup_that_cannot_be_made(self, supervise, delegated, tmp_path, name):
        result = supervise("touch", tmp_path / "started", cgroup=delegated / name)
        assert result.cause is Cause.NOT_STARTED
        assert result.detail.startswith(f"the cgroup {delegated / name} could not be made: ")
        assert not (tmp_path / "started").exists()

    def test_a_cgroup_that_may_not_be_entered(self, supervise, delegated, tmp_path):
        """Never a benchmark outside of the cgroup that it was to have."""
        (delegated / "cgroup.max.depth").write_text("0")
        result = supervise("touch", tmp_path / "started", cgroup=delegated / "run-1")
        assert result.cause is Cause.NOT_STARTED
        assert not (tmp_path / "started").exists()


CLAIM = """
from gpumond.process.cgroup import claim
runs = claim()
print(runs)
print(next(line[3:] for line in open("/proc/self/cgroup").read().splitlines() if line.startswith("0::")))
"""


def claims(directory):
    """What a process in that cgroup is told, and where it is then."""
    process = subprocess.run(
        [sys.executable, "-c", CLAIM],
        preexec_fn=partial(enter, directory),
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stdout.splitlines()


NOBODY = 65534
ENTER_AS_NOBODY = 'echo 0 > "$0/cgroup.procs" && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"'


def claims_as_nobody(directory):
    process = subprocess.run(
        ["sh", "-c", ENTER_AS_NOBODY, directory, sys.executable, "-c", CLAIM],
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stdout.splitlines()


class TestTheClaim:
    def test_the_process_moves_into_a_leaf(self, delegated):
        runs, own = claims(delegated)
        assert runs == str(delegated / "runs")
        assert own.endswith(f"/{delegated.name}/main")
        (delegated / "cgroup.subtree_control").write_text("")  # no process is left in the inner node

    def test_once_more_from_the_leaf(self, delegated):
        first = claims(delegated)
        assert claims(delegated / "main") == first
        assert sorted(path.name for path in delegated.iterdir() if path.is_dir()) == ["main", "runs"]

    def test_a_cgroup_that_nobody_has_delegated_is_left_alone(self):
        with delegated_cgroup(is_marked=False) as directory:
            runs, own = claims(directory)
            assert runs == "None"
            assert own.endswith(f"/{directory.name}")
            assert [path for path in directory.iterdir() if path.is_dir()] == []

    def test_an_old_systemd_whose_mark_only_root_can_read_gives_the_cgroup_to_the_user(self):
        with delegated_cgroup(is_marked=False) as directory:
            assert claims_as_nobody(directory)[0] == "None"
            for path in (directory, directory / "cgroup.procs"):
                os.chown(path, NOBODY, NOBODY)
            assert claims_as_nobody(directory)[0] == str(directory / "runs")

    def test_one_that_is_delegated_and_cannot_be_used(self, delegated):
        (delegated / "cgroup.max.descendants").write_text("0")
        with pytest.raises(subprocess.CalledProcessError) as caught:
            claims(delegated)
        assert "HostError: the delegated cgroup" in caught.value.stderr


def test_what_a_dead_daemon_left_is_killed_and_its_cgroups_removed(delegated, clock):
    nested = delegated / "runs/20261129T020001Z-bbbbbb/inner"
    nested.mkdir(parents=True)
    (delegated / "runs/empty").mkdir()
    with subprocess.Popen(
        ["sleep", "60"],
        preexec_fn=partial(enter, nested),  # noqa: PLW1509 - see claims
        start_new_session=True,
    ) as orphan:
        report = kill_all_in(delegated / "runs", clock=clock)
        assert orphan.wait(5) == -signal.SIGKILL
    assert (report.killed, report.remaining) == ((orphan.pid,), ())
    assert [path for path in (delegated / "runs").iterdir() if path.is_dir()] == []


def test_whoever_is_in_the_cgroup_of_the_benchmark_is_ours(delegated):
    """Also what neither its session, nor its descent, nor its environment betrays."""
    with (
        subprocess.Popen(["sleep", "60"], start_new_session=True) as benchmark,
        subprocess.Popen(["sleep", "60"], start_new_session=True) as outside,
        subprocess.Popen(
            ["sleep", "60"],
            preexec_fn=partial(enter, delegated),  # noqa: PLW1509 - see claims
            start_new_session=True,
        ) as inside,
    ):
        own = OwnProcesses()
        own.add(benchmark.pid, read_stat(benchmark.pid).start_ticks, delegated)
        answers = [own.owns(process.pid) for process in (benchmark, inside, outside)]
        for process in (benchmark, outside, inside):
            process.kill()
    assert answers == [True, True, False]
