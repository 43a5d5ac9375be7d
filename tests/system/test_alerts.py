"""Rules, Alertmanager and dashboards as shipped, in the real programs, on the releases of Debian that are here.

The installed one is that of the oldest Debian that is supported; tests/system/unpack-prometheus puts a newer one beside.
"""

import copy
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from daemon_process import wait_until
from monitoring import Binaries, alertmanager, prometheus, webhook

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = sorted((DEPLOY / "prometheus").glob("*.rules.yml"))
ALERTMANAGER = DEPLOY / "alertmanager/alertmanager.yml"
RELEASES = {
    "installed": Path("/usr/bin"),
    "trixie": Path("/var/cache/gpumond-tests/trixie/root/usr/bin"),
}

SWEEP = """
[simulate]
scenario = "{scenario}"
pace = 100.0

[[sweep]]
name = "nightly"
collectives = ["all_reduce", "alltoall"]
min_size = "1GiB"
"""


@pytest.fixture(scope="module", params=RELEASES)
def binaries(request):
    directory = RELEASES[request.param]
    if not (directory / "prometheus").exists():
        pytest.skip(f"no Prometheus in {directory}: tests/system/unpack-prometheus fetches one")
    return Binaries(directory)


# The files


def test_promtool_and_amtool_find_nothing_to_say(binaries):
    for name, *arguments in (
        ("promtool", "check", "rules", "--lint=all", "--lint-fatal", *map(str, RULES)),
        ("promtool", "check", "config", str(DEPLOY / "prometheus/prometheus.yml")),
        ("amtool", "check-config", str(ALERTMANAGER)),
    ):
        checked = binaries.run(name, *arguments)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_unit_tests_of_the_rules(binaries):
    directory = DEPLOY / "prometheus/tests"
    checked = binaries.run(
        "promtool", "test", "rules", *(path.name for path in sorted(directory.glob("*.yml"))), cwd=directory
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("alert", "severity", "receiver"),
    [
        ("GpumondWatchdog", "none", "deadman"),
        ("GpumondWrongResults", "critical", "page"),
        ("GpumondTopologyChanged", "critical", "page"),
        ("GpumondBusbwDegraded", "warning", "ticket"),
        ("GpumondDown", "warning", "ticket"),
        ("GpumondScrapeSlow", "info", "nobody"),
    ],
)
def test_routes(binaries, alert, severity, receiver):
    tested = binaries.run(
        "amtool",
        "config",
        "routes",
        "test",
        f"--config.file={ALERTMANAGER}",
        f"--verify.receivers={receiver}",
        f"alertname={alert}",
        f"severity={severity}",
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


# What explains what


def alert(name, severity, **labels):
    labels = {"job": "gpumond", "instance": "a", **labels}
    return {"labels": {"alertname": name, "severity": severity, **labels}, "annotations": {}}


HEARD = True
MISSING = alert("GpumondGpuMissing", "critical", gpu="3")
SILENCED_BY_A_MISSING_GPU = [
    alert("GpumondLinkDown", "critical", kind="nvlink_down"),
    alert("GpumondP2pLost", "warning", kind="p2p_lost"),
    alert("GpumondBusbwDegraded", "warning", kind="step"),
    alert("GpumondSweepFailed", "warning", sweep="nightly"),
    alert("GpumondSweepFailing", "critical", sweep="nightly"),
    alert("GpumondTopologyChanged", "critical", kind="link_lost"),
]
CASES = [
    ("a missing GPU", MISSING, SILENCED_BY_A_MISSING_GPU),
    (
        "not on another host, nor what it does not explain",
        MISSING,
        [
            (alert("GpumondBusbwDegraded", "warning", instance="b"), HEARD),
            (alert("GpumondWrongResults", "critical"), HEARD),
            (alert("GpumondStateStoreFailing", "warning"), HEARD),
        ],
    ),
    (
        "the lesser of two severities",
        alert("GpumondSweepOverdue", "critical", sweep="nightly"),
        [
            alert("GpumondSweepOverdue", "warning", sweep="nightly"),
            (alert("GpumondSweepOverdue", "warning", sweep="weekly"), HEARD),
        ],
    ),
    (
        "a host that is down",
        alert("GpumondDown", "warning"),
        [
            alert("GpumondGpuMissing", "critical", gpu="3"),
            alert("GpumondClockSkew", "warning"),
            (alert("GpumondWrongResults", "critical"), HEARD),
        ],
    ),
    (
        "hangs",
        alert("GpumondP2pPathHangs", "critical", kind="p2p_path"),
        [alert("GpumondSweepFailed", "warning", sweep="nightly")],
    ),
]


def shipped_alertmanager(port):
    """As shipped, but it waits for nothing and sends to `port`."""
    config = yaml.safe_load(ALERTMANAGER.read_text())
    for route in (config["route"], *config["route"]["routes"]):
        route |= {"group_wait": "0s", "group_interval": "1s"}
    for receiver in config["receivers"]:
        for hook in receiver.get("webhook_configs", []):
            hook["url"] = hook["url"].replace(":9911", f":{port}")
    return config


@pytest.fixture(scope="module")
def alone(binaries, tmp_path_factory):
    """An Alertmanager that nobody but the test speaks to."""
    directory = tmp_path_factory.mktemp("alertmanager")
    with (
        webhook() as received,
        alertmanager(binaries, directory, shipped_alertmanager(received.port)) as server,
    ):
        yield server


@pytest.mark.parametrize(("source", "targets"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_explains_what(alone, source, targets, request):
    # Each case has a job of its own, so that cases do not explain each other.
    job = re.sub(r"\W", "-", request.node.callspec.id)
    pairs = [(source, True), *(each if isinstance(each, tuple) else (each, False) for each in targets)]
    pairs = [(copy.deepcopy(each), is_heard) for each, is_heard in pairs]
    for each, _ in pairs:
        each["labels"]["job"] = job
    expected = {named(each["labels"]): is_heard for each, is_heard in pairs}

    def heard():
        found = alone.get("/api/v2/alerts", filter=f'job="{job}"')
        return {named(each["labels"]): not each["status"]["inhibitedBy"] for each in found}

    # What explains has to be there first: Alertmanager does not take back what it has sent.
    alone.post("/api/v2/alerts", [pairs[0][0]])
    wait_until(heard, what="the source")
    alone.post("/api/v2/alerts", [each for each, _ in pairs])
    wait_until(lambda: heard() == expected, what=f"what explains what: {expected}")


def named(labels):
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items()))


# The dashboards

EMPTY_WHEN_HEALTHY = {
    ("gpumond-fleet", "Findings"),
    ("gpumond-fleet", "Differences from the accepted state"),
    ("gpumond-fleet", "Alerts"),
    ("gpumond-host", "Differences from the accepted state"),
}
NOT_ON_A_YOUNG_SIMULATED_HOST = re.compile(
    # A made-up benchmark has no NCCL that would log how it moves data.
    r"gpumond_collective_transport_"
    # What is normal is learned over weeks, and there was one night.
    r"|gpumond_collective_score_ratio|gpumond_collective_busbw_baseline_bytes_per_second|gpumond_baseline_state"
)

VARIABLES = {"datasource": "", "cluster": ".*", "__rate_interval": "10s"}


def filled(expression):
    """`expression` as Grafana would send it, with everything chosen."""
    return re.sub(r"\$(\w+)", lambda found: VARIABLES.get(found[1], ".+"), expression)


@pytest.fixture
def scraped(binaries, write_config, daemons, tmp_path):
    """A Prometheus that has scraped a daemon with results for some seconds."""
    daemon = daemons(write_config(SWEEP.format(scenario="hgx-h200-8"))).start()
    assert measure(daemon.config).returncode == 0
    with prometheus(binaries, tmp_path / "prometheus", scraping(daemon)) as server:
        scrapes = 'count_over_time(up{job="gpumond"}[1m]) >= 6'
        wait_until(lambda: server.get("/api/v1/query", query=scrapes)["data"]["result"], what="some scrapes")
        yield server


def measure(config):
    """As a person would: the daemon measures, the command follows."""
    command = [sys.executable, "-m", "gpumond", "sweep", "--config", str(config), "--quiet", "nightly"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def scraping(daemon, **more):
    """A configuration that scrapes `daemon` each second."""
    job = {"job_name": "gpumond", "static_configs": [{"targets": [f"127.0.0.1:{daemon.port}"]}], **more}
    return {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "scrape_configs": [job]}


def boards():
    for path in sorted((DEPLOY / "grafana/dashboards").glob("*.json")):
        yield json.loads(path.read_text())


def evaluate(server, target):
    if target.get("instant"):
        return server.get("/api/v1/query", query=filled(target["expr"]))
    now = time.time()
    return server.get(
        "/api/v1/query_range", query=filled(target["expr"]), start=str(now - 4), end=str(now), step="1"
    )


def test_every_query_of_every_panel_returns_data(scraped):
    faults, count = [], 0
    for board in boards():
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                answer, count = evaluate(scraped, target), count + 1
                where = f"{board['uid']}: {panel['title']}: {filled(target['expr'])}"
                if answer.get("warnings") or answer.get("infos"):
                    faults.append(f"{where}: {answer.get('warnings')} {answer.get('infos')}")
                if NOT_ON_A_YOUNG_SIMULATED_HOST.search(target["expr"]):
                    continue
                is_empty = not answer["data"]["result"]
                if is_empty != ((board["uid"], panel["title"]) in EMPTY_WHEN_HEALTHY):
                    faults.append(f"{where}: {'empty' if is_empty else 'not empty'}")
    for board in boards():
        faults += faults_of_choices(scraped, board)
    assert not faults, "\n".join(faults)
    assert count > 60


def faults_of_choices(server, board):
    """Variables without a choice; an annotation with a wrong query raises."""
    for variable in board["templating"]["list"][1:]:
        query = filled(variable["query"]["query"])
        selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", query).groups()
        found = server.get(f"/api/v1/label/{label}/values", **{"match[]": selector})["data"]
        if not found and label != "cluster":
            yield f"{board['uid']}: nothing to choose for {variable['name']}"
    for annotation in board["annotations"]["list"]:
        server.get("/api/v1/query", query=filled(annotation["expr"]))


# From a fault to the receiver


def hasty_rules(directory):
    """The rules as shipped, but nothing waits: `for` and `keep_firing_for` become a second."""
    paths = []
    for path in RULES:
        rules = yaml.safe_load(path.read_text())
        for rule in (rule for group in rules["groups"] for rule in group["rules"]):
            rule |= {key: "1s" for key in ("for", "keep_firing_for") if key in rule}
        paths.append(directory / path.name)
        paths[-1].write_text(json.dumps(rules))
    return [str(path) for path in paths]


class Host:
    """A simulated host whose faults change while its daemon runs."""

    def __init__(self, path):
        self.path = path
        self.break_by()

    def break_by(self, *faults):
        lines = ['base = "hgx-h200-8"']
        for fault in faults:
            lines += ["[[faults]]", *(f"{key} = {value!r}".replace("'", '"') for key, value in fault.items())]
        new = self.path.with_suffix(".new")
        new.write_text("\n".join(lines))
        new.replace(self.path)


LINK = {"kind": "link_down", "gpu": 3, "link": 7}
LOST = {"kind": "gpu_lost", "gpu": 5}
CORRUPT = {"kind": "wrong_elements", "count": 12}


@pytest.fixture
def watched(binaries, write_config, daemons, tmp_path):
    """(host, daemon, webhook): the whole chain, on loopback."""
    host = Host(tmp_path / "host.toml")
    config = write_config(SWEEP.format(scenario=host.path))
    with webhook() as received:
        daemon = daemons(config).start()
        # After its restart it must be where Prometheus looks for it.
        config.write_text(config.read_text().replace("127.0.0.1:0", f"127.0.0.1:{daemon.port}"))
        assert measure(config).returncode == 0
        # As prometheus.yml tells those who want to hear simulated hosts.
        forget = {"source_labels": ["__name__"], "regex": "gpumond_simulated", "action": "drop"}
        with alertmanager(binaries, tmp_path / "am", shipped_alertmanager(received.port)) as manager:
            config = scraping(daemon, metric_relabel_configs=[forget]) | {
                "rule_files": hasty_rules(tmp_path),
                "alerting": {
                    "alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{manager.port}"]}]}]
                },
            }
            with prometheus(binaries, tmp_path / "prom", config) as server:
                yield host, daemon, received, server


def scrapes_that_succeed(server):
    """In the last four seconds."""
    (sample,) = server.get("/api/v1/query", query="sum_over_time(up[4s])")["data"]["result"]
    return float(sample["value"][1])


class Times:
    """From a fault to the webhook, printed for docs/results.md (`pytest -s`)."""

    def __init__(self, received):
        self.received = received
        self.begin = time.monotonic()

    def fault(self):
        self.begin = time.monotonic()

    def notice(self, name, status="firing", **labels):
        found = self.received.wait_for(name, status, **labels)
        after = self.received.started + found.after_seconds - self.begin
        print(f"{name} {status}: {after:.1f} s after the fault", file=sys.stderr)
        return found


def test_from_a_fault_to_the_receiver_and_no_restart_resolves_anything(watched):
    host, daemon, received, server = watched
    times = Times(received)
    assert times.notice("GpumondWatchdog").receiver == "deadman"

    times.fault()
    host.break_by(LINK)
    assert times.notice("GpumondLinkDown", kind="nvlink_down").receiver == "page"

    times.fault()  # with the sweep that finds it
    host.break_by(LINK, CORRUPT)
    assert measure(daemon.config).returncode == 1
    wrong = times.notice("GpumondWrongResults", collective="all_reduce")
    assert wrong.receiver == "page"
    assert "12 wrong elements" in wrong.annotations["description"]

    times.fault()
    host.break_by(LINK, CORRUPT, LOST)
    missing = times.notice("GpumondGpuMissing")
    assert (missing.receiver, missing.labels["gpu"]) == ("page", "5")

    # A crash, some failed scrapes, a start.
    daemon.kill()
    wait_until(lambda: scrapes_that_succeed(server) == 0, what="failed scrapes")
    daemon.start()
    wait_until(lambda: scrapes_that_succeed(server) > 2, what="scrapes")
    time.sleep(5)  # a few evaluations, and a group interval of Alertmanager
    for name in ("GpumondLinkDown", "GpumondWrongResults", "GpumondGpuMissing"):
        assert not received.of(name, "resolved"), name

    times.fault()
    host.break_by()
    assert measure(daemon.config).returncode == 0
    for name in ("GpumondGpuMissing", "GpumondWrongResults", "GpumondLinkDown"):
        times.notice(name, "resolved")
    assert {notice.receiver for notice in received.notices} <= {"deadman", "page", "ticket"}
