"""From a fault of a host to the receiver of its alert: real daemon, real Prometheus, real Alertmanager.

Over HTTPS, with a client certificate and a password. `-s` prints the times of docs/results.md.
"""

import base64
import contextlib
import json
import shutil
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import daemon_of_yesterday
import pytest
import web_access
from daemon_process import DaemonProcess, wait_until, write_daemon_config
from monitoring import alertmanager, prometheus, webhook
from shipped import hasty_rules, measure, scraping, shipped_alertmanager

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

USER = "prometheus"
BASIC = base64.b64encode(f"{USER}:{web_access.PASSWORD}".encode()).decode()

CONFIG = """
[simulate]
scenario = "{scenario}"
pace = 100.0

[[sweep]]
name = "nightly"
collectives = ["all_reduce"]
min_size = "1GiB"
window = "{window}"

[[sweep]]
name = "weekly"
collectives = ["all_gather"]
min_size = "2GiB"
window = "{window}"
"""

LINK = {"kind": "link_down", "gpu": 3, "link": 7}
LOST = {"kind": "gpu_lost", "gpu": 5}
CORRUPT = {"kind": "wrong_elements", "count": 12}
SLOW = {"kind": "busbw_slow", "factor": 0.9}


class Host:
    """A simulated host whose faults change while its daemon runs."""

    def __init__(self, path):
        self.path = path
        self.break_by()

    def break_by(self, *faults):
        lines = ['base = "hgx-h200-8"']
        for fault in faults:
            lines += ["[[faults]]", *(f"{key} = {json.dumps(value)}" for key, value in fault.items())]
        new = self.path.with_suffix(".new")
        new.write_text("\n".join(lines))
        new.replace(self.path)


def far_window():
    """Three hours on the other side of the clock: nothing but this test starts a sweep."""
    begins = datetime.now().astimezone() + timedelta(hours=10)
    return f"{begins:%H:%M}-{begins + timedelta(hours=3):%H:%M}"


@pytest.fixture(scope="module")
def nights_before(tmp_path_factory):
    """A history: some nights ago both sweeps ran and the nightly one got its baseline; last night it was slow."""
    directory = tmp_path_factory.mktemp("nights")
    host = Host(directory / "host.toml")
    config = write_daemon_config(directory, CONFIG.format(scenario=host.path, window=far_window()))
    with daemon_of(48, config) as daemon:
        assert measure(config, "weekly").returncode == 0
        accepted = measure(config, "nightly", "--repeat", "5", "--accept", "--reason", "commissioned")
        assert accepted.returncode == 0, accepted.stderr
        assert daemon.terminate() == 0
    host.break_by(SLOW)
    with daemon_of(24, config) as daemon:
        assert measure(config, "nightly").returncode == 1
        assert daemon.terminate() == 0
    return directory / "state"


@contextlib.contextmanager
def daemon_of(hours, config):
    """The daemon as it ran so many hours ago."""
    command = (sys.executable, daemon_of_yesterday.__file__, str(hours))
    daemon = DaemonProcess(config, command=command)
    try:
        yield daemon.start()
    finally:
        daemon.process.kill()
        daemon.process.wait()


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path / "host.toml")


@pytest.fixture
def config(host, write_config):
    return write_config(CONFIG.format(scenario=host.path, window=far_window()))


@pytest.fixture
def daemon(nights_before, config, host, daemons, tmp_path):
    """Today's, which wants a client certificate and a password; its host is still slow."""
    shutil.copytree(nights_before, tmp_path / "state")
    host.break_by(SLOW)
    more = (
        f"client_auth_type: RequireAndVerifyClientCert\nclient_ca_file: {web_access.CERTIFICATES / 'ca.pem'}"
    )
    web_file = web_access.write_web_file(tmp_path, more=more, users=USER)
    text = config.read_text().replace("[web]", f'[web]\nconfig_file = "{web_file}"')
    config.write_text(text)
    daemon = daemons(config)
    daemon.client = web_access.client("client")
    daemon.headers = {"Authorization": f"Basic {BASIC}"}
    daemon.start()
    # After its restart it must be where Prometheus looks for it.
    config.write_text(text.replace("127.0.0.1:0", f"127.0.0.1:{daemon.port}"))
    return daemon


@pytest.fixture
def watched(binaries, daemon, tmp_path):
    """(webhook, Prometheus): the whole chain, on loopback."""
    password_file = tmp_path / "password"
    password_file.write_text(web_access.PASSWORD)
    secure = {
        "scheme": "https",
        "tls_config": {
            "ca_file": str(web_access.CERTIFICATES / "ca.pem"),
            "cert_file": str(web_access.CERTIFICATES / "client.pem"),
            "key_file": str(web_access.CERTIFICATES / "client.key"),
        },
        "basic_auth": {"username": USER, "password_file": str(password_file)},
        # As prometheus.yml tells those who want to hear simulated hosts.
        "metric_relabel_configs": [
            {"source_labels": ["__name__"], "regex": "gpumond_simulated", "action": "drop"}
        ],
    }
    with (
        webhook() as received,
        alertmanager(binaries, tmp_path / "am", shipped_alertmanager(received.port)) as manager,
    ):
        target = f"127.0.0.1:{manager.port}"
        config = scraping(daemon, **secure) | {
            "rule_files": hasty_rules(tmp_path),
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [target]}]}]},
        }
        with prometheus(binaries, tmp_path / "prom", config) as server:
            yield received, server


def scrapes_that_succeed(server):
    """In the last four seconds."""
    (sample,) = server.get("/api/v1/query", query="sum_over_time(up[4s])")["data"]["result"]
    return float(sample["value"][1])


class Times:
    """From a fault to the webhook, printed for docs/results.md (`pytest -s`)."""

    def __init__(self, received):
        self.received = received
        self.begin = received.started

    def fault(self):
        self.begin = time.monotonic()

    def notice(self, name, status="firing", **labels):
        found = self.received.wait_for(name, status, **labels)
        after = self.received.started + found.after_seconds - self.begin
        print(f"{name} {status}: {after:.1f} s", file=sys.stderr)
        return found


def test_from_a_fault_to_the_receiver_and_no_restart_resolves_anything(watched, host, daemon):
    received, server = watched
    times = Times(received)
    assert times.notice("GpumondWatchdog").receiver == "deadman"
    overdue = times.notice("GpumondSweepOverdue", sweep="weekly")
    assert overdue.receiver == "ticket"

    times.fault()  # with the second slow night
    assert measure(daemon.config).returncode == 1
    degraded = times.notice("GpumondBusbwDegraded")
    assert degraded.receiver == "ticket"
    assert "all_reduce (all)" in degraded.annotations["description"]

    times.fault()
    host.break_by(SLOW, LINK)
    assert times.notice("GpumondLinkDown", kind="nvlink_down").receiver == "page"

    times.fault()  # with the sweep that finds it
    host.break_by(SLOW, LINK, CORRUPT)
    assert measure(daemon.config).returncode == 1
    wrong = times.notice("GpumondWrongResults", collective="all_reduce")
    assert wrong.receiver == "page"
    assert "12 wrong elements" in wrong.annotations["description"]

    times.fault()
    host.break_by(SLOW, LINK, CORRUPT, LOST)
    missing = times.notice("GpumondGpuMissing")
    assert (missing.receiver, missing.labels["gpu"]) == ("page", "5")

    # A crash, some failed scrapes, a start.
    daemon.kill()
    wait_until(lambda: scrapes_that_succeed(server) == 0, what="failed scrapes")
    daemon.start()
    wait_until(lambda: scrapes_that_succeed(server) > 2, what="scrapes")
    time.sleep(5)  # a few evaluations, and a group interval of Alertmanager
    for name in (
        "GpumondSweepOverdue",
        "GpumondBusbwDegraded",
        "GpumondLinkDown",
        "GpumondWrongResults",
        "GpumondGpuMissing",
    ):
        assert not received.of(name, "resolved"), name

    times.fault()
    host.break_by()
    assert measure(daemon.config).returncode == 0
    assert measure(daemon.config, "weekly").returncode == 0
    for name in ("GpumondGpuMissing", "GpumondWrongResults", "GpumondLinkDown", "GpumondSweepOverdue"):
        times.notice(name, "resolved")
    assert {notice.receiver for notice in received.notices} <= {"deadman", "page", "ticket"}


def test_nobody_else_gets_in(daemon):
    daemon.headers = {}
    assert daemon.get("/metrics")[0] == 401
    daemon.client = web_access.client()
    with pytest.raises(OSError):
        daemon.get("/metrics")


def test_a_reload_takes_all_of_a_web_file_or_nothing(config, daemons, tmp_path):
    """On SIGHUP, as an operator's renewal hook would."""
    web_file = web_access.write_web_file(tmp_path)
    config.write_text(config.read_text().replace("[web]", f'[web]\nconfig_file = "{web_file}"'))
    daemon = daemons(config)
    daemon.client = web_access.client()
    daemon.start()

    web_access.write_web_file(tmp_path, certificate="expired", users=USER)
    daemon.hang_up()
    wait_until(lambda: daemon.event("reload_failed"), what="the refusal")
    assert "expired.pem expired at 2020-02-01" in daemon.event("reload_failed")["error"]
    assert daemon.value("gpumond_config_last_reload_successful") == 0  # and no password is asked for

    web_access.write_web_file(tmp_path, certificate="renewed", users=USER)
    daemon.hang_up()
    wait_until(lambda: daemon.event("reload_done"), what="the reload")
    assert daemon.get("/metrics")[0] == 401
    daemon.headers = {"Authorization": f"Basic {BASIC}"}
    assert daemon.value("gpumond_config_last_reload_successful") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "tls_server_config: {cert_file: none.pem, key_file: none.key}",
            "none.pem cannot be read: no such file",
        ),
        ("tls_server_confg: {}", "tls_server_confg: is not a key of a web configuration file"),
    ],
)
def test_a_mistake_is_one_sentence_and_no_start(config, daemons, tmp_path, text, said):
    web_file = tmp_path / "web.yml"
    web_file.write_text(text)
    daemon = daemons(config)
    daemon.command = (*daemon.command[:-1], f"--web.config.file={web_file}", "--config")
    daemon.launch()
    assert daemon.process.wait(30) == 2
    lines = Path(daemon.log).read_text()
    assert said in lines
    assert "Traceback" not in lines
