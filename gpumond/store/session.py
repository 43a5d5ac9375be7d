"""What the SQL of each topic needs of a connection, so that only gpumond.store.sqlite imports sqlite3.

Instants are stored as whole microseconds since 1970 in UTC: exact, ordered, and no clock zone can be misread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

Scalar = str | int | float | bytes | None
Parameters = Sequence[Scalar] | Mapping[str, Scalar]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Row(Protocol):
    """A result row: columns by name."""

    def __getitem__(self, key: str, /) -> Any: ...


class Cursor(Protocol):
    """What a statement gives back."""

    @property
    def rowcount(self) -> int: ...

    @property
    def lastrowid(self) -> int | None: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Session(Protocol):
    """A connection inside a transaction; whoever opened the transaction ends it."""

    def execute(self, sql: str, parameters: Parameters = ..., /) -> Cursor: ...

    def executemany(self, sql: str, parameters: Iterable[Parameters], /) -> Cursor: ...


def to_microseconds(instant: datetime) -> int:
    """Raises ValueError for an instant without a zone."""
    if instant.tzinfo is None:
        raise ValueError(f"an instant without a time zone: {instant.isoformat()}")
    return (instant - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def optional_microseconds(instant: datetime | None) -> int | None:
    return None if instant is None else to_microseconds(instant)


def optional_instant(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_microseconds(microseconds)
