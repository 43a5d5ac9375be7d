"""What is answered on which path: a starlette application over the StatusBoard.

Owns routes and the choice of format; who may ask is the business of gpumond.exporter.web.gate. Refuses to know sockets and threads (gpumond.exporter.http) and what the
answers mean. Handlers are plain functions, which starlette runs in its thread pool: nothing renders on the event loop,
except `/-/healthy`, which is there to prove that the loop turns.
"""

from __future__ import annotations

from http import HTTPStatus
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from gpumond.board import StatusBoard
from gpumond.clock import Clock
from gpumond.codec import encode
from gpumond.exporter.answers import UNCACHED, error_answer, json_answer
from gpumond.exporter.api import HistoryApi, OpenHistory
from gpumond.exporter.bodies import Bodies
from gpumond.exporter.metrics import Exposition
from gpumond.exporter.negotiate import accepts_gzip, choose_format
from gpumond.exporter.page.status_page import FAVICON, STYLESHEET, render_page
from gpumond.exporter.web.access import WebAccess
from gpumond.exporter.web.gate import Gate, is_local

_ASSET_SECONDS_MAX = 3600  # a browser may show an old style sheet this long after an upgrade


class Application:
    """The handlers, with what they read from."""

    def __init__(
        self,
        *,
        board: StatusBoard,
        bodies: Bodies,
        exposition: Exposition,
        clock: Clock,
        open_history: OpenHistory,
        access: WebAccess,
    ) -> None:
        self._board = board
        self._bodies = bodies
        self._exposition = exposition
        self._clock = clock
        self.gate = Gate(self._starlette(HistoryApi(open_history, self._is_private)), access, clock)
        """The ASGI application as a whole."""

    def _is_private(self, request: Request) -> bool:
        return self.gate.access.is_private or is_local(request)

    def _starlette(self, history: HistoryApi) -> Starlette:
        routes = [
            Route("/", self.page),
            Route("/metrics", self.metrics),
            Route("/-/healthy", _healthy),
            Route("/-/ready", self.ready),
            Route("/api/v1/status", self.status),
            Route("/api/v1/topology", self.topology),
            Route("/api/v1/runs", history.runs),
            Route("/api/v1/runs/{id}", history.run),
            Route("/api/v1/findings", history.findings),
            _asset(STYLESHEET, "style.css", "text/css"),
            _asset(FAVICON, "favicon.svg", "image/svg+xml"),
            _asset("/favicon.ico", "favicon.svg", "image/svg+xml"),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: _refuse, Exception: _apologise})
        # A redirect would name the host that the client wrote into its request.
        app.router.redirect_slashes = False
        return app

    def page(self, request: Request) -> Response:  # noqa: ARG002 - a handler takes a request
        return HTMLResponse(render_page(self._board.status, self._clock.now()), headers=UNCACHED)

    def metrics(self, request: Request) -> Response:
        form = choose_format(request.headers.get("accept", ""))
        use_gzip = accepts_gzip(request.headers.get("accept-encoding", ""))
        headers = {"Vary": "Accept, Accept-Encoding", **UNCACHED}
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
            return PlainTextResponse("gpumond is ready.\n", headers=UNCACHED)
        text = "gpumond is starting: the stored state or the first snapshot is still missing.\n"
        return PlainTextResponse(text, status_code=503, headers=UNCACHED)

    def status(self, request: Request) -> Response:  # noqa: ARG002
        return json_answer(encode(self._board.status))

    def topology(self, request: Request) -> Response:
        snapshot = self._board.status.snapshot
        if snapshot is None:
            return error_answer(request.url.path, HTTPStatus.SERVICE_UNAVAILABLE, "there is no snapshot yet")
        return json_answer(encode(snapshot))


async def _healthy(request: Request) -> Response:  # noqa: ARG001
    return PlainTextResponse("gpumond is healthy.\n", headers=UNCACHED)


def _refuse(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    return error_answer(request.url.path, status, status.phrase.lower(), headers=error.headers)


def _apologise(request: Request, _error: Exception) -> Response:
    return error_answer(
        request.url.path, HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of gpumond; its log says more"
    )


def _asset(path: str, name: str, media_type: str) -> Route:
    content = files("gpumond.exporter.page").joinpath(name).read_bytes()
    headers = {"Cache-Control": f"max-age={_ASSET_SECONDS_MAX}"}

    def serve(request: Request) -> Response:  # noqa: ARG001
        return Response(content, headers=headers, media_type=media_type)

    return Route(path, serve)
