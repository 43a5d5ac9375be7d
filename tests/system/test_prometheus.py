"""A real Prometheus scrapes a real daemon."""

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request

import pytest
from daemon_process import wait_until

pytestmark = pytest.mark.system

SWEEP = """
[simulate]
scenario = "hgx-h200-8"
pace = 100.0

[[sweep]]
name = "nightly"
run_at_start = true
"""


@pytest.fixture
def simulated(write_config, daemons):
    daemon = daemons(write_config(SWEEP)).start()
    wait_until(
        lambda: daemon.value("gpumond_sweep_runs_total", sweep="nightly") == 1, seconds=90, what="the sweep"
    )
    return daemon


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def prometheus(simulated, tmp_path):
    """`query(expression)` -> the result of an instant query at a Prometheus that scrapes the daemon."""
    config = tmp_path / "prometheus.yml"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s"},
                "scrape_configs": [
                    {
                        "job_name": "gpumond",
                        "sample_limit": 10000,
                        "static_configs": [{"targets": [f"127.0.0.1:{simulated.port}"]}],
                    }
                ],
            }
        )
    )
    port = free_port()
    with (tmp_path / "prometheus.log").open("wb") as log:
        server = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )

    def query(expression):
        text = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{text}", timeout=10) as answer:
            return json.load(answer)["data"]["result"]

    def is_up():
        try:
            return [sample["value"][1] for sample in query("up")] == ["1"]
        except OSError:
            return False

    wait_until(is_up, seconds=60, what="the first scrape")
    yield query
    server.terminate()
    server.wait(30)


def test_prometheus_takes_every_series_and_they_survive_a_restart_of_the_daemon(prometheus, simulated):
    count = float(prometheus("scrape_samples_post_metric_relabeling")[0]["value"][1])
    # The process metrics of prometheus_client are there too, so the daemon's own view is compared.
    assert count == len(simulated.samples())
    busbw = prometheus(
        'gpumond_collective_busbw_bytes_per_second{collective="all_reduce",size_bytes="2147483648"}'
    )
    assert 440e9 < float(busbw[0]["value"][1]) < 490e9
    assert prometheus("gpumond_simulated")[0]["value"][1] == "1"
    assert len(prometheus("gpumond_gpu_present == 1")) == 8
    skew = float(prometheus("gpumond_time_seconds - timestamp(gpumond_time_seconds)")[0]["value"][1])
    assert abs(skew) < 1


def test_promtool_finds_nothing_to_say(simulated):
    _, text = simulated.get("/metrics")
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_two_scrapes_a_second_apart_tell_the_time(simulated):
    first = simulated.value("gpumond_time_seconds")
    time.sleep(1)
    assert 0.9 < simulated.value("gpumond_time_seconds") - first < 3
