"""Limits on a client's connection that uvicorn does not have: a deadline for a request head, one for an answer, a cap.

Without them one host that opens connections and says nothing, or that never reads its answer, keeps descriptors and
buffers of ours for ever. Invariants: a connection that waits for a request is closed before a scrape is refused, and no
connection outlives its deadline because of what its client does or leaves undone.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS_MAX = 10.0
"""From the first byte of a request, or the start of the connection, to the end of the request's head."""

ANSWER_SECONDS_MAX = 30.0
"""From the end of a request's head until the client has taken the whole answer."""

KEEP_ALIVE_SECONDS = 75
"""Between two requests; longer than the usual scrape interval of 60 s."""

CONNECTIONS_MAX = 128
"""A fleet scrapes from a handful of addresses; a descriptor limit of 1024 stays far away."""

HANDSHAKE_SECONDS_MAX = 5.0
"""uvicorn's default is a minute."""

HANDSHAKES_MAX = 128
"""TLS handshakes at once; each has 256 KiB of buffers."""

HEAD_BYTES_MAX = 16 * 1024
"""Of a head that is not complete yet. A scrape's has a few hundred bytes, a `?name[]=` list of all our metrics 3000."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one client may take."""

    head_seconds: float = HEAD_SECONDS_MAX
    answer_seconds: float = ANSWER_SECONDS_MAX
    keep_alive_seconds: int = KEEP_ALIVE_SECONDS
    connections: int = CONNECTIONS_MAX
    head_bytes: int = HEAD_BYTES_MAX
    handshake_seconds: float = HANDSHAKE_SECONDS_MAX
    handshakes: int = HANDSHAKES_MAX


class GuardedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with deadlines. `limits` is bound by `guarded_protocol`."""

    limits = ConnectionLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_deadline: asyncio.TimerHandle | None = None
        self._answer_deadline: asyncio.TimerHandle | None = None
        self.waiting_since: float | None = None
        """Loop time since which this connection waits for a request; None while one is answered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        super().connection_made(transport)
        self.waiting_since = self.loop.time()
        self._arm_head()
        if len(self.connections) > self.limits.connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        if not self._is_answering():
            self._arm_head()
        super().data_received(data)
        if self._is_answering():
            self._on_request()

    def on_response_complete(self) -> None:
        self.waiting_since = self.loop.time()
        super().on_response_complete()
        if self._is_answering():  # a request that the client had sent ahead
            self._on_request()
        elif self.conn.trailing_data[0] or self.conn.their_state is h11.SEND_BODY:
            # A part of the next request, or a body that nobody reads and that need not come.
            self._arm_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm_head()
        self._disarm_answer()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        # uvicorn's annotation leaves out that there is none before the first request.
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    def _on_request(self) -> None:
        # Without this a keep-alive scrape was cut once in 240, when the deadline of an earlier head ran out under it.
        self._disarm_head()
        self.waiting_since = None
        self._disarm_answer()
        self._answer_deadline = self.loop.call_later(self.limits.answer_seconds, self._abort_unless_taken)

    def _arm_head(self) -> None:
        if self._head_deadline is None:
            self._head_deadline = self.loop.call_later(self.limits.head_seconds, self.transport.abort)

    def _disarm_head(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _disarm_answer(self) -> None:
        if self._answer_deadline is not None:
            self._answer_deadline.cancel()
            self._answer_deadline = None

    def _abort_unless_taken(self) -> None:
        # close() would wait for ever for a client that does not read: an answer stays in the transport's buffer.
        if self._is_answering() or self.transport.get_write_buffer_size() > 0:
            self.transport.abort()

    def _make_room(self) -> None:
        """Close the connection that has waited longest for a request: a scrape sends one at once. Or close this one."""
        waiting = [
            other
            for other in self.connections
            if isinstance(other, GuardedProtocol) and other is not self and other.waiting_since is not None
        ]
        victim = min(waiting, key=lambda other: other.waiting_since or 0.0, default=self)
        victim.waiting_since = None  # its end is under way: the next one must not count on its room
        victim.transport.abort()


def guarded_protocol(limits: ConnectionLimits) -> type[GuardedProtocol]:
    """The protocol class for uvicorn, which takes a class and no arguments for it."""
    return type("LimitedProtocol", (GuardedProtocol,), {"limits": limits})
