"""Sixty nights of twelve hosts: what alerts is what the judge has found, and the one that was slow from its birth.

The nights are judged by the judge itself, exported by the exporter, and alerted on by the rules as shipped. A night takes
two hours here, in steps of twenty minutes: longer than any `for` and `keep_firing_for` of these rules, so that each night
is looked at when everything has settled.
"""

import contextlib
import io
import json
import shutil
import statistics
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from history_values import StandingClock
from nightly_history import Host

from gpumond.cli.main import main
from gpumond.codec import decode
from gpumond.exporter.operation import findings
from gpumond.judge.history import _parse
from gpumond.judge.night import judge_night
from gpumond.model.baseline import ScopeMemory
from gpumond.model.finding import FindingKind, FindingsDocument
from gpumond.model.status import HostStatus
from gpumond.store.records import JudgeRecord
from gpumond.store.sqlite import Store

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

RULES = Path(__file__).parents[2] / "deploy/prometheus/gpumond.rules.yml"
NIGHTS = 60
STEP_MINUTES = 20
STEPS = 6
"""Of a night."""
SIZE = 2 << 30

ALERT_OF = {
    FindingKind.STEP: "GpumondBusbwDegraded",
    FindingKind.DRIFT: "GpumondBusbwDrift",
    FindingKind.PROVISIONAL: "GpumondBusbwProvisional",
    FindingKind.TRANSPORT_CHANGE: "GpumondTransportFallback",
}
FLEET = "GpumondFleetOutlier"
POINT = {
    "sweep": "nightly",
    "engine": "nccl-tests",
    "gpu_set": "all",
    "collective": "all_reduce",
    "datatype": "float",
    "size_bytes": str(SIZE),
}
NODE = {"gpu_model": "NVIDIA H100", "gpu_count": "8"}


def drifting(night):
    """0.05 % a night from night 30 on: never as far from its equals that the fleet would notice."""
    return 1 - 0.0005 * max(0, night - 30)


def stepped(night):
    return 0.94 if night >= 40 else 1.0


def outlying(_night):
    return 0.90


def healthy(_night):
    return 1.0


FACTORS = {"drifting": drifting, "stepped": stepped, "outlying": outlying} | {
    f"healthy-{number}": healthy for number in range(1, 10)
}


def nights_of(seed, factor):
    """What one host measures: a line a night."""
    host = Host(seed=seed)
    return [host.line(night, factor=factor(night)) for night in range(NIGHTS)]


def open_findings(lines, directory):
    """What `gpumond findings --json` prints after each night, which is judged and stored as the daemon does."""
    directory.mkdir()
    config = directory / "config.toml"
    config.write_text(f'[store]\ndirectory = "{directory}/state"\n')
    memory = ScopeMemory()
    with Store.open(directory / "state", clock=StandingClock()) as store:
        for number, line in enumerate(lines, start=1):
            night = _parse(number, json.dumps(line)).observation
            result = judge_night(memory, night.scope, [night])
            record = JudgeRecord(number, memory, result.memory)
            store.record_judgement(night.scope, record, verdicts={}, remarks={}, findings=result.findings)
            memory = result.memory
            yield printed_findings(config)


def printed_findings(config):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main(["findings", "--json", "--config", str(config)])
    return decode(FindingsDocument, printed.getvalue()).findings


def busbw(line):
    (row,) = [row for row in line["rows"] if row["bytes"] == SIZE]
    return row["out_of_place"]["busbw_gbps"] * 1e9


def outliers(of_night):
    """The hosts that the fleet disowns in one night, told without PromQL."""
    median = statistics.median(of_night.values())
    spread = statistics.median(abs(value - median) for value in of_night.values())
    return {
        name
        for name, value in of_night.items()
        if value / median < 0.95 and value < median - 5 * 1.4826 * spread
    }


def series(name, labels, values):
    """One value a night, held through its steps."""
    text = ", ".join(f'{key}="{value}"' for key, value in labels.items())
    return {
        "series": f"{name}{{{text}}}",
        "values": " ".join(f"{value!r}x{STEPS - 1}" for value in values),
    }


def exported(status_findings):
    """The exporter's samples of each night, as one list of values a label set."""
    status = HostStatus(version="test", started_at=datetime(2026, 1, 1, tzinfo=UTC))
    nights = [
        dict(findings(HostStatus(status.version, status.started_at, findings=found)))
        for found in status_findings
    ]
    labels = sorted({label for night in nights for label in night})
    return {label: [float(night.get(label, 0)) for night in nights] for label in labels}


def test_alerts_are_what_the_judge_has_found(tmp_path):
    lines = {name: nights_of(seed, factor) for seed, (name, factor) in enumerate(FACTORS.items(), start=1)}
    found = {name: list(open_findings(of_host, tmp_path / name)) for name, of_host in lines.items()}
    inputs = []
    for name, of_host in lines.items():
        target = {"job": "gpumond", "instance": name}
        inputs.append(series("gpumond_node_info", target | NODE, [1] * NIGHTS))
        values = [busbw(line) for line in of_host]
        inputs.append(series("gpumond_collective_busbw_bytes_per_second", target | POINT, values))
        for (kind, level), counts in exported(found[name]).items():
            inputs.append(series("gpumond_finding", target | {"kind": kind, "level": level}, counts))

    expected = []
    for night in range(NIGHTS):
        firing = {
            (ALERT_OF[finding.kind], name, finding.level.value)
            for name in lines
            for finding in found[name][night]
            if finding.kind in ALERT_OF
        }
        firing |= {
            (FLEET, name, "warning") for name in outliers({name: busbw(lines[name][night]) for name in lines})
        }
        expected.append(firing)

    # The test would prove nothing if the nights were all quiet, or all the same.
    alerting = [{name for _, name, _ in firing} for firing in expected]
    assert alerting[0] == alerting[29] == {"outlying"}
    assert alerting[-1] == {"drifting", "stepped", "outlying"}
    assert {alert for firing in expected for alert, _, _ in firing} >= {
        "GpumondBusbwDegraded",
        "GpumondBusbwDrift",
        FLEET,
    }

    shutil.copy(RULES, tmp_path)
    names = "|".join([*ALERT_OF.values(), FLEET])
    query = f'sum by (alertname, instance, severity) (ALERTS{{alertname=~"{names}", alertstate="firing"}})'
    document = {
        "rule_files": [RULES.name],
        "evaluation_interval": f"{STEP_MINUTES}m",
        "tests": [
            {
                "interval": f"{STEP_MINUTES}m",
                "input_series": inputs,
                "promql_expr_test": [
                    {
                        "expr": query,
                        "eval_time": f"{(night * STEPS + STEPS - 1) * STEP_MINUTES}m",
                        "exp_samples": [
                            {
                                "labels": f'{{alertname="{alert}", instance="{name}", severity="{severity}"}}',
                                "value": 1,
                            }
                            for alert, name, severity in sorted(firing)
                        ],
                    }
                    for night, firing in enumerate(expected)
                ],
            }
        ],
    }
    (tmp_path / "nights.yml").write_text(json.dumps(document))
    tested = subprocess.run(
        ["promtool", "test", "rules", "nights.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stdout[-5000:] + tested.stderr[-2000:]
