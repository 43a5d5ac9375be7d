"""A daemon that opens no port, and a real node_exporter that shows its metrics beside its own."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from daemon_process import wait_until

pytestmark = pytest.mark.system

NODE_EXPORTER = "prometheus-node-exporter"


@pytest.fixture
def node_exporter(tmp_path):
    """`node_exporter()` -> the text of one scrape of it."""
    assert shutil.which(NODE_EXPORTER), "tests/system/install-packages installs it"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            NODE_EXPORTER,
            f"--web.listen-address=127.0.0.1:{port}",
            "--collector.disable-defaults",
            "--collector.textfile",
            f"--collector.textfile.directory={tmp_path}",
        ],
        user="nobody",
    )

    def scrape():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                return answer.read().decode()
        except urllib.error.URLError:
            return ""

    wait_until(scrape, what="node_exporter")
    yield scrape
    process.terminate()
    process.wait(10)


def listening_ports(pid):
    inodes = {
        link.readlink().name.removeprefix("socket:[").rstrip("]")
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if "socket:" in str(link.readlink())
    }
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return [line[1] for line in lines if line[3] == "0A" and line[9] in inodes]


def test_node_exporter_shows_a_daemon_without_a_port(
    tmp_path, write_config, daemons, two_h200, node_exporter
):
    for directory in (tmp_path, *tmp_path.parents[:2]):
        directory.chmod(0o755)  # pytest's own are closed to others
    config = write_config(f'\n[textfile]\nfile = "{tmp_path}/gpumond.prom"\ninterval = "1s"\n')
    config.write_text(config.read_text().replace("[web]", "[web]\nenabled = false"))
    daemon = daemons(config, two_h200)
    daemon.launch()
    wait_until(lambda: daemon.event("daemon_ready"), seconds=60, what="the daemon")
    assert daemon.event("daemon_ready")["outlets"] == f"writing {tmp_path}/gpumond.prom"
    assert listening_ports(daemon.process.pid) == []

    text = wait_until(lambda: "gpumond_gpus 2" in (said := node_exporter()) and said, what="the metrics")
    assert "node_textfile_scrape_error 0" in text
    assert f'node_textfile_mtime_seconds{{file="{tmp_path}/gpumond.prom"}}' in text
    first = float(text.split("\ngpumond_time_seconds ")[1].split("\n")[0])
    assert abs(first - time.time()) < 30
    wait_until(
        lambda: float(node_exporter().split("\ngpumond_time_seconds ")[1].split("\n")[0]) > first,
        what="a newer file",
    )

    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(30) == 0
    assert "gpumond_gpus" not in node_exporter()
