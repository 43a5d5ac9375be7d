"""What deploy/ ships, as it is or made hasty for a test, and the ways in which an operator uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = sorted((DEPLOY / "prometheus").glob("*.rules.yml"))
ALERTMANAGER = DEPLOY / "alertmanager/alertmanager.yml"
RELEASES = {
    "installed": Path("/usr/bin"),
    "trixie": Path("/var/cache/gpumond-tests/trixie/root/usr/bin"),
}
"""Where the programs are, by the release of Debian that they are from."""


def shipped_alertmanager(port):
    """As shipped, but it waits for nothing and sends to `port`."""
    config = yaml.safe_load(ALERTMANAGER.read_text())
    for route in (config["route"], *config["route"]["routes"]):
        route |= {"group_wait": "0s", "group_interval": "1s"}
    for receiver in config["receivers"]:
        for hook in receiver.get("webhook_configs", []):
            hook["url"] = hook["url"].replace(":9911", f":{port}")
    return config


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


def scraping(daemon, **more):
    """A configuration that scrapes `daemon` each second."""
    job = {"job_name": "gpumond", "static_configs": [{"targets": [f"127.0.0.1:{daemon.port}"]}], **more}
    return {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "scrape_configs": [job]}


def measure(config, sweep="nightly", *options):
    """As a person would: the daemon measures, the command follows."""
    command = [sys.executable, "-m", "gpumond", "sweep", "--config", str(config), "--quiet", *options, sweep]
    return subprocess.run(command, capture_output=True, text=True, check=False)
