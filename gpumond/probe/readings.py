"""What can be done with a reading without looking whether it is a value. Pure; knows no vendor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpumond.model.reading import Reading, Value

T = TypeVar("T")
U = TypeVar("U")


def then(reading: Reading[T], convert: Callable[[T], Reading[U]]) -> Reading[U]:
    """`convert` of the value; where there is none, the same cause."""
    return convert(reading.value) if isinstance(reading, Value) else reading


def mapped(reading: Reading[T], convert: Callable[[T], U]) -> Reading[U]:
    return Value(convert(reading.value)) if isinstance(reading, Value) else reading


def or_else(reading: Reading[T], other: Reading[T]) -> Reading[T]:
    """`reading`, or `other` where only that one has a value."""
    return other if not isinstance(reading, Value) and isinstance(other, Value) else reading
