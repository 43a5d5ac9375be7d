"""The HTTP server as a component of the daemon: a thread with an event loop of its own around uvicorn.

Owns the life of the listening socket, of the loop and of the rendering thread; each new connection follows the access
of the moment. Invariants: a port that cannot be had
raises from `start` and nothing is left behind; the server touches no signal handler; after `stop` no thread of it lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from starlette.concurrency import run_in_threadpool

from gpumond.board import StatusBoard
from gpumond.clock import Clock
from gpumond.errors import HostError
from gpumond.exporter.api import OpenHistory
from gpumond.exporter.app import Application
from gpumond.exporter.bodies import Bodies
from gpumond.exporter.connections import ConnectionLimits, GuardedProtocol, guarded_protocol
from gpumond.exporter.listener import BACKLOG, listen
from gpumond.exporter.metrics import Exposition
from gpumond.exporter.web.access import OPEN_ACCESS, WebAccess
from gpumond.exporter.web.gate import is_loopback
from gpumond.exporter.web.tls_protocol import Handshakes, TlsProtocol
from gpumond.log import get_logger

START_SECONDS_MAX = 10.0
STOP_SECONDS_MAX = 1
"""A running answer may still end; connections that wait are closed at once."""

_ABORT_SECONDS_MAX = 1
"""From the abort of a connection until everybody has heard of it."""

_TICK_SECONDS = 1.0
"""uvicorn's own loop wakes ten times a second for a date header that changes once."""


class HttpServer:
    """Serves the board's status on `host`:`port`; an empty host means every address, port 0 any free one."""

    def __init__(
        self,
        *,
        host: str,
        port: int,
        board: StatusBoard,
        clock: Clock,
        open_history: OpenHistory,
        access: WebAccess = OPEN_ACCESS,
        limits: ConnectionLimits | None = None,
        exposition: Exposition | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._limits = limits or ConnectionLimits()
        exposition = exposition or Exposition()
        self._bodies = Bodies(board, exposition)
        self._gate = Application(
            board=board,
            bodies=self._bodies,
            exposition=exposition,
            clock=clock,
            open_history=open_history,
            access=access,
        ).gate
        self._handshakes = Handshakes(
            seconds_max=self._limits.handshake_seconds, count_max=self._limits.handshakes
        )
        self._log = get_logger("http")
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; only between `start` and `stop`."""
        if self._socket is None:
            raise RuntimeError("the HTTP server is not started")
        host, port, *_ = self._socket.getsockname()
        return host, port

    @property
    def is_alive(self) -> bool:
        """Whether the thread that answers is there; what a watchdog asks."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Listen and answer. Raises HostError where the address cannot be had."""
        self._socket = listen(self._host, self._port)
        # uvicorn warns once for each request that is none: a port scan would fill the journal.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._server = _Server(self._config(), self._handshakes)
        self._thread = threading.Thread(
            target=self._serve, args=(self._server, self._socket), name="http", daemon=True
        )
        self._bodies.start()
        self._thread.start()
        if not self._server.is_up.wait(START_SECONDS_MAX) or not self.is_alive:
            self.stop()
            raise HostError(
                "the http server did not start", hint="The log says why; this is a fault of gpumond."
            )
        self._say_where_and_who()

    def configure(self, access: WebAccess) -> None:
        """From now on; connections that are there end after the answer that they wait for, and come again."""
        had_tls = self._gate.access.tls is not None
        self._gate.configure(access)
        if self._server is None:
            return
        self._server.end_connections()
        if had_tls:
            self._warn_of_strangers()

    def stop(self) -> None:
        """Stop listening, let running answers end, and return when no thread is left."""
        if self._server is not None:
            self._server.request_stop()
        if self._thread is not None:
            self._thread.join()
        self._bodies.stop()
        self._gate.close()
        if self._socket is not None:
            self._socket.close()

    def _say_where_and_who(self) -> None:
        host, port = self.address
        access = self._gate.access
        self._log.info(
            "http_listening", host=host, port=port, is_tls=access.tls is not None, users=len(access.users)
        )
        self._warn_of_strangers()

    def _warn_of_strangers(self) -> None:
        host, _ = self.address
        access = self._gate.access
        if access.tls is not None or is_loopback(host):
            return
        problem = (
            "passwords cross the network in plain text"
            if access.users
            else "whoever reaches the port reads everything but runs' environments"
        )
        self._log.warning(
            "http_without_tls",
            problem=problem,
            hint="Give it a web configuration file (--web.config.file), or listen on loopback.",
        )

    def _config(self) -> uvicorn.Config:
        return uvicorn.Config(
            self._gate,
            http=partial(self._make_protocol, guarded_protocol(self._limits)),  # type: ignore[arg-type] # any callable will do
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nobody may choose its own address by a header
            backlog=BACKLOG,
            timeout_keep_alive=self._limits.keep_alive_seconds,
            timeout_graceful_shutdown=STOP_SECONDS_MAX + _ABORT_SECONDS_MAX,
            h11_max_incomplete_event_size=self._limits.head_bytes,
        )

    def _make_protocol(self, http: type[GuardedProtocol], **arguments: Any) -> asyncio.Protocol:
        """What a new connection begins with."""
        tls = self._gate.access.tls
        if tls is None:
            return http(**arguments)
        return TlsProtocol(partial(http, **arguments), tls, self._handshakes)

    def _serve(self, server: _Server, sock: socket.socket) -> None:
        try:
            asyncio.run(server.serve(sockets=[sock]))
        except BaseException:  # noqa: BLE001 - the end of a thread: nobody else would hear of it
            self._log.exception("http_server_failed")
        finally:
            server.is_up.set()


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it is up and is stopped by an event instead of a flag that it polls."""

    def __init__(self, config: uvicorn.Config, handshakes: Handshakes) -> None:
        super().__init__(config)
        self._handshakes = handshakes
        self.is_up = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_requested = asyncio.Event()

    def request_stop(self) -> None:
        """From any thread."""
        self.should_exit = True
        self._call_soon(self._stop_requested.set)

    def end_connections(self) -> None:
        """From any thread: whoever is connected has to come again."""
        self._call_soon(self._end_connections)

    def _call_soon(self, do: Callable[[], None]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(do)

    def _end_connections(self) -> None:
        self._handshakes.end_all()
        for connection in list(self.server_state.connections):
            connection.shutdown()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._handshakes.end_all()
        # A client that does not answer the end of its TLS would hold us up, and uvicorn would call that an error.
        asyncio.get_running_loop().call_later(STOP_SECONDS_MAX, self._abort_connections)
        await super().shutdown(sockets)

    def _abort_connections(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        await run_in_threadpool(int)  # the first use imports a backend: no scrape shall wait for that
        await self.on_tick(0)
        self.is_up.set()
        while not self.should_exit:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop_requested.wait(), _TICK_SECONDS)
            await self.on_tick(0)
