"""What is answered on which path: a starlette application over the StatusBoard.

Owns routes, headers and the choice of format. Refuses to know sockets and threads (gpumond.exporter.http) and what the
answers mean. Handlers are plain functions, which starlette runs in its thread pool: nothing renders on the event loop,
except `/-/healthy`, which is there to prove that the loop turns.
"""

from __future__ import annotations

from importlib.resources import files

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpumond.board import StatusBoard
from gpumond.clock import Clock
from gpumond.codec import encode
from gpumond.exporter.bodies import Bodies
from gpumond.exporter.metrics import Exposition
from gpumond.exporter.negotiate import accepts_gzip, choose_format
from gpumond.exporter.page.status_page import FAVICON, STYLESHEET, render_page

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}

_ASSET_SECONDS_MAX = 3600  # a browser may show an old style sheet this long after an upgrade
_UNCACHED = {"Cache-Control": "no-store"}


class Application:
    """The handlers, with what they read from."""

    def __init__(self, *, board: StatusBoard, bodies: Bodies, exposition: Exposition, clock: Clock) -> None:
        self._board = board
        self._bodies = bodies
        self._exposition = exposition
        self._clock = clock

    def asgi(self) -> ASGIApp:
        routes = [
            Route("/", self.page),
            Route("/metrics", self.metrics),
            Route("/-/healthy", _healthy),
            Route("/-/ready", self.ready),
            Route("/api/v1/status", self.status),
            Route("/api/v1/topology", self.topology),
            _asset(STYLESHEET, "style.css", "text/css"),
            _asset(FAVICON, "favicon.svg", "image/svg+xml"),
            _asset("/favicon.ico", "favicon.svg", "image/svg+xml"),
        ]
        app = Starlette(routes=routes)
        # A redirect would name the host that the client wrote into its request.
        app.router.redirect_slashes = False
        return _SecurityHeaders(app)

    def page(self, request: Request) -> Response:  # noqa: ARG002 - a handler takes a request
        return HTMLResponse(render_page(self._board.status, self._clock.now()), headers=_UNCACHED)

    def metrics(self, request: Request) -> Response:
        form = choose_format(request.headers.get("accept", ""))
        use_gzip = accepts_gzip(request.headers.get("accept-encoding", ""))
        headers = {"Vary": "Accept, Accept-Encoding", **_UNCACHED}
        names = request.query_params.getlist("name[]")
        if names:
            text = self._exposition.render_only(self._board.status, form, at=self._clock.now(), names=names)
            return Response(text, headers=headers, media_type=form.value)
        body = self._bodies.get(form)
        tail = self._exposition.render_scrape(
            self._board.status, form, at=self._clock.now(), is_steady_complete=body.is_complete
        )
        if use_gzip:
            headers["Content-Encoding"] = "gzip"
        content = body.finish_gzip(tail) if use_gzip else body.finish(tail)
        return Response(content, headers=headers, media_type=form.value)

    def ready(self, request: Request) -> Response:  # noqa: ARG002
        if self._board.status.is_ready:
            return PlainTextResponse("gpumond is ready.\n", headers=_UNCACHED)
        text = "gpumond is starting: the stored state or the first snapshot is still missing.\n"
        return PlainTextResponse(text, status_code=503, headers=_UNCACHED)

    def status(self, request: Request) -> Response:  # noqa: ARG002
        return _json(encode(self._board.status))

    def topology(self, request: Request) -> Response:  # noqa: ARG002
        snapshot = self._board.status.snapshot
        if snapshot is None:
            return _json(b'{"error":"no snapshot yet"}', status_code=503)
        return _json(encode(snapshot))


async def _healthy(request: Request) -> Response:  # noqa: ARG001
    return PlainTextResponse("gpumond is healthy.\n", headers=_UNCACHED)


def _json(document: bytes, status_code: int = 200) -> Response:
    return Response(document, status_code=status_code, headers=_UNCACHED, media_type="application/json")


def _asset(path: str, name: str, media_type: str) -> Route:
    content = files("gpumond.exporter.page").joinpath(name).read_bytes()
    headers = {"Cache-Control": f"max-age={_ASSET_SECONDS_MAX}"}

    def serve(request: Request) -> Response:  # noqa: ARG001
        return Response(content, headers=headers, media_type=media_type)

    return Route(path, serve)


class _SecurityHeaders:
    """Adds SECURITY_HEADERS to every answer, also to those that starlette makes itself (404, 405, 500)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)
