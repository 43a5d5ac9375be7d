"""pydantic's findings as sentences of this house, each with its line and, where that helps, a suggestion. Pure.

Owns the one table from pydantic's error types to phrases. A message says what is wrong and how to write it; the value
follows in brackets, except where it may be a secret: values of `benchmark.environment`, values of unknown keys, and
whole tables and lists are never repeated.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic_core import ErrorDetails

from gpumond.config.keys import key_names, model_at, sections
from gpumond.config.lines import KeyPath, line_of
from gpumond.config.references import Misfit
from gpumond.errors import ConfigProblem

LONGEST_ECHO_CHARACTERS: Final = 60

_SECRET: Final = ("benchmark", "environment")
_MAPPING_KEY: Final = "[key]"
"""How pydantic marks that the key of a mapping is meant, not its value."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def _one_of(context: Mapping[str, Any]) -> str:
    return f"must be one of {', '.join(_choices(context))}"


def _said_by_validator(context: Mapping[str, Any]) -> str:
    return str(context["error"])


_PHRASES: Final[dict[str, str | Callable[[Mapping[str, Any]], str]]] = {
    "missing": "is required",
    "value_error": _said_by_validator,
    "enum": _one_of,
    "string_type": "must be text in quotes",
    "int_type": "must be a whole number without quotes",
    "bool_type": "must be true or false, without quotes",
    "float_type": "must be a number without quotes",
    "finite_number": "must be a finite number",
    "path_type": "must be a path in quotes",
    "tuple_type": "must be a list in [ ]",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
}


def problem_of(
    error: ErrorDetails, document: Mapping[str, Any], lines: Mapping[KeyPath, int], *, file: str
) -> ConfigProblem:
    """One finding of pydantic about `document`."""
    path = _path_in(error["loc"], document)
    if error["type"] == "extra_forbidden":
        return ConfigProblem(file, line_of(path, lines), dotted(path), _unknown_key(path))
    message = _phrase(error, path)
    if error["type"] != "missing" and error["loc"][-1] != _MAPPING_KEY:
        is_default = path not in lines
        message += (
            " (the default)"
            if is_default
            else _echo(path, error["input"], is_type_wrong=error["type"] != "value_error")
        )
    return ConfigProblem(file, line_of(path, lines), dotted(path), message)


def problem_of_misfit(
    misfit: Misfit, document: Mapping[str, Any], lines: Mapping[KeyPath, int], *, file: str
) -> ConfigProblem:
    value: Any = document
    for part in misfit.path:
        value = value[part]
    message = misfit.message + _echo(misfit.path, value, is_type_wrong=False)
    return ConfigProblem(file, line_of(misfit.path, lines), dotted(misfit.path), message)


def dotted(path: Sequence[str | int]) -> str:
    """`sweep[0].gpu_sets[1]`; a key that needs quotes gets them, so that no control character reaches a terminal."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _BARE_KEY.fullmatch(part) else quoted(part))
    return text


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _path_in(location: Sequence[str | int], document: Mapping[str, Any]) -> KeyPath:
    """pydantic's location as a path of the document: without marks, and without `uuids` where a list was written."""
    path: KeyPath = ()
    here: Any = document
    for part in location:
        if part == _MAPPING_KEY or (isinstance(here, list) and isinstance(part, str)):
            continue
        path = (*path, part)
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            here = None
    return path


def _phrase(error: ErrorDetails, path: KeyPath) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "tuple_type" and isinstance(error["input"], Mapping) and model_at(path) is not None:
        return f"must be an array of tables: write [[{dotted(path)}]]"
    phrase = _PHRASES.get(kind)
    if phrase is None:
        return f"is not right: {error['msg']}"
    message = phrase if isinstance(phrase, str) else phrase(context)
    if kind == "enum":
        near = difflib.get_close_matches(str(error["input"]), _choices(context), n=1)
        if near:
            message = f'{message}; did you mean "{near[0]}"?'
    return message


def _choices(context: Mapping[str, Any]) -> list[str]:
    return re.findall(r"'([^']*)'", str(context["expected"]))


def _unknown_key(path: KeyPath) -> str:
    *parent, name = path
    model = model_at(parent)
    keys = key_names(model) if model else ()
    near = difflib.get_close_matches(str(name), keys, n=1) or [
        key for key in keys if key.startswith(str(name)) or str(name).startswith(key)
    ]
    if near:
        return f"unknown key; did you mean {near[0]}?"
    elsewhere = [section.header for section in sections() if name in {key.name for key in section.keys}]
    if elsewhere:
        return f"unknown key here; it belongs into {' or '.join(elsewhere)}"
    return "unknown key"


def _echo(path: KeyPath, value: object, *, is_type_wrong: bool) -> str:
    """` (got ...)`, or nothing where the value must not be repeated or would not help."""
    if path[: len(_SECRET)] == _SECRET:
        return ""
    if isinstance(value, Mapping | list | tuple):
        kind = "table" if isinstance(value, Mapping) else "list"
        return f" (got a {kind})" if is_type_wrong else ""
    text = _as_toml(value)
    if len(text) > LONGEST_ECHO_CHARACTERS:
        text = text[:LONGEST_ECHO_CHARACTERS] + " ..."
    return f" (got {text})"


def _as_toml(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
