"""Clients that hold a connection and give nothing (reference 1.4): good scrapes go on, and the bad ones are cut.

Each case is held to a deadline that is short by parameter; the production values are minutes in sum.
"""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import replace

import pytest
import status as fakes

HEAD_SECONDS = 0.4
ANSWER_SECONDS = 1.5  # longer than it takes to make the largest answer here
CUT_SECONDS_MAX = 5.0  # the machine may be busy; uncut connections stay for 75 s
LARGER_THAN_SOCKET_BUFFERS = 16 << 20  # tcp_wmem and tcp_rmem allow 4 MiB and 6 MiB
HALF_HEAD = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: "


@pytest.fixture(scope="module")
def served(serve_all):
    return serve_all(head_seconds=HEAD_SECONDS, answer_seconds=HEAD_SECONDS, connections=16, head_bytes=8192)


@pytest.fixture
def open_socket(served):
    """`open_socket(first bytes)` -> a connected socket; all are closed at the end."""
    sockets = []

    def connect(data=b""):
        sock = socket.create_connection(("127.0.0.1", served.port), timeout=CUT_SECONDS_MAX)
        sockets.append(sock)
        if data:
            sock.sendall(data)
        return sock

    yield connect
    for sock in sockets:
        sock.close()


def read_to_end(sock):
    """What the server still sends until it closes or cuts; fails with TimeoutError if it does neither."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while chunk := sock.recv(65536):
            data += chunk
    return data


def assert_good_scrapes(served, count=5):
    for _ in range(count):
        assert served.ask("/metrics").code == 200


@pytest.mark.parametrize("data", [b"", b"G", HALF_HEAD, b"GET /metrics HTTP/1.1\r\n"], ids=repr)
def test_a_client_that_does_not_finish_its_request_is_cut(served, open_socket, data):
    sock = open_socket(data)
    assert_good_scrapes(served)
    assert read_to_end(sock) == b""


def drop_until_cut(sock):
    """Seconds until a client that sends a byte now and then is cut."""
    began = time.monotonic()
    with contextlib.suppress(ConnectionError):
        while time.monotonic() - began < CUT_SECONDS_MAX:
            sock.sendall(b"x")
            time.sleep(0.05)
    return time.monotonic() - began


def test_a_head_in_drops_is_cut_at_the_same_deadline(served, open_socket):
    sock = open_socket(HALF_HEAD)
    assert drop_until_cut(sock) < CUT_SECONDS_MAX
    assert_good_scrapes(served)


def test_half_a_head_behind_a_whole_request_is_cut(served, open_socket):
    sock = open_socket(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n" + HALF_HEAD)
    assert b"gpumond is healthy." in read_to_end(sock)


def test_a_body_that_never_comes_is_cut(served, open_socket):
    sock = open_socket(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n")
    sock.sendall(b"a part")
    assert_good_scrapes(served)
    assert b"200 OK" in read_to_end(sock)


def test_300_idle_connections_do_not_keep_a_scrape_out(served, open_socket):
    idle = [open_socket(HALF_HEAD if number % 2 else b"") for number in range(300)]
    assert_good_scrapes(served, 20)
    for sock in idle:
        assert read_to_end(sock) == b""


def test_the_oldest_waiting_connection_makes_room(serve):
    served = serve(connections=4)  # and production deadlines: only the cap can close one here
    waiting = [
        socket.create_connection(("127.0.0.1", served.port), timeout=CUT_SECONDS_MAX) for _ in range(4)
    ]
    assert served.ask().code == 200
    assert read_to_end(waiting[0]) == b""
    for sock in waiting[1:]:
        sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.close()
    waiting[0].close()


def test_a_client_that_never_reads_is_cut(serve):
    served = serve(fakes.eight_gpu_status(), answer_seconds=HEAD_SECONDS)
    with socket.create_connection(("127.0.0.1", served.port), timeout=CUT_SECONDS_MAX) as sock:
        # More than the socket buffers of both sides take: the answers stay in the server's memory.
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
        time.sleep(HEAD_SECONDS + 0.6)
        assert_good_scrapes(served)
        assert len(read_to_end(sock)) < 200 * 290_000


def test_an_answer_that_is_written_and_not_taken_is_dropped(serve):
    """The answer counts as complete when it is in the transport's buffer; close() would wait for it for ever."""
    status = fakes.two_gpu_status()
    long = replace(status.collectors[0], detail="x" * LARGER_THAN_SOCKET_BUFFERS)
    served = serve(replace(status, collectors=(long,)), answer_seconds=ANSWER_SECONDS)
    with socket.create_connection(("127.0.0.1", served.port), timeout=CUT_SECONDS_MAX) as sock:
        sock.sendall(b"GET /api/v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
        assert sock.recv(1) == b"H"  # it is written now
        time.sleep(ANSWER_SECONDS + 0.5)
        assert_good_scrapes(served)
        assert len(read_to_end(sock)) < LARGER_THAN_SOCKET_BUFFERS


@pytest.mark.parametrize(
    "data",
    [
        b"GET /metrics\r\n\r\n",  # HTTP/0.9
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n",  # a TLS hello
        b"\x00\xff" * 400 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",  # no Host
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000,
        b"GET /" + b"a" * 100_000,
    ],
    ids=["http-0.9", "tls", "binary", "no-host", "huge-header", "huge-path"],
)
def test_garbage_is_refused_and_the_connection_closed(served, open_socket, data):
    sock = open_socket()
    with contextlib.suppress(ConnectionError):
        sock.sendall(data)
    answer = read_to_end(sock)
    assert answer == b"" or b" 400 " in answer.partition(b"\r\n")[0]
    assert_good_scrapes(served)


class TestGoodClientsAreNotCut:
    def test_under_keep_alive_load_longer_than_the_deadline_of_a_head(self, served, keep_alive):
        connection = served.connect()
        connection.connect()
        sock = connection.sock
        began = time.monotonic()
        while time.monotonic() - began < 3 * HEAD_SECONDS:
            assert keep_alive(connection).code == 200
            assert connection.sock is sock  # http.client drops it when the server closes
        connection.close()

    def test_between_two_scrapes(self, served, keep_alive):
        connection = served.connect()
        connection.connect()
        sock = connection.sock
        for _ in range(3):
            assert keep_alive(connection).code == 200
            assert connection.sock is sock
            time.sleep(HEAD_SECONDS * 1.5)
        connection.close()
