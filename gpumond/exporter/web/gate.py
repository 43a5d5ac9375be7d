"""What every request passes before it is answered: rate limit, password, headers.

Owns the order of these and the answers of those who do not pass. Refuses to know routes, but for the two that prove life
without saying anything: a load balancer has no password.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Mapping
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpumond.clock import Clock
from gpumond.exporter.answers import error_answer
from gpumond.exporter.web.access import RateLimit, WebAccess
from gpumond.exporter.web.passwords import Check, Passwords

WITHOUT_PASSWORD = frozenset({"/-/healthy", "/-/ready"})

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}

_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
_RETRY_SECONDS = "5"


class Gate:
    """An ASGI application around `app`. `configure` may be called from another thread at any time."""

    def __init__(self, app: ASGIApp, access: WebAccess, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._passwords = Passwords()
        self._access = access
        self._bucket = _Bucket(access.rate_limit, clock)

    @property
    def access(self) -> WebAccess:
        return self._access

    def configure(self, access: WebAccess) -> None:
        if access.rate_limit != self._access.rate_limit:
            self._bucket = _Bucket(access.rate_limit, self._clock)
        self._access = access

    def close(self) -> None:
        self._passwords.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        access = self._access
        headers = SECURITY_HEADERS | dict(access.headers)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers)
            await send(message)

        app = await self._chosen(scope, access)
        await app(scope, receive, send_with_headers)

    async def _chosen(self, scope: Scope, access: WebAccess) -> ASGIApp:
        """The application, or the answer in its place."""
        path = scope["path"]
        if not self._bucket.take():
            return error_answer(
                path,
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many requests",
                headers={"Retry-After": _RETRY_SECONDS},
            )
        if not access.users or path in WITHOUT_PASSWORD:
            return self._app
        match await self._check(scope, access.users):
            case Check.RIGHT:
                return self._app
            case Check.NOT_NOW:
                return error_answer(
                    path,
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    "too many passwords wait to be checked",
                    headers={"Retry-After": _RETRY_SECONDS},
                )
            case Check.WRONG:
                return error_answer(
                    path,
                    HTTPStatus.UNAUTHORIZED,
                    "user and password are needed",
                    headers={"WWW-Authenticate": 'Basic realm="gpumond", charset="UTF-8"'},
                )

    async def _check(self, scope: Scope, users: Mapping[str, bytes]) -> Check:
        credentials = basic_credentials(Headers(scope=scope).get("authorization", ""))
        if credentials is None:
            return Check.WRONG
        client = scope["client"][0] if scope["client"] else ""
        return await self._passwords.check(users, *credentials, client=client)


def basic_credentials(header: str) -> tuple[str, bytes] | None:
    """Name and password of an Authorization header; None where it holds none (RFC 7617)."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (name.decode(), password) if colon else None
    except (binascii.Error, ValueError):  # bytes that are no UTF-8 are a ValueError too
        return None


def is_local(request: Request) -> bool:
    """Whether a program on this host asks, for itself: not a proxy for somebody, and not a web page that a browser here
    has open, whose name somebody has pointed to loopback (DNS rebinding)."""
    if request.client is None or not is_loopback(request.client.host):
        return False
    if any(name in request.headers for name in _FORWARDED):
        return False
    host = request.url.hostname or ""
    return host == "localhost" or is_loopback(host)


def is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # A socket for both families shows IPv4 clients so; Python before 3.13 does not see through it.
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


class _Bucket:
    """A token bucket. Without a limit everybody passes. On the event loop only."""

    def __init__(self, limit: RateLimit | None, clock: Clock) -> None:
        self._limit = limit
        self._clock = clock
        self._tokens = float(limit.burst) if limit else 0.0
        self._filled_at = clock.monotonic()

    def take(self) -> bool:
        if self._limit is None:
            return True
        now = self._clock.monotonic()
        gained = (now - self._filled_at) / self._limit.interval_seconds
        self._tokens = min(float(self._limit.burst), self._tokens + gained)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
