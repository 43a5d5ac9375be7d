"""The schema as a list: every key with its table, type, default and text. Pure.

What documentation, suggestions and reload know about keys, they know from here: nothing about a key is written down
twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from gpumond.config.schema import Config
from gpumond.config.table import Restart, Table
from gpumond.config.values import Between, Kind

ANY_NAME: Final = "NAME"
"""Stands in a path for a name that the operator chooses."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value looks like: in words, its possible values where they are few, and in TOML."""

    words: str
    choices: tuple[str, ...] = ()
    show: Callable[[Any], str] = str
    is_quoted: bool = True


@dataclass(frozen=True, slots=True)
class Key:
    """One key that a file may hold. `default` is as TOML, None where there is none."""

    name: str
    shape: Shape
    is_required: bool
    default: str | None
    description: str
    examples: tuple[str, ...]
    needs_restart: bool
    bounds: str


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the file with its keys. `path` has ANY_NAME where the operator names the table."""

    path: tuple[str, ...]
    is_array: bool
    text: str
    keys: tuple[Key, ...]

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def header(self) -> str:
        return f"[[{self.name}]]" if self.is_array else f"[{self.name}]"


@cache
def sections() -> tuple[Section, ...]:
    """Every table that holds keys, in the order of the schema."""
    return tuple(_sections(Config, (), is_array=False))


def _sections(model: type[Table], path: tuple[str, ...], *, is_array: bool) -> Iterator[Section]:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    keys = tuple(_key(name, field) for name, field in fields.items() if table_of(field) is None)
    if keys:
        yield Section(path, is_array, (model.__doc__ or "").strip(), keys)
    for name, field in fields.items():
        inner = table_of(field)
        if inner is not None:
            named = (ANY_NAME,) if _is_mapping(field) else ()
            yield from _sections(inner, (*path, name, *named), is_array=is_list(field))


def _key(name: str, field: FieldInfo) -> Key:
    shape = _shape(field.annotation, field.metadata)
    default = None if field.is_required() or field.default is None else to_toml(field.default, shape)
    return Key(
        name=name,
        shape=shape,
        is_required=field.is_required(),
        default=default,
        description=field.description or "",
        examples=tuple(to_toml(example, shape) for example in field.examples or ()),
        needs_restart=any(isinstance(mark, Restart) for mark in field.metadata),
        bounds=_bounds(field),
    )


def _bounds(field: FieldInfo) -> str:
    for mark in field.metadata:
        limits = getattr(mark, "func", None)
        if isinstance(limits, Between):
            return f"{limits.show(limits.least)} to {limits.show(limits.most)}"
    return ""


def model_at(path: Sequence[str | int]) -> type[Table] | None:
    """The model of the table at a path of a document; None where the schema has no table there."""
    model: type[Table] | None = Config
    rest = list(path)
    while rest and model is not None:
        part = rest.pop(0)
        field = next((f for n, f in model.model_fields.items() if (f.alias or n) == part), None)
        model = table_of(field) if field else None
        if field and rest and (_is_mapping(field) or is_list(field)):
            rest.pop(0)
    return model


def key_names(model: type[Table]) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in model.model_fields.items())


def table_of(field: FieldInfo) -> type[Table] | None:
    """The model behind a field that is a table, an array of tables or a table of tables."""
    return next(
        (kind for kind in _leaves(field.annotation) if isinstance(kind, type) and issubclass(kind, Table)),
        None,
    )


def is_list(field: FieldInfo) -> bool:
    return get_origin(_bare(field.annotation)) is tuple


def _is_mapping(field: FieldInfo) -> bool:
    return get_origin(_bare(field.annotation)) is Mapping


def _leaves(annotation: Any) -> Iterator[Any]:
    inner = get_args(annotation)
    if get_origin(annotation) is Annotated:
        inner = inner[:1]
    if not inner:
        yield annotation
    for each in inner:
        yield from _leaves(each)


def _bare(annotation: Any) -> Any:
    """`annotation` without Annotated and without `| None`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in {Union, UnionType}:
            annotation = next(kind for kind in get_args(annotation) if kind is not NoneType)
        else:
            return annotation


def _marks(annotation: Any) -> list[Any]:
    if get_origin(annotation) in {Union, UnionType}:
        return [mark for kind in get_args(annotation) for mark in _marks(kind)]
    return list(get_args(annotation)[1:]) if get_origin(annotation) is Annotated else []


def _shape(annotation: Any, metadata: Sequence[Any] = ()) -> Shape:
    for mark in (*metadata, *_marks(annotation)):
        if isinstance(mark, Kind):
            return Shape(mark.name, show=mark.show)
    bare = _bare(annotation)
    if get_origin(bare) is tuple:
        inner = _shape(get_args(bare)[0])
        return Shape(f"list of {_plural(inner)}", inner.choices, inner.show, inner.is_quoted)
    if get_origin(bare) is Mapping:
        return Shape("table of texts")
    if isinstance(bare, type) and issubclass(bare, StrEnum):
        return Shape("one word", tuple(member.value for member in bare))
    return _PLAIN[bare]


def _plural(shape: Shape) -> str:
    return "words" if shape.choices else f"{shape.words}s"


def _truth(value: bool) -> str:  # noqa: FBT001 - a printer of booleans
    return "true" if value else "false"


_PLAIN: Final[dict[Any, Shape]] = {
    bool: Shape("true or false", show=_truth, is_quoted=False),
    int: Shape("whole number", is_quoted=False),
    float: Shape("number", is_quoted=False),
    str: Shape("text"),
}


def to_toml(value: object, shape: Shape) -> str:
    """A value as a person would write it into the file."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(to_toml(each, shape) for each in value) + "]"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{key} = {to_toml(each, shape)}" for key, each in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    # An example is text already, as it would be typed.
    text = value if isinstance(value, str) else shape.show(value)
    return json.dumps(text, ensure_ascii=False) if shape.is_quoted else text


@cache
def restart_keys() -> frozenset[str]:
    """The dotted names of keys that only a restart changes; names chosen by the operator do not occur in them."""
    return frozenset(
        ".".join((*section.path, key.name))
        for section in sections()
        for key in section.keys
        if key.needs_restart
    )
