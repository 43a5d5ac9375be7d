"""Writes the table of docs/alerts.md: which metrics an alert reads, and which code produces them.

Made from the rules and the catalogue of metrics, so that neither can be renamed alone; a test holds the page equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from gpumond.exporter.catalogue import AT_SCRAPE, PROCESS, STEADY

ROOT = Path(__file__).resolve().parent.parent
RULE_FILES = (
    ROOT / "deploy/prometheus/gpumond.rules.yml",
    ROOT / "deploy/prometheus/gpumond-hardware.rules.yml",
)
PAGE = ROOT / "docs/alerts.md"
BEGIN = "<!-- written by tools/alert_table.py -->\n"
END = "<!-- end -->\n"

# What Prometheus itself knows about a scrape.
OF_PROMETHEUS = {"up": "Prometheus", "scrape_duration_seconds": "Prometheus"}
OF_PROCESS = dict.fromkeys(PROCESS, "prometheus_client")
OF_GPUMOND = {family.name: f"`{family.read_by}`" for family in STEADY}
OF_GPUMOND |= {family.name: f"`{family.read_by}`" for family in AT_SCRAPE}
SOURCES = {**OF_PROMETHEUS, **OF_PROCESS, **OF_GPUMOND}

_RECORDED = re.compile(r"\bgpumond:[\w:]+")
_METRIC = re.compile(r"\b(?:gpumond_\w+|process_\w+|scrape_\w+|up)\b")
_SILENCED = "gpumond_simulated"
"""In nearly every rule, only to keep made-up hosts quiet: said once on the page."""


def read_rules(path: Path) -> list[dict[str, Any]]:
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def metrics_of(expression: str, recorded: dict[str, str]) -> list[str]:
    """The metrics that an expression reads in the end, in the order of their first mention."""
    # What stands in quotes are label values.
    text = re.sub(r'"[^"]*"', '""', expression)
    found: dict[str, None] = {}
    for name in re.findall(rf"{_RECORDED.pattern}|{_METRIC.pattern}", text):
        names = metrics_of(recorded[name], recorded) if name in recorded else [name]
        found |= dict.fromkeys(names)
    return list(found)


def table() -> str:
    lines = ["| alert | severity | reads | from |", "| --- | --- | --- | --- |"]
    for path in RULE_FILES:
        rules = read_rules(path)
        recorded = {rule["record"]: rule["expr"] for rule in rules if "record" in rule}
        lines += _rows([rule for rule in rules if "alert" in rule], recorded)
    return "\n".join((*lines, ""))


def _rows(alerts: list[dict[str, Any]], recorded: dict[str, str]) -> Iterator[str]:
    for name in dict.fromkeys(alert["alert"] for alert in alerts):
        of_name = [alert for alert in alerts if alert["alert"] == name]
        severities = " or ".join(_severity(alert["labels"]["severity"]) for alert in of_name)
        metrics = dict.fromkeys(
            metric
            for alert in of_name
            for metric in metrics_of(alert["expr"], recorded)
            if metric != _SILENCED
        )
        sources = dict.fromkeys(SOURCES[metric] for metric in metrics)
        reads = ", ".join(f"`{metric}`" for metric in metrics) or "nothing"
        yield f"| [{name}](runbooks/{name}.md) | {severities} | {reads} | {', '.join(sources) or 'Prometheus'} |"


def _severity(text: str) -> str:
    return "that of the finding" if "$labels.level" in text else text


def page() -> str:
    """docs/alerts.md with the table of today."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
