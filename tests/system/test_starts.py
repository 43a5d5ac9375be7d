"""How a daemon starts, and how it refuses to: one sentence, a hint, the documented exit code, nothing lost."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from daemon_process import wait_until

FORBIDDEN = ("pynvml", "amdsmi", "torch", "nccl")


def refusal(daemon):
    """Exit code and what was said, of a daemon that must not start."""
    daemon.launch()
    code = daemon.process.wait(60)
    lines = [line for line in daemon.log.read_text().splitlines() if not line.startswith("{")]
    assert "Traceback" not in daemon.log.read_text()
    return code, lines


def test_the_daemon_loads_no_gpu_library(write_config, daemons, two_h200):
    daemon = daemons(write_config(), two_h200).start()
    assert daemon.value("gpumond_gpus") == 2
    assert "libnvidia-ml" not in Path(f"/proc/{daemon.process.pid}/maps").read_text()
    script = "import json, sys, gpumond.daemon; print(json.dumps(sorted(sys.modules)))"
    modules = json.loads(
        subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    )
    assert [name for name in modules if name.split(".")[0] in FORBIDDEN] == []
    assert "gpumond.exporter.http" in modules


def test_it_starts_without_any_gpu_library_and_says_so(write_config, daemons):
    daemon = daemons(write_config()).start()
    assert daemon.value("gpumond_collector_success", collector="topology") == 0
    assert daemon.value("gpumond_gpus") in (None, 0)
    assert "LIBRARY_NOT_FOUND" in daemon.event("snapshot_failed")["detail"]
    assert daemon.terminate() == 0


def test_a_second_daemon_on_the_same_store_is_told_about_the_first(write_config, daemons, two_h200):
    config = write_config()
    first = daemons(config, two_h200).start()
    second = daemons(config.rename(config.with_name("second.toml")), two_h200)
    code, lines = refusal(second)
    assert code == 11
    assert f"pid {first.process.pid} (daemon, since" in lines[0]
    assert lines[1].startswith("hint: ")
    assert first.get("/-/ready")[0] == 200


def test_a_taken_port_is_named(write_config, daemons, two_h200):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = write_config()
        config.write_text(config.read_text().replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        code, lines = refusal(daemons(config, two_h200))
    assert code == 12
    assert f"cannot listen on 127.0.0.1:{port}" in lines[0]
    assert lines[1].startswith("hint: ")


def test_a_state_directory_that_cannot_be_made(write_config, daemons, tmp_path):
    (tmp_path / "file").write_text("")
    config = write_config()
    config.write_text(config.read_text().replace(f"{tmp_path}/state", f"{tmp_path}/file/state"))
    code, lines = refusal(daemons(config))
    assert code == 10
    assert f"{tmp_path}/file" in lines[0]
    assert lines[1].startswith("hint: ")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[web\n", "config.toml:1: not valid TOML"),
        ('[web]\nlisten_adress = ":1"\n', "did you mean listen_address?"),
        ('[simulate]\nscenario = "hgx-h300-8"\n', "hgx-h300-8"),
    ],
)
def test_a_wrong_configuration_is_not_worth_a_restart(tmp_path, daemons, text, says):
    config = tmp_path / "config.toml"
    config.write_text(text)
    code, lines = refusal(daemons(config))
    assert code == 2
    assert any(says in line for line in lines), lines


def test_a_configuration_that_is_not_there(tmp_path, daemons):
    daemon = daemons(tmp_path / "nowhere.toml")
    assert refusal(daemon)[0] == 2


def test_reload_takes_all_of_a_good_file_and_nothing_of_a_bad_one(write_config, daemons, two_h200):
    config = write_config('\n[[sweep]]\nname = "one"\n')
    daemon = daemons(config, two_h200).start()
    good = config.read_text()

    config.write_text(good + "\n[[sweep]]\nname = 7\n")
    daemon.hang_up()
    wait_until(lambda: daemon.value("gpumond_config_last_reload_successful") == 0, what="the failed reload")
    assert daemon.value("gpumond_sweep_interval_seconds", sweep="one") == 86400
    assert "name" in daemon.event("reload_failed")["error"]

    config.write_text(good.replace('"one"', '"two"').replace('interval = "1s"', 'interval = "2s"'))
    daemon.hang_up()
    wait_until(lambda: daemon.value("gpumond_sweep_interval_seconds", sweep="two"), what="the reload")
    assert daemon.value("gpumond_sweep_interval_seconds", sweep="one") is None
    assert daemon.value("gpumond_config_last_reload_successful") == 1
    wait_until(
        lambda: daemon.value("gpumond_collector_interval_seconds", collector="topology") == 2,
        what="the interval",
    )
    assert daemon.terminate() == 0


def test_ready_is_told_to_systemd_and_children_do_not_inherit_its_socket(
    write_config, daemons, two_h200, tmp_path
):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        systemd.settimeout(60)
        environment = two_h200 | {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000"}
        daemon = daemons(write_config(), environment).start()
        assert systemd.recv(4096).startswith(b"READY=1\nSTATUS=")
        assert systemd.recv(4096) == b"WATCHDOG=1"
        daemon.hang_up()
        said = b""
        while b"RELOADING=1" not in said:
            said = systemd.recv(4096)
        assert b"MONOTONIC_USEC=" in said
        assert daemon.terminate() == 0
        while b"STOPPING=1" not in said:
            said = systemd.recv(4096)
