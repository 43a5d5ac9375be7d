"""Which form of an answer a client takes: pure functions of its Accept and Accept-Encoding headers."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum


class Format(StrEnum):
    """The exposition formats; the value is the whole Content-Type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


_OPENMETRICS = "application/openmetrics-text"
_TEXT_TYPES = ("text/plain", "text/*", "*/*")


def choose_format(accept: str) -> Format:
    """The format that `accept` wants most, the first of equals; text where it wants neither."""
    best, best_quality = Format.TEXT, 0.0
    for name, parameters in _entries(accept):
        quality = _quality(parameters)
        candidate = _format_of(name, parameters.get("version", ""))
        if candidate is not None and quality > best_quality:
            best, best_quality = candidate, quality
    return best


def accepts_gzip(accept_encoding: str) -> bool:
    qualities = {name: _quality(parameters) for name, parameters in _entries(accept_encoding)}
    return qualities.get("gzip", qualities.get("*", 0.0)) > 0


def _format_of(name: str, version: str) -> Format | None:
    if name == _OPENMETRICS:
        return Format.OPENMETRICS if version in {"", "1.0.0"} else None
    return Format.TEXT if name in _TEXT_TYPES and version in {"", "0.0.4"} else None


def _entries(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """`a;q=0.5, b` as its names with their parameters, in lower case."""
    for entry in header.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield name, {key.strip(): value.strip() for key, _, value in pairs}


def _quality(parameters: dict[str, str]) -> float:
    try:
        quality = float(parameters.get("q", "1"))
    except ValueError:
        return 0.0
    return quality if 0 <= quality <= 1 else 0.0
