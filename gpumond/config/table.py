"""What all tables of the configuration have in common. Knows no table.

A table is a frozen pydantic model in which an unknown key is an error. Integers and booleans are strict where they are
used; whole models are not, because a strict model would refuse TOML's lists for tuples and its texts for paths and
enumerations (measured).
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Final, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict


class Restart:
    """The type of `NEEDS_RESTART`."""


NEEDS_RESTART: Final = Restart()

T = TypeVar("T")


def _not_empty(values: tuple[T, ...]) -> tuple[T, ...]:
    # Not by pydantic's Len: it counts what is left after bad members, and would call such a list empty.
    if not values:
        raise ValueError("must not be empty")
    return values


def _distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    twice = [str(value) for value, count in Counter(values).items() if count > 1]
    if twice:
        raise ValueError(f"names {twice[0]} more than once")
    return values


UniqueList: TypeAlias = Annotated[tuple[T, ...], AfterValidator(_not_empty), AfterValidator(_distinct)]
"""A list that is not empty and names nothing twice."""

MaybeEmptyList: TypeAlias = Annotated[tuple[T, ...], AfterValidator(_distinct)]
"""A list that names nothing twice."""


class Table(BaseModel):
    """A table of the file; its docstring is the table's text in the documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True)
