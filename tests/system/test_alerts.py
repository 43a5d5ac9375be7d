"""Rules, Alertmanager and dashboards as shipped, in the real programs, on the releases of Debian that are here.

The installed one is that of the oldest Debian that is supported; tests/system/unpack-prometheus puts a newer one beside.
"""

import copy
import json
import re
import time

import pytest
from daemon_process import wait_until
from monitoring import alertmanager, prometheus, webhook
from shipped import ALERTMANAGER, DEPLOY, RULES, measure, scraping, shipped_alertmanager

from gpumond.exporter.catalogue import AT_SCRAPE, PROCESS, STEADY

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SWEEP = """
[simulate]
scenario = "{scenario}"
pace = 100.0

[[sweep]]
name = "nightly"
collectives = ["all_reduce", "alltoall"]
min_size = "1GiB"
"""


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
VARIABLES = {"datasource": "", "cluster": ".*", "__rate_interval": "10s"}


def filled(expression):
    """`expression` as Grafana would send it, with everything chosen."""
    return re.sub(r"\$(\w+)", lambda found: VARIABLES.get(found[1], ".+"), expression)


@pytest.fixture
def scraped(binaries, write_config, daemons, tmp_path):
    """A Prometheus that has scraped a daemon with a baseline and results for some seconds."""
    daemon = daemons(write_config(SWEEP.format(scenario="hgx-h200-8"))).start()
    commissioned = measure(daemon.config, "nightly", "--repeat", "5", "--accept", "--reason", "commissioned")
    assert commissioned.returncode == 0, commissioned.stderr
    assert measure(daemon.config).returncode == 0
    with prometheus(binaries, tmp_path / "prometheus", scraping(daemon)) as server:
        scrapes = 'count_over_time(up{job="gpumond"}[1m]) >= 6'
        wait_until(lambda: server.get("/api/v1/query", query=scrapes)["data"]["result"], what="some scrapes")
        yield server


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
                is_empty = not answer["data"]["result"]
                if is_empty != ((board["uid"], panel["title"]) in EMPTY_WHEN_HEALTHY):
                    faults.append(f"{where}: {'empty' if is_empty else 'not empty'}")
    for board in boards():
        faults += faults_of_choices(scraped, board)
    assert not faults, "\n".join(faults)
    assert count > 60


NOT_ON_A_HEALTHY_HOST = {
    "gpumond_sweep_run_start_timestamp_seconds",  # while a sweep runs
    "gpumond_gpu_xid_last_timestamp_seconds",
    "gpumond_p2p_expected",  # where it differs
    "gpumond_topology_last_change_timestamp_seconds",
    "gpumond_topology_open_changes",  # from the first change of a kind on
}


def test_every_metric_of_the_documentation_is_there(scraped):
    expected = {name for family in (*STEADY, *AT_SCRAPE) for name in family.sample_names}
    found = set(scraped.get("/api/v1/label/__name__/values")["data"])
    assert expected - found == NOT_ON_A_HEALTHY_HOST
    assert set(PROCESS) <= found


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
