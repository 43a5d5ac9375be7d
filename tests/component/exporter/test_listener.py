"""Which socket comes out of a configured address, and which sentence where none does."""

from __future__ import annotations

import os
import socket

import pytest

from gpumond.errors import HostError
from gpumond.exporter.listener import listen


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


def can_connect(host, port):
    with socket.create_connection((host, port), timeout=5):
        return True


def test_an_empty_host_is_every_address():
    with listen("", 0) as sock:
        port = sock.getsockname()[1]
        assert can_connect("127.0.0.1", port)
        if has_ipv6():
            assert can_connect("::1", port)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_host_is_that_host(host):
    with listen(host, 0) as sock:
        assert can_connect(host, sock.getsockname()[1])


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_address():
    with listen("::1", 0) as sock:
        assert can_connect("::1", sock.getsockname()[1])


@pytest.mark.parametrize("host", ["", "127.0.0.1"])
def test_a_taken_port_names_who_has_it(host):
    with listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(HostError, match=f"cannot listen on .*:{port}: ") as caught:
            listen(host, port)
    assert f"(pid {os.getpid()}) listens on port {port}." in caught.value.hint


def test_a_port_that_is_bound_and_does_not_listen_yet():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        with pytest.raises(HostError) as caught:
            listen("127.0.0.1", port)
    assert f"Port {port} is in use." in caught.value.hint


@pytest.mark.parametrize(
    ("host", "word"), [("192.0.2.1", "No interface of this host"), ("no.such.host.invalid", "resolves")]
)
def test_an_address_that_is_not_ours(host, word):
    with pytest.raises(HostError, match=host) as caught:
        listen(host, 0)
    assert word in caught.value.hint


def test_answers_leave_at_once():
    """asyncio sets TCP_NODELAY only on a socket whose protocol is named; without it a kept connection waits 40 ms."""
    with listen("127.0.0.1", 0) as sock:
        assert sock.proto == socket.IPPROTO_TCP
