"""The first protocol of a connection that becomes TLS: handshakes with a deadline and a cap, then HTTP.

Why not the TLS of `create_server`: a silent connection would count nowhere until its handshake ends and cost 256 KiB of
buffers meanwhile (900 of them 310 MB, observability.md 1.4), and a renewed certificate would need a new server. Here
every connection gets the context of the moment, and when too many shake hands, the oldest is dropped: a scrape needs
milliseconds for that.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable

from gpumond.exporter.web.access import TlsAccess

MakeHttp = Callable[[], asyncio.Protocol]


class Handshakes:
    """Those that are under way, oldest first. On the event loop only."""

    def __init__(self, *, seconds_max: float, count_max: int) -> None:
        self.seconds_max = seconds_max
        self._count_max = count_max
        self._under_way: dict[asyncio.Task[None], asyncio.Transport] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, task: asyncio.Task[None], transport: asyncio.Transport) -> None:
        self._under_way[task] = transport
        task.add_done_callback(lambda done: self._under_way.pop(done, None))
        if len(self._under_way) > self._count_max:
            self._end(next(iter(self._under_way)))

    def end_all(self) -> None:
        for task in list(self._under_way):
            self._end(task)

    def _end(self, task: asyncio.Task[None]) -> None:
        # A task that is cancelled before its first step could not close anything itself.
        self._under_way.pop(task).abort()
        task.cancel()


class TlsProtocol(asyncio.Protocol):
    """Shakes hands, then hands over to the HTTP protocol that `make_http` makes."""

    def __init__(self, make_http: MakeHttp, access: TlsAccess, handshakes: Handshakes) -> None:
        self._make_http = make_http
        self._access = access
        self._handshakes = handshakes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"{transport!r} is no stream")
        task = asyncio.get_running_loop().create_task(self._shake_hands(transport))
        self._handshakes.begin(task, transport)

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        early = _Early()
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport,
                early,
                self._access.context,
                server_side=True,
                ssl_handshake_timeout=self._handshakes.seconds_max,
            )
        except OSError:
            # Port scans, clients that do not trust us, the deadline: nobody reads a log line of it.
            transport.abort()
            return
        # It has none when the connection ended together with its handshake, whatever the annotation says.
        if secured is None or early.is_lost:
            return
        if not _is_allowed(secured, self._access.allowed_sans):
            secured.abort()
            return
        early.hand_over(secured, self._make_http())


class _Early(asyncio.Protocol):
    """Keeps what a client sends right behind its handshake: asyncio delivers it before `start_tls` returns."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        self._data += data

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.is_lost = True

    def hand_over(self, transport: asyncio.Transport, http: asyncio.Protocol) -> None:
        transport.set_protocol(http)
        http.connection_made(transport)
        if self._data:
            http.data_received(bytes(self._data))


def _is_allowed(transport: asyncio.Transport, allowed: frozenset[str]) -> bool:
    """Whether the client's certificate has one of the names, letter by letter, as exporter-toolkit compares them."""
    if not allowed:
        return True
    certificate = transport.get_extra_info("peercert") or {}
    return any(_plain(kind, name) in allowed for kind, name in certificate.get("subjectAltName", ()))


def _plain(kind: str, name: str) -> str:
    # OpenSSL writes IPv6 addresses in its own way.
    return str(ipaddress.ip_address(name.strip())) if kind == "IP Address" else str(name)
