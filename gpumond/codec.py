"""Model values to JSON and back, checked: the one place that knows how our dataclasses look on a pipe and on disk.

pydantic reads the type annotations of the frozen dataclasses themselves, so that no second description exists. A
document that does not fit raises ValueError with the place of the first misfit.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


_adapters: dict[Any, TypeAdapter[Any]] = {}  # building one costs milliseconds


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def encode(value: Any, *, indent: int | None = None) -> bytes:
    """`value`, a model dataclass, as JSON."""
    return _adapter(type(value)).dump_json(value, indent=indent)


def decode(kind: type[T], document: bytes | str) -> T:
    """The `kind` that `document` holds. Raises ValueError where it is no JSON or does not fit."""
    try:
        result: T = _adapter(kind).validate_json(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "document"
        raise ValueError(f"{place}: {first['msg']}") from error
    return result
