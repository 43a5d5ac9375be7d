"""From a file to a frozen Config, or to every problem in it as `file:line: key: message`.

Owns reading the file, with its bounds, and the order of the steps: TOML, schema, references. Whether GPUs, programs or
scenarios exist is not its business.

Invariant: all problems are reported at once. Only text that is no TOML stops at its first mistake.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gpumond.config.changes import ConfigDiff, diff, hash_of
from gpumond.config.glance import DEFAULT_FILE
from gpumond.config.lines import KeyPath, index_lines
from gpumond.config.problems import problem_of, problem_of_misfit
from gpumond.config.references import check_references
from gpumond.config.schema import Config
from gpumond.config.values import FROM_FILE
from gpumond.errors import ConfigError, ConfigProblem

__all__ = ["DEFAULT_FILE", "ConfigDiff", "default_config", "diff", "hash_of", "load", "parse"]

LARGEST_FILE_BYTES: Final = 1 << 20
"""The example with all its comments is 1 % of this; a log or an image by mistake is more."""

LONGEST_LINE_CHARACTERS: Final = 1 << 12
"""tomllib takes quadratic time for a dotted key: 5 s for one of 8,000 parts (measured), for ever for one of a megabyte."""

MOST_PROBLEMS: Final = 100
"""More than a person reads. A file of a megabyte can hold a hundred thousand."""

_EXAMPLE_HINT: Final = (
    "config.example.toml holds every key with its default; a file with no key at all is valid too."
)
_QUOTES_HINT: Final = 'In TOML text stands in quotes: level = "info".'

_SAID = re.compile(r"(?s)\A(.*?)(?: \(at (?:line (\d+), column (\d+)|end of document)\))?\Z")
"""Before Python 3.14 tomllib says where only in its text."""

_TWICE = re.compile(r"Cannot (?:declare \((.*?),?\) twice|overwrite a value)")


def load(path: Path) -> Config:
    """The configuration in a file. Raises ConfigError with every problem in it."""
    return parse(_read(path), name=str(path))


def default_config() -> Config:
    """What an empty file means: snapshots and the exporter, no sweep."""
    return Config()


def parse(text: str, *, name: str) -> Config:
    """The configuration in a text that is called `name` in messages. Raises ConfigError with every problem in it."""
    document, lines = _toml(text, name)
    misfits = check_references(document, lines)
    config, details = _validate(document)
    if config is not None and not misfits:
        return config
    found = [problem_of_misfit(misfit, document, lines, file=name) for misfit in misfits[:MOST_PROBLEMS]]
    found += [problem_of(detail, document, lines, file=name) for detail in details[:MOST_PROBLEMS]]
    problems = sorted(found, key=lambda problem: problem.line)[:MOST_PROBLEMS]
    left_out = len(misfits) + len(details) - len(problems)
    if left_out:
        problems.append(ConfigProblem(name, 0, "", f"and {left_out} more problems"))
    raise ConfigError(tuple(problems))


def _validate(document: Mapping[str, Any]) -> tuple[Config | None, Sequence[ErrorDetails]]:
    try:
        return Config.model_validate(document, context=FROM_FILE), ()
    except ValidationError as error:
        return None, error.errors(include_url=False)


def _toml(text: str, name: str) -> tuple[dict[str, Any], Mapping[KeyPath, int]]:
    _check_line_lengths(text, name)
    try:
        return tomllib.loads(text), index_lines(text)
    except RecursionError:
        raise _one_problem(name, "lists or tables are nested too deep") from None
    except ValueError as error:  # TOMLDecodeError is one
        message, line = _syntax_message(str(error), text)
        hint = "" if "twice" in message else _QUOTES_HINT
        raise _one_problem(name, message, line=line, hint=hint) from None


def _check_line_lengths(text: str, name: str) -> None:
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > LONGEST_LINE_CHARACTERS:
            raise _one_problem(name, f"is longer than {LONGEST_LINE_CHARACTERS} characters", line=number)


def _syntax_message(said: str, text: str) -> tuple[str, int]:
    """tomllib's words in ours, and the line."""
    words, line, column = _SAID.findall(said)[0]
    twice = _TWICE.match(words)
    if twice:
        names = ".".join(re.findall(r"'([^']*)'", twice.group(1) or ""))
        words = f"[{names}] stands twice" if names else "a key or table stands twice"
    words = words[:1].lower() + words[1:]
    if not line:
        return f"not valid TOML: {words} at the end of the file", text.rstrip("\n").count("\n") + 1
    return f"not valid TOML: {words} (column {column})", int(line)


def _read(path: Path) -> str:
    """The text of a regular file of reasonable size. Raises ConfigError."""
    try:
        # Without O_NONBLOCK the open of a FIFO waits for a writer, perhaps for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _one_problem(str(path), "no such file", hint=_EXAMPLE_HINT) from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    try:
        _refuse_irregular(path, os.fstat(descriptor).st_mode)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(descriptor)
    return _decode(path, content)


def _unreadable(path: Path, error: OSError | ValueError) -> ConfigError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    hint = "The user that runs gpumond must be allowed to read it and its directories."
    return _one_problem(str(path), f"cannot be read: {reason[:1].lower()}{reason[1:]}", hint=hint)


def _refuse_irregular(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    what = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device"
    raise _one_problem(str(path), f"is {what}, not a file", hint="Name the TOML file itself.")


def _decode(path: Path, content: bytes) -> str:
    hint = "This does not look like a configuration; " + _EXAMPLE_HINT
    if len(content) > LARGEST_FILE_BYTES:
        raise _one_problem(str(path), f"is larger than {LARGEST_FILE_BYTES >> 20} MiB", hint=hint)
    zero = content.find(b"\0")
    if zero >= 0:
        raise _one_problem(str(path), f"is binary: byte {zero} is NUL", hint=hint)
    try:
        return content.decode("utf-8-sig")  # editors on Windows write a byte order mark
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        wrong = f"is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start}"
        raise _one_problem(str(path), wrong, line=line, hint="Save the file as UTF-8.") from None


def _one_problem(file: str, message: str, *, line: int = 0, hint: str = "") -> ConfigError:
    return ConfigError((ConfigProblem(file, line, "", message),), hint=hint)
