"""The rules of Prometheus: nothing they name is made up, and every alert is as an operator may expect it."""

import re
from pathlib import Path

import alert_table
import pytest
import yaml

from gpumond.exporter.catalogue import AT_SCRAPE, STEADY
from gpumond.model.change import ChangeKind
from gpumond.model.finding import FindingKind, Level
from gpumond.model.run import Verdict

ROOT = Path(__file__).parents[3]
RUNBOOKS = ROOT / "docs/runbooks"
RULES = [rule for path in alert_table.RULE_FILES for rule in alert_table.read_rules(path)]
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDED = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}
NAMES = sorted({rule["alert"] for rule in ALERTS})

WITHOUT_HOST = ("GpumondAbsent", "GpumondWatchdog")
"""They are about no host: there is nothing to name and nobody to keep quiet."""

SELECTORS = re.compile(r"\b(gpumond_\w+)\{([^}]*)\}")
LABELS = {family.name: {*family.labels, "job", "instance"} for family in (*STEADY, *AT_SCRAPE)}


def alerts(name):
    return [rule for rule in ALERTS if rule["alert"] == name]


PROMTOOL_GROUPS = [
    group
    for path in sorted((ROOT / "deploy/prometheus/tests").glob("*.yml"))
    for group in yaml.safe_load(path.read_text())["tests"]
]


def groups_of(name):
    return [group for group in PROMTOOL_GROUPS if group["name"].split(",")[0] == name]


def test_every_metric_of_a_rule_exists():
    for rule in RULES:
        metrics = alert_table.metrics_of(rule["expr"], RECORDED)
        assert metrics or rule["expr"] == "vector(1)", rule
        assert [name for name in metrics if name not in alert_table.SOURCES] == [], rule


def test_every_label_that_a_rule_selects_by_exists():
    for rule in RULES:
        for name, matchers in SELECTORS.findall(rule["expr"]):
            assert set(re.findall(r"(\w+)\s*(?:=|!=|=~|!~)", matchers)) <= LABELS[name], rule


WORDS = {
    ("gpumond_topology_open_changes", "kind"): ChangeKind,
    ("gpumond_finding", "kind"): FindingKind,
    ("gpumond_collective_verdict", "verdict"): Verdict,
}


def test_every_word_that_a_rule_selects_by_exists():
    seen = set()
    for rule in RULES:
        for metric, matchers in SELECTORS.findall(rule["expr"]):
            for label, value in re.findall(r'(\w+)(?:=~|!~|!=|=)"([^"]*)"', matchers):
                if label in ("kind", "level", "verdict"):
                    words = Level if label == "level" else WORDS[metric, label]
                    assert set(value.split("|")) <= set(words), rule
                    seen.add(metric)
    assert seen == {
        "gpumond_topology_open_changes",
        "gpumond_finding",
        "gpumond_gpu_xid_last_timestamp_seconds",
    }


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_says_what_it_is_and_where_to_read_on(name):
    for alert in alerts(name):
        assert alert["labels"]["severity"] in ("critical", "warning", "info", "none", "{{ $labels.level }}")
        notes = alert["annotations"]
        assert set(notes) == {"summary", "description", "runbook_url"}
        assert "{{" not in notes["summary"], "one fixed sentence, so that a group of alerts has one title"
        assert notes["summary"].endswith(".")
        assert notes["runbook_url"] == f"https://gpumond.example/runbooks/{name}.md"
        if name not in WITHOUT_HOST:
            assert "$labels.instance" in notes["description"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_fires_on_a_made_up_host_and_a_restart_resolves_nothing(name):
    for alert in alerts(name):
        if name in WITHOUT_HOST:
            continue
        expression = alert["expr"]
        for recorded, definition in RECORDED.items():
            expression = expression.replace(recorded, definition)
        assert "unless on (job, instance) last_over_time(gpumond_simulated[1d]) == 1" in expression
        assert "keep_firing_for" in alert


@pytest.mark.parametrize("name", NAMES)
def test_promtool_sees_every_alert_fire_and_not_fire(name):
    checks = [check["exp_alerts"] for group in groups_of(name) for check in group["alert_rule_test"]]
    assert any(checks), "it never fires"
    if name != "GpumondWatchdog":
        assert not all(checks), "it always fires"
    fired = {alert["exp_labels"]["severity"] for check in checks for alert in check}
    assert {alert["labels"]["severity"] for alert in alerts(name)} in (fired, {"{{ $labels.level }}"})


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITHOUT_HOST])
def test_promtool_sees_every_alert_beside_a_healthy_a_made_up_and_a_restarted_host(name):
    series = [series for group in groups_of(name) for series in group["input_series"]]
    hosts = {re.search(r'instance="([\w-]+)"', each["series"])[1] for each in series}
    assert len(hosts) >= 3
    assert {"simulated", "restarted"} <= hosts
    # A scrape that fails is a sample of `up`; everything else has none.
    assert any("stale" in each["values"] or each["series"].startswith(("up{", "scrape_")) for each in series)
    checked = {check["alertname"] for group in groups_of(name) for check in group["alert_rule_test"]}
    assert checked == {name}


def test_every_alert_has_its_page_and_every_page_its_alert():
    assert sorted(path.stem for path in RUNBOOKS.glob("*.md")) == NAMES


def test_the_table_of_alerts_is_up_to_date():
    assert alert_table.PAGE.read_text() == alert_table.page(), "run tools/alert_table.py"
