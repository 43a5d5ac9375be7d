"""A real systemd: the documented installation, and everything that can happen to a service between that and its removal.

One machine is booted for all of them (tests/fakes/machine.py). Each test makes what it needs itself, so their order is free.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from benchmark_stand_in import CAPTURES, PROGRAM, Ending, Grandchild, Script
from daemon_process import wait_until
from machine import booted

from gpumond.model.benchmark import TextOutcome
from gpumond.parsers.nccl_tests import parse
from gpumond.simulate.scenario import load_scenario

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
CACHE = Path("/var/cache/gpumond-tests")
PLATFORMS = (
    "manylinux2014_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux_2_28_x86_64",
    "manylinux_2_34_x86_64",
)
BENCH = "/var/lib/gpumond/bench"
EXPOSURE_MAX = 20  # tenths
STOP_SECONDS_MAX = 3.0
UNIT = "gpumond.service"
AS_ITSELF = ("runuser", "-u", "gpumond", "--", "env", "LD_LIBRARY_PATH=/srv/driver")

DROP_IN = """
[Unit]
StartLimitIntervalSec=0

[Service]
Environment=LD_LIBRARY_PATH=/srv/driver
RestartSec=200ms
"""

CONFIG = f"""
[store]
min_free = "0"

[web]
listen_address = "127.0.0.1:10061"

[snapshot]
interval = "1s"

[guards]
quiet_by_hand = "0s"

[engines.nccl_tests]
directory = "{BENCH}/nccl-tests"

[[sweep]]
name = "nightly"
collectives = ["all_reduce"]
min_size = "8"
max_size = "2GiB"
warmup_iterations = 1
"""
AT_START = CONFIG + "run_at_start = true\n"
HANGING = Script(ending=Ending.HANG, after_row=3, ignore_sigterm=True)


# --- what is installed ---


def build_wheel(source, directory):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory],
        cwd=source,
        check=True,
        capture_output=True,
    )
    return next(directory.glob("gpumond-*.whl"))


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout


def build_previous(directory):
    """The wheel of the commit that brought the schema before this one."""
    _, previous = git("log", "-2", "--format=%H", "--", "gpumond/store/migrations.py").decode().split()
    source = directory / "source"
    source.mkdir(parents=True)
    archive = git("archive", previous)
    subprocess.run(["tar", "-x"], input=archive, cwd=source, check=True)
    return build_wheel(source, directory / "dist")


def download_dependencies(wheel, directory):
    """What a host without a way out is given. Kept as long as requirements.lock stays the same."""
    import hashlib  # noqa: PLC0415 - nobody else needs it

    lock = (ROOT / "requirements.lock").read_text()
    kept = CACHE / f"wheels-{hashlib.sha256(lock.encode()).hexdigest()[:12]}"
    if not kept.exists():
        constraints = directory / "constraints.txt"
        lines = [line.rstrip(" \\") for line in lock.splitlines() if "--hash" not in line]
        constraints.write_text("\n".join(lines))
        new = directory / "wheels"
        subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "pip",
                    "download",
                    "--quiet",
                    "--only-binary=:all:",
                    "--python-version=3.11",
                ),
                *(f"--platform={name}" for name in PLATFORMS),
                *("--constraint", constraints, "--dest", new, wheel),
            ],
            check=True,
        )
        for own in new.glob("gpumond-*.whl"):
            own.unlink()
        CACHE.mkdir(parents=True, exist_ok=True)
        shutil.copytree(new, kept)
    return kept


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, fake_nvml):
    """Everything that the machine sees of this one."""
    directory = tmp_path_factory.mktemp("bundle")
    wheel = build_wheel(ROOT, directory / "new")
    build_previous(directory / "old")
    (directory / "older").mkdir()
    (directory / "older" / "gpumond-0.0.1-py3-none-any.whl").write_bytes(wheel.read_bytes() + b"older")
    shutil.copytree(download_dependencies(wheel, directory), directory / "dependencies")
    host = fake_nvml.host(load_scenario("h200-2-vm"))
    shutil.copytree(host.environment["LD_LIBRARY_PATH"], directory / "driver")
    return directory


@pytest.fixture(scope="module")
def machine(tmp_path_factory, bundle):
    binds = {
        ROOT / "deploy": "/srv/source/deploy",
        **{ROOT / name: f"/srv/source/{name}" for name in ("README.md", "LICENSE", "CHANGELOG.md")},
        ROOT / "config.example.toml": "/srv/source/config.example.toml",
        ROOT / "requirements.lock": "/srv/source/requirements.lock",
        bundle / "new": "/srv/new",
        bundle / "old" / "dist": "/srv/old",
        bundle / "older": "/srv/older",
        bundle / "dependencies": "/srv/wheels",
        bundle / "driver": "/srv/driver",
        CAPTURES: "/srv/captures",
    }
    torch = ROOT / ".venv-torch" / "lib" / "python3.11" / "site-packages"
    if torch.is_dir():
        binds[torch] = "/srv/torch"
    with booted(tmp_path_factory.mktemp("machine"), binds) as machine:
        yield machine


def install(machine, which="new", *options, may_fail=False):
    wheel = machine.run("sh", "-c", f"echo /srv/{which}/*.whl").output.strip()
    words = ("/srv/source/deploy/install", "--wheels", "/srv/wheels", *options, "install", wheel)
    return machine.run(*words, may_fail=may_fail, timeout=240)


def write(machine, path, text):
    """A file in the machine; its directory is made."""
    target = machine.path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def write_stand_in(machine, script):
    """The benchmark that the service finds: it replays a capture of two H200s."""
    binary = f"{BENCH}/nccl-tests/all_reduce_perf"
    write(machine, binary, f"#!/usr/bin/python3 -IS\n{PROGRAM.read_text()}")
    machine.path(binary).chmod(0o755)
    facts = asdict(script) | {
        "capture_file": "/srv/captures/ar_std.out",
        "usage_file": "/srv/captures/ar_bad.out",
    }
    write(machine, f"{binary}.script.json", json.dumps(facts))
    machine.path(f"{binary}.calls.jsonl").unlink(missing_ok=True)
    machine.run("chown", "-R", "gpumond:gpumond", BENCH)


def calls(machine):
    notes = machine.path(f"{BENCH}/nccl-tests/all_reduce_perf.calls.jsonl")
    return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []


@pytest.fixture
def installed(machine):
    """The service as installed, at rest: with the fake driver, the benchmark, and no history of an earlier test."""
    if not machine.path("/opt/gpumond/.wheel").exists():
        install(machine, "new", "--no-start")
    machine.run("systemctl", "stop", UNIT)
    shutil.rmtree(machine.path(f"/etc/systemd/system/{UNIT}.d"), ignore_errors=True)
    machine.run("sh", "-c", "rm -rf /var/lib/gpumond/* /run/lock/gpumond/*")
    write(machine, f"/etc/systemd/system/{UNIT}.d/test.conf", DROP_IN)
    write(machine, "/etc/gpumond/config.toml", CONFIG)
    machine.run("install", "-d", "-o", "gpumond", "-g", "gpumond", "-m", "750", "/var/lib/gpumond")
    write_stand_in(machine, Script())
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "reset-failed", UNIT, may_fail=True)
    yield machine
    machine.run("systemctl", "stop", UNIT, may_fail=True)
    machine.run("journalctl", "--rotate", "--vacuum-time=1s", "--quiet", may_fail=True)


@pytest.fixture
def service(installed):
    installed.run("systemctl", "start", UNIT)
    return installed


def drop_in(machine, name, text):
    write(machine, f"/etc/systemd/system/{UNIT}.d/{name}.conf", text)
    machine.run("systemctl", "daemon-reload")


def scrape(machine):
    script = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:10061/metrics', timeout=10).read().decode())"
    return machine.run("python3", "-c", script).output


def status_lines(machine):
    """What a person reads first."""
    return machine.run("systemctl", "status", "--no-pager", "--lines=0", UNIT, may_fail=True).output


def programs(machine):
    return machine.run("pgrep", "-f", "nccl-tests/all_reduce_perf", may_fail=True).output.split()


def wait_for_benchmark(machine):
    wait_until(lambda: calls(machine), seconds=60, what="the benchmark")


def gpumond(machine, *words, may_fail=False):
    """As the service's user: root starts no program that somebody else could replace."""
    return machine.run(*AS_ITSELF, "gpumond", *words, may_fail=may_fail)


def sweeps(machine):
    script = (
        "import sqlite3; c = sqlite3.connect('file:/var/lib/gpumond/history.db?mode=ro', uri=True);"
        " [print(*row) for row in c.execute('SELECT trigger_kind, outcome, reason FROM sweep ORDER BY number')]"
    )
    return machine.run("python3", "-c", script).output.splitlines()


# --- install, run, reload ---


def test_the_documented_installation_ends_with_a_running_service_and_may_be_repeated(machine):
    machine.run("/srv/source/deploy/install", "purge")
    first = install(machine)
    assert "changed: gpumond.service is started" in first.output
    assert machine.property(UNIT, "ActiveState") == "active"
    assert "config.toml" in machine.run("ls", "-l", "/etc/gpumond").output
    pid = machine.property(UNIT, "MainPID")
    assert install(machine).output == "nothing to do\n"
    assert machine.property(UNIT, "MainPID") == pid
    modes = machine.run(
        "stat", "--format=%A %U:%G %n", "/etc/gpumond/config.toml", "/var/lib/gpumond", "/run/lock/gpumond"
    )
    assert modes.output.splitlines() == [
        "-rw-r----- root:gpumond /etc/gpumond/config.toml",
        "drwxr-x--- gpumond:gpumond /var/lib/gpumond",
        "drwxrwx--- gpumond:gpumond /run/lock/gpumond",
    ]
    # A person's configuration outlives an installation, and that outlives an upgrade of the distribution's Python.
    write(machine, "/etc/gpumond/config.toml", CONFIG)
    machine.run("sh", "-c", "rm /opt/gpumond/bin/python*")
    assert "(Python 3.11" in install(machine).output
    assert machine.property(UNIT, "ActiveState") == "active"
    assert machine.property(UNIT, "MainPID") != pid
    assert machine.path("/etc/gpumond/config.toml").read_text() == CONFIG


def test_systemd_finds_the_installed_unit_right_and_confined(installed):
    shutil.rmtree(installed.path(f"/etc/systemd/system/{UNIT}.d"))
    installed.run("systemctl", "daemon-reload")
    checked = installed.run("systemd-analyze", "verify", f"/etc/systemd/system/{UNIT}")
    assert (checked.output, checked.errors) == ("", "")
    installed.run("systemd-analyze", "security", "--no-pager", f"--threshold={EXPOSURE_MAX}", UNIT)


def test_ready_is_told_when_metrics_are_there(service):
    assert "\ngpumond_gpus 2.0\n" in scrape(service)
    assert 'Status: "listening on 127.0.0.1:10061"' in status_lines(service)
    assert service.property(UNIT, "NRestarts") == "0"
    assert (
        service.run("stat", "--format=%U", f"/proc/{service.property(UNIT, 'MainPID')}").output == "gpumond\n"
    )


def test_reload_takes_a_good_file_and_refuses_a_bad_one(service):
    pid = service.property(UNIT, "MainPID")
    write(service, "/etc/gpumond/config.toml", CONFIG.replace('"1s"', '"2s"'))
    service.run("systemctl", "reload", UNIT)
    assert 'Status: "configuration reloaded"' in status_lines(service)
    assert "gpumond_config_last_reload_successful 1.0" in scrape(service)
    write(service, "/etc/gpumond/config.toml", CONFIG + "colectives = []\n")
    service.run("systemctl", "reload", UNIT)
    assert "running with the old configuration" in status_lines(service)
    assert "gpumond_config_last_reload_successful 0.0" in scrape(service)
    assert service.property(UNIT, "MainPID") == pid


def test_the_metrics_file_lives_as_long_as_the_daemon_and_everybody_may_read_it(installed):
    drop_in(installed, "once", "[Service]\nRestart=no\n")
    text = CONFIG.replace("[web]", "[web]\nenabled = false")
    write(installed, "/etc/gpumond/config.toml", text + '\n[textfile]\nfile = "/run/gpumond/gpumond.prom"\n')
    read = ("runuser", "-u", "nobody", "--", "cat", "/run/gpumond/gpumond.prom")
    for end in ("stop", "kill"):
        installed.run("systemctl", "start", UNIT)
        assert 'Status: "writing /run/gpumond/gpumond.prom"' in status_lines(installed)
        assert "\ngpumond_gpus 2.0\n" in installed.run(*read).output
        if end == "stop":
            installed.run("systemctl", "stop", UNIT)
        else:
            installed.run("kill", "-KILL", installed.property(UNIT, "MainPID"))
            wait_until(lambda: installed.property(UNIT, "ActiveState") == "failed", what="the end")
        assert installed.run("ls", "/run/gpumond", may_fail=True).status != 0, end


def test_whoever_is_in_its_group_may_ask_check_with_and_without_a_daemon(service):
    ask = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--groups=gpumond", "gpumond", "check", "--nagios")
    for what in ("start", "stop"):
        service.run("systemctl", what, UNIT)
        answer = service.run(*ask, may_fail=True)
        assert answer.output.startswith("GPUMOND OK: not_evaluated (not_measured): 2 GPUs"), answer
    stranger = service.run("runuser", "-u", "nobody", "--", "gpumond", "check", "--nagios", may_fail=True)
    assert (stranger.status, stranger.output[:16]) == (3, "GPUMOND UNKNOWN:")


def test_a_hung_daemon_is_killed_and_started_again(installed):
    drop_in(installed, "watchdog", "[Service]\nWatchdogSec=3s\n")
    installed.run("systemctl", "start", UNIT)
    pid = installed.property(UNIT, "MainPID")
    installed.run("kill", "-STOP", pid)
    wait_until(
        lambda: (
            installed.property(UNIT, "NRestarts") == "1"
            and installed.property(UNIT, "ActiveState") == "active"
        ),
        seconds=60,
        what="the restart",
    )
    assert installed.property(UNIT, "MainPID") != pid
    assert any("Watchdog timeout" in entry.get("MESSAGE", "") for entry in installed.journal(UNIT))


def test_the_service_runs_with_all_drop_ins_together(installed):
    """Each by itself is what tests/system/test_unit_file.py looks at."""
    for file in (ROOT / "deploy/systemd/gpumond.service.d").glob("*.conf"):
        if file.name != "hidden-processes.conf":  # it names a group of those who mount /proc with hidepid
            drop_in(installed, file.stem, file.read_text())
    installed.run("systemctl", "start", UNIT)
    assert "\ngpumond_gpus 2.0\n" in scrape(installed)
    assert "/runs" in installed.run("find", "/sys/fs/cgroup", "-path", f"*{UNIT}/runs").output
    report = json.loads(gpumond(installed, "sweep", "nightly", "--json").output)
    assert report["sweep"]["outcome"] == "success", report


def test_with_delegation_each_benchmark_has_a_cgroup_of_its_own_and_ends_with_it(installed):
    """As the service's user, who may not see systemd's first mark; a reload runs beside the leaves, not in them."""
    delegation = ROOT / "deploy/systemd/gpumond.service.d/cgroup-delegation.conf"
    drop_in(installed, delegation.stem, delegation.read_text())
    write_stand_in(installed, replace(HANGING, grandchild=Grandchild.SETSID))
    write(installed, "/etc/gpumond/config.toml", AT_START)
    installed.run("systemctl", "start", UNIT)
    wait_for_benchmark(installed)
    own = f"/sys/fs/cgroup{installed.property(UNIT, 'ControlGroup')}"

    def members(pattern):
        return set(
            installed.run("sh", "-c", f"cat {own}/{pattern}/cgroup.procs", may_fail=True).output.split()
        )

    wait_until(lambda: len(members("runs/*")) == 2, what="the benchmark and what it left behind")
    assert members("runs/*") == set(programs(installed))
    assert installed.property(UNIT, "MainPID") in members("main")
    assert members(".") == set()
    installed.run("systemctl", "reload", UNIT)
    assert "cgroup_used" in "".join(entry.get("MESSAGE", "") for entry in installed.journal(UNIT))
    installed.run("systemctl", "stop", UNIT)
    assert installed.property(UNIT, "Result") == "success"
    assert programs(installed) == []


# --- sweeps ---


def test_the_replayed_benchmark_runs_in_the_sandbox(service):
    report = json.loads(gpumond(service, "sweep", "nightly", "--json").output)
    assert report["sweep"]["outcome"] == "success", report
    assert 'gpumond_sweep_last_run_success{sweep="nightly"} 1.0' in scrape(service)


def test_kill_9_in_a_sweep_leaves_nothing_behind(installed):
    write_stand_in(installed, HANGING)
    write(installed, "/etc/gpumond/config.toml", AT_START)
    installed.run("systemctl", "start", UNIT)
    wait_for_benchmark(installed)
    assert programs(installed)
    write(installed, "/etc/gpumond/config.toml", CONFIG)
    installed.run("kill", "-KILL", installed.property(UNIT, "MainPID"))
    wait_until(lambda: not programs(installed), seconds=10, what="the end of the benchmark")
    wait_until(lambda: installed.property(UNIT, "ActiveState") == "active", seconds=60, what="the restart")
    assert sweeps(installed) == ["start failure aborted"]
    assert installed.run("sh", "-c", "ls /var/lib/gpumond/runs", may_fail=True).output == ""
    assert len(calls(installed)) == 1
    assert gpumond(installed, "sweep", "nightly", "--dry-run", may_fail=True).status == 0


def test_a_stop_in_a_sweep_takes_less_than_three_seconds(installed):
    write_stand_in(installed, HANGING)
    write(installed, "/etc/gpumond/config.toml", AT_START)
    installed.run("systemctl", "start", UNIT)
    wait_for_benchmark(installed)
    began = time.monotonic()
    installed.run("systemctl", "stop", UNIT)
    assert time.monotonic() - began < STOP_SECONDS_MAX
    assert installed.property(UNIT, "Result") == "success"
    assert programs(installed) == []


def test_a_restart_during_a_sweep_by_hand_starts_no_second_one(installed):
    write_stand_in(installed, HANGING)
    write(installed, "/etc/gpumond/config.toml", AT_START)
    by_hand = installed.start(*AS_ITSELF, "gpumond", "sweep", "nightly", "--json")
    wait_for_benchmark(installed)
    installed.run("systemctl", "start", UNIT)
    installed.run("systemctl", "restart", UNIT)
    wait_until(
        lambda: sum(line.startswith("start skipped locked") for line in sweeps(installed)) == 2,
        seconds=30,
        what="the refusals",
    )
    assert len(calls(installed)) == 1
    assert programs(installed)
    installed.run("pkill", "-INT", "-f", "gpumond sweep nightly")
    by_hand.wait(30)
    by_hand.stdout.close()
    assert programs(installed) == []


TORCH = """
[Unit]
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=
ExecStart=/usr/bin/python3 {program} --backend gloo {arguments}
Environment=PYTHONPATH=/srv/torch HOME=/tmp
Restart=no
WatchdogSec=0
TimeoutStartSec=200s
StandardOutput=truncate:/torch.out
StandardError=inherit
"""


def test_torch_runs_over_gloo_in_the_sandbox(installed):
    if not installed.path("/srv/torch").is_dir() or not any(installed.run("ls", "/srv/torch").output):
        pytest.skip("no .venv-torch of Python 3.11 here: make test-torch makes it")
    program = "/opt/gpumond/lib/python3.11/site-packages/gpumond/sweep/engines/torch_benchmark.py"
    arguments = "--collective all_reduce -b 1024 -e 1048576 -f 4 -g 2 -w 1 -n 3 -c 1 -d float -o sum"
    unit = installed.path(f"/etc/systemd/system/{UNIT}").read_text()
    write(installed, "/etc/systemd/system/torch.service", unit)
    write(
        installed,
        "/etc/systemd/system/torch.service.d/test.conf",
        TORCH.format(program=program, arguments=arguments),
    )
    installed.run("systemctl", "daemon-reload")
    installed.run("systemctl", "start", "torch.service", may_fail=True, timeout=240)
    output = installed.path("/torch.out").read_text()
    assert installed.property("torch.service", "Result") == "success", output
    assert parse(output).outcome is TextOutcome.OK, output


# --- bad input: what a person reads in one line ---


@pytest.mark.parametrize(
    ("spoil", "status", "line"),
    [
        ("port", 12, r"cannot run: cannot listen on 127\.0\.0\.1:10061: address already in use"),
        ("state directory", 10, r"cannot run: /var/lib/elsewhere is not writable for this process"),
        ("no configuration", 2, r"cannot run: /etc/gpumond/config\.toml: .*no such file.*"),
        ("newer configuration", 2, r"cannot run: /etc/gpumond/config\.toml:4: \[?quantum\]?.*"),
        ("newer history", 10, r"cannot run: /var/lib/gpumond/history\.db has schema version 99, .*"),
    ],
)
def test_systemctl_status_says_in_one_line_why_it_does_not_run(installed, spoil, status, line):
    drop_in(installed, "once", "[Service]\nRestart=no\n")
    holder = None
    match spoil:
        case "port":
            script = "import socket, time; s = socket.create_server(('127.0.0.1', 10061)); print(flush=True); time.sleep(60)"
            holder = installed.start("python3", "-c", script)
            holder.stdout.readline()
        case "state directory":
            installed.run("install", "-d", "-o", "nobody", "-m", "755", "/var/lib/elsewhere")
            text = CONFIG.replace("[store]", '[store]\ndirectory = "/var/lib/elsewhere"')
            write(installed, "/etc/gpumond/config.toml", text)
        case "no configuration":
            installed.path("/etc/gpumond/config.toml").unlink()
        case "newer configuration":
            write(installed, "/etc/gpumond/config.toml", "[store]\n\n\n[quantum]\nentangle = true\n")
        case "newer history":
            script = "import sqlite3; c = sqlite3.connect('/var/lib/gpumond/history.db'); c.execute('PRAGMA user_version=99')"
            installed.run("runuser", "-u", "gpumond", "--", "python3", "-c", script)
    try:
        installed.run("systemctl", "start", UNIT, may_fail=True)
        said = re.findall(r"^ +Status: \"(.*)\"$", status_lines(installed), flags=re.MULTILINE)
        assert len(said) == 1, status_lines(installed)
        assert re.fullmatch(line, said[0], flags=re.IGNORECASE), said
        assert installed.property(UNIT, "ExecMainStatus") == str(status)
    finally:
        if holder is not None:
            holder.terminate()
            holder.wait(10)
            holder.stdout.close()
            installed.run("pkill", "-f", "10061", may_fail=True)


# --- upgrade, downgrade, removal ---


def test_an_upgrade_keeps_the_history_and_a_downgrade_is_refused(installed):
    machine = installed
    machine.run("/srv/source/deploy/install", "remove")
    install(machine, "old", "--no-start")
    machine.run("systemctl", "start", UNIT)
    report = json.loads(gpumond(machine, "sweep", "nightly", "--json").output)
    assert report["sweep"]["outcome"] == "success", report
    before = {
        line for line in scrape(machine).splitlines() if line.startswith("gpumond_collective_busbw_bytes")
    }
    assert before
    assert "is restarted" in install(machine, "new").output
    after = {
        line for line in scrape(machine).splitlines() if line.startswith("gpumond_collective_busbw_bytes")
    }
    assert after == before
    copies = list(machine.path("/var/lib/gpumond").glob("history.db.before-v*"))
    assert [oct(copy.stat().st_mode & 0o777) for copy in copies] == ["0o640"]
    refused = install(machine, "older", may_fail=True)
    assert refused.status == 1
    assert "is installed, 0.0.1 is older" in refused.errors
    assert "history.db.before-v" in refused.errors
    assert machine.property(UNIT, "ActiveState") == "active"


def left_behind(machine):
    found = machine.run("find", "/", "-xdev", "(", "-path", "/srv", "-o", "-path", "/proc", "-o", "-path", "/var/log", ")",
        "-prune", "-o", "-name", "*gpumond*", "-print").output.split()  # fmt: skip
    run = machine.run("find", "/run", "-name", "*gpumond*").output.split()
    people = machine.run("getent", "passwd", "gpumond", may_fail=True).output
    return [path for path in (*found, *run) if "/cgroup/" not in path], people


def test_removal_leaves_what_belongs_to_a_person_and_purging_leaves_nothing(service):
    service.run("/srv/source/deploy/install", "remove")
    left, people = left_behind(service)
    assert sorted(left) == ["/etc/gpumond", f"/etc/systemd/system/{UNIT}.d", "/var/lib/gpumond"]
    assert people
    assert service.run("pgrep", "-u", "gpumond", may_fail=True).output == ""
    service.run("/srv/source/deploy/install", "purge")
    assert left_behind(service) == ([], "")
    assert service.run("systemctl", "status", UNIT, may_fail=True).status == 4  # no such unit
