"""`gpumond run`: what makes a start impossible is told to systemd, too, for `systemctl status`."""

from __future__ import annotations

import socket

import pytest

from gpumond.cli.main import main


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    """The socket that systemd listens on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield channel


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (None, 2, "config.toml: no such file"),
        ("[web\n", 2, "config.toml:1: not valid TOML"),
        ("[web]\nport = 1\n[stor]\n", 2, "config.toml:2: web.port: "),
        ('[store]\ndirectory = "/proc/nowhere"\n', 10, "cannot make the state directory /proc/nowhere"),
    ],
)
def test_the_first_line_of_the_reason_is_its_status(tmp_path, systemd, text, code, says):
    if text is not None:
        (tmp_path / "config.toml").write_text(text)
    assert main(["run", "--config", str(tmp_path / "config.toml")]) == code
    said = systemd.recv(4096).decode()
    assert said.startswith("STATUS=cannot run: ")
    assert says in said
    assert "\n" not in said
