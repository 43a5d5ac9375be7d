"""`/api/v1/runs` and `/api/v1/findings`: the history as JSON, as far back and as much at once as is asked for.

Owns parameters, their bounds and the shape of the documents. Each request opens the history for reading, as a command
does: a slow disk costs the one who asks, never a sweep that writes. Invariant: no answer holds more than ENTRIES_MAX
entries, and an environment or a command line is told to those only who may know it (DESIGN 5).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from gpumond.codec import encode
from gpumond.errors import StoreError
from gpumond.exporter.answers import error_answer, json_answer
from gpumond.model.benchmark import Collective
from gpumond.model.finding import FindingsDocument
from gpumond.model.identity import RunId
from gpumond.model.run import Run
from gpumond.store.history import History

ENTRIES = 20
"""Without `limit`."""

ENTRIES_MAX = 200
"""A run of 8 B to 8 GiB with both placements has about 12 kB: an answer stays below 3 MB."""

OpenHistory: TypeAlias = Callable[[], AbstractContextManager[History]]


@dataclass(frozen=True, slots=True)
class RunsDocument:
    """`/api/v1/runs`, newest first. `command` and `environment` are empty: `/api/v1/runs/ID` has them."""

    runs: tuple[Run, ...]


class _BadRequestError(ValueError):
    """A parameter that cannot be obeyed."""


class HistoryApi:
    """The handlers. `is_private(request)` says whether this client may see how a benchmark was started."""

    def __init__(self, open_history: OpenHistory, is_private: Callable[[Request], bool]) -> None:
        self._open_history = open_history
        self._is_private = is_private

    def runs(self, request: Request) -> Response:
        return self._answer(request, self._runs)

    def findings(self, request: Request) -> Response:
        return self._answer(request, self._findings)

    def run(self, request: Request) -> Response:
        if not self._is_private(request):
            return error_answer(
                request.url.path,
                HTTPStatus.FORBIDDEN,
                "a run's command and environment are shown on loopback only",
                hint="With TLS and a password, or client certificates, they are shown everywhere (--web.config.file).",
            )
        return self._answer(request, self._run)

    def _answer(self, request: Request, read: Callable[[History, Request], bytes | None]) -> Response:
        path = request.url.path
        try:
            with self._open_history() as history:
                document = read(history, request)
        except _BadRequestError as error:
            return error_answer(path, HTTPStatus.BAD_REQUEST, str(error))
        except StoreError as error:
            return error_answer(path, HTTPStatus.SERVICE_UNAVAILABLE, error.message, hint=error.hint)
        if document is None:
            return error_answer(path, HTTPStatus.NOT_FOUND, "there is no such run")
        return json_answer(document)

    def _runs(self, history: History, request: Request) -> bytes:
        asked = _parameters(request, "limit", "sweep", "collective")
        collective = _choice(asked, "collective", Collective)
        found = history.runs(limit=_limit(asked), sweep=asked.get("sweep"), collective=collective)
        return encode(RunsDocument(tuple(replace(run, command=(), environment={}) for run in found)))

    def _run(self, history: History, request: Request) -> bytes | None:
        _parameters(request)
        found = history.run(RunId(request.path_params["id"]))
        return None if found is None else encode(found)

    def _findings(self, history: History, request: Request) -> bytes:
        asked = _parameters(request, "limit", "all")
        is_all = asked.get("all", "false")
        if is_all not in ("true", "false"):
            raise _BadRequestError(f"all must be true or false (got {is_all})")
        return encode(FindingsDocument(history.findings(open_only=is_all == "false", limit=_limit(asked))))


def _parameters(request: Request, *known: str) -> dict[str, str]:
    """The query, each name once; a name that is not `known` would be a filter that does nothing."""
    asked: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known:
            choices = f"there are {', '.join(known)}" if known else "there are none"
            raise _BadRequestError(f"unknown parameter {name}; {choices}")
        if name in asked:
            raise _BadRequestError(f"{name} is there twice")
        asked[name] = value
    return asked


def _limit(asked: dict[str, str]) -> int:
    text = asked.get("limit", str(ENTRIES))
    # isdecimal alone would take Arabic digits, and int() takes as long as the text is long.
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(ENTRIES_MAX))):
        raise _BadRequestError(f"limit must be a number from 1 to {ENTRIES_MAX}")
    if not 1 <= int(text) <= ENTRIES_MAX:
        raise _BadRequestError(f"limit must be a number from 1 to {ENTRIES_MAX}")
    return int(text)


def _choice(asked: dict[str, str], name: str, choices: type[Collective]) -> Collective | None:
    if name not in asked:
        return None
    try:
        return choices(asked[name])
    except ValueError:
        raise _BadRequestError(f"{name} must be one of {', '.join(choices)}") from None
