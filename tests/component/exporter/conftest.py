"""A real HttpServer on a free port of loopback, and clients from the standard library."""

from __future__ import annotations

import contextlib
import http.client
import ssl
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
import status as fakes
import web_access

from gpumond.board import StatusBoard
from gpumond.errors import StoreError, StoreErrorKind
from gpumond.exporter.connections import ConnectionLimits
from gpumond.exporter.http import HttpServer
from gpumond.exporter.web.access import OPEN_ACCESS


class HandClock:
    """Stands still until a test moves it."""

    def __init__(self):
        self.at = fakes.NOW
        self.seconds = 0.0

    def now(self):
        return self.at

    def monotonic(self):
        return self.seconds

    def sleep(self, seconds):
        self.at += timedelta(seconds=seconds)
        self.seconds += seconds


@dataclass
class Answer:
    code: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self):
        return self.body.decode()


@dataclass
class Served:
    """A running server with what a test changes about it."""

    server: HttpServer
    board: StatusBoard
    clock: HandClock
    client: ssl.SSLContext | None = None
    """How a client connects; None is plain text."""

    @property
    def port(self):
        return self.server.address[1]

    def connect(self, timeout=10):
        if self.client is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.client)

    def ask(self, path="/metrics", method="GET", **headers):
        connection = self.connect()
        try:
            return ask_on(connection, path, method, **headers)
        finally:
            connection.close()

    def change(self, **changes):
        self.board.update(lambda status: replace(status, **changes))


def ask_on(connection, path="/metrics", method="GET", **headers):
    connection.request(
        method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    response = connection.getresponse()
    return Answer(response.status, response.headers, response.read())


def no_history():
    """For those who ask for nothing of it."""
    raise StoreError("there is no history", kind=StoreErrorKind.UNAVAILABLE, hint="Start the daemon.")


@contextlib.contextmanager
def serving():
    """`start(status, access=..., **limits)` -> Served; every server is stopped at the end."""
    running = []

    def start(status=None, *, access=OPEN_ACCESS, open_history=no_history, host="127.0.0.1", **limits):
        board, clock = StatusBoard(status or fakes.two_gpu_status()), HandClock()
        server = HttpServer(
            host=host,
            port=0,
            board=board,
            clock=clock,
            open_history=open_history,
            access=access,
            limits=ConnectionLimits(**limits),
        )
        server.start()
        running.append(server)
        return Served(server, board, clock, web_access.client() if access.tls else None)

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def serve():
    with serving() as start:
        yield start


@pytest.fixture(scope="module")
def serve_all():
    """The same for servers that several tests of a module share: starting and stopping one takes 0.3 s."""
    with serving() as start:
        yield start


@pytest.fixture
def keep_alive():
    """One request on a connection that stays open: `keep_alive(connection, path)` -> Answer."""
    return ask_on
