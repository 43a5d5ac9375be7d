"""The dashboards: as the tool writes them, and by the rules of Grafana's dashboard-linter, which is not to be had here."""

import json
import re
from pathlib import Path

import alert_table
import dashboards
import pytest
import yaml
from boards.panels import in_sight
from boards.queries import LARGE, RATIO_STEPS
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from gpumond.exporter.catalogue import AT_SCRAPE, STEADY

pytestmark = pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")

GRAFANA = Path(__file__).parents[3] / "deploy/grafana"
FILES = sorted((GRAFANA / "dashboards").glob("*.json"))
BOARDS = {path.stem: json.loads(path.read_text()) for path in FILES}
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SELECTED = ['cluster=~"$cluster"', 'job=~"$job"', 'instance=~"$instance"']

OF_PROMETHEUS = {"scrape_samples_post_metric_relabeling", "ALERTS", *alert_table.OF_PROMETHEUS}
LABELS = {family.name: family.labels for family in (*STEADY, *AT_SCRAPE)}
HISTOGRAM = re.compile(r"_(?:bucket|sum|count)$")

every_board = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)


def panels(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def targets():
    for board in BOARDS.values():
        for panel in panels(board):
            for target in panel["targets"]:
                yield panel, target


def selectors(expression):
    """(metric, matchers) of every vector of an expression."""
    return re.findall(r"\b(gpumond_\w+|process_\w+|scrape_\w+|up|ALERTS)\{([^}]*)\}", expression)


def test_the_committed_files_are_what_the_tool_writes():
    rendered = dashboards.render()
    assert sorted(rendered) == FILES
    for path, text in rendered.items():
        assert path.read_text() == text, "run tools/dashboards.py"


@every_board
def test_grafanas_own_types_read_it_and_write_the_same(board):
    again = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
    assert in_sight(again) == board


@every_board
def test_a_board_cannot_be_edited_and_is_found_by_its_name(board):
    assert board["editable"] is False
    assert board["uid"] in BOARDS
    assert board["tags"] == ["gpumond"]
    assert board["description"]
    assert [annotation["name"] for annotation in board["annotations"]["list"]] == [
        "Topology changes",
        "Driver upgrades",
    ]


@every_board
def test_variables_select_the_source_and_the_hosts(board):
    source, *others = board["templating"]["list"]
    assert (source["name"], source["label"], source["query"]) == ("datasource", "Data source", "prometheus")
    assert [variable["name"] for variable in others[:3]] == ["cluster", "job", "instance"]
    for variable in others:
        assert variable["label"]
        assert variable["datasource"] == DATASOURCE
        assert variable["multi"]
        assert variable["includeAll"]
        # A label that no series has is empty: only `cluster` may be missing.
        assert variable["allValue"] == (".*" if variable["name"] == "cluster" else ".+")
        assert variable["refresh"] == 2, "on time range change"
        assert re.fullmatch(rf"label_values\(.+, {variable['name']}\)", variable["query"]["query"])


@every_board
def test_a_panel_says_what_it_shows_in_which_unit(board):
    for panel in panels(board):
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["datasource"] == DATASOURCE
        assert panel["targets"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters))
    titles = [panel["title"] for panel in panels(board)]
    assert len(titles) == len(set(titles))


@every_board
def test_panels_fill_the_grid_and_do_not_overlap(board):
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        area = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not area & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= area
    assert len(taken) == 24 * (1 + max(y for _, y in taken)), "a hole in the grid"


def test_every_query_selects_the_chosen_hosts_and_nothing_that_is_not_there():
    for panel, target in targets():
        found = selectors(target["expr"])
        assert found, panel["title"]
        for metric, matchers in found:
            chosen = [matcher for matcher in SELECTED if matcher in matchers]
            assert chosen == SELECTED, f"{panel['title']}: {metric}"
            base = metric if metric in LABELS else HISTOGRAM.sub("", metric)
            assert base in alert_table.SOURCES or base in OF_PROMETHEUS, f"{panel['title']}: {metric}"
            labels = set(re.findall(r"(\w+)\s*=~?", matchers)) - {"cluster", "job", "instance"}
            if base in LABELS:
                assert labels <= {*LABELS[base], "le"}, f"{panel['title']}: {metric}"


def test_rates_follow_the_scrape_interval_and_are_summed_by_host():
    for panel, target in targets():
        expression = target["expr"]
        for function, window in re.findall(r"\b(rate|increase|irate|changes)\([^[]*\[([^]]*)\]", expression):
            assert window == "$__rate_interval", f"{panel['title']}: {function}"
        if "rate(" in expression:
            assert re.search(r"\b(sum|max|avg) by \(instance", expression), panel["title"]


def test_every_variable_that_a_query_uses_is_defined():
    for board in BOARDS.values():
        defined = {variable["name"] for variable in board["templating"]["list"]}
        for panel in panels(board):
            for target in panel["targets"]:
                used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
                assert used <= defined, panel["title"]


def test_links_lead_to_boards_that_exist_and_choose_variables_that_they_have():
    seen = set()
    for text in (path.read_text() for path in FILES):
        for uid, query in re.findall(r'"url": "/d/([\w-]+)\?([^"]*)"', text):
            defined = {variable["name"] for variable in BOARDS[uid]["templating"]["list"]}
            assert set(re.findall(r"var-(\w+)=", query)) <= defined
            seen.add(uid)
    assert seen == {"gpumond-host", "gpumond-sweep"}


def test_a_bandwidth_axis_begins_at_zero():
    bandwidth = [
        panel for panel, _ in targets() if panel["fieldConfig"]["defaults"]["unit"] in ("Bps", "bytes")
    ]
    assert bandwidth
    assert all(panel["fieldConfig"]["defaults"]["min"] == 0 for panel in bandwidth)


def test_thresholds_are_those_of_the_alerts():
    (outlier,) = [
        rule
        for path in alert_table.RULE_FILES
        for rule in alert_table.read_rules(path)
        if rule.get("alert") == "GpumondFleetOutlier"
    ]
    assert f"< {RATIO_STEPS[-1][0]}" in outlier["expr"]
    recorded = [rule for rule in alert_table.read_rules(alert_table.RULE_FILES[0]) if "record" in rule]
    assert any(LARGE in rule["expr"] for rule in recorded)


def test_provisioning_finds_the_files():
    provider = yaml.safe_load((GRAFANA / "provisioning/dashboards/gpumond.yml").read_text())["providers"][0]
    assert (provider["type"], provider["allowUiUpdates"]) == ("file", False)
    source = yaml.safe_load((GRAFANA / "provisioning/datasources/gpumond.yml").read_text())["datasources"][0]
    assert (source["type"], source["access"], source["editable"]) == ("prometheus", "proxy", False)
