"""Answers that say what went wrong: JSON for programs below /api/, a line of text elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import Response

API_PREFIX = "/api/"
UNCACHED = {"Cache-Control": "no-store"}


def json_answer(document: bytes, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(document, status_code=status, headers=UNCACHED, media_type="application/json")


def error_answer(
    path: str, status: HTTPStatus, message: str, *, hint: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """`{"error": message, "hint": hint}` or the same as text, by what `path` answers otherwise."""
    headers = UNCACHED | dict(headers or {})
    if path.startswith(API_PREFIX):
        body = json.dumps({"error": message, "hint": hint})
        return Response(body, status_code=status, headers=headers, media_type="application/json")
    text = f"{message}\n{hint}\n" if hint else f"{message}\n"
    return Response(text, status_code=status, headers=headers, media_type="text/plain")
