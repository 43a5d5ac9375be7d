"""The notifications reach a socket as systemd makes it, and nothing is left for children."""

import os
import socket

from gpumond.systemd import Notifier


def test_sends_to_the_socket_and_hides_the_variables_from_children(tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(path))
        environment = {
            "NOTIFY_SOCKET": str(path),
            "WATCHDOG_USEC": "60000000",
            "WATCHDOG_PID": str(os.getpid()),
        }
        notifier = Notifier(environment)
        notifier.send("READY=1", "STATUS=watching 2 GPUs")
        assert systemd.recv(4096) == b"READY=1\nSTATUS=watching 2 GPUs"
    assert notifier.watchdog_seconds == 60.0
    assert environment == {}


def test_abstract_sockets_are_addressed_by_their_name():
    name = f"gpumond-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("\0" + name)
        Notifier({"NOTIFY_SOCKET": "@" + name}).send("WATCHDOG=1")
        assert systemd.recv(64) == b"WATCHDOG=1"


def test_a_watchdog_of_another_process_is_not_ours():
    assert (
        Notifier({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}).watchdog_seconds
        is None
    )


def test_without_systemd_nothing_happens(tmp_path):
    assert not Notifier({}).is_enabled
    Notifier({}).send("READY=1")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).send("READY=1")
