"""Where each key of a TOML text stands: `tomllib` gives values without positions. Pure.

The text must have been accepted by `tomllib` before: this scanner looks for places only and checks nothing. It knows
tables, arrays of tables, dotted and quoted keys, inline tables, arrays and all four kinds of strings, because a table
header inside a multi-line string is none.

Invariant: for every path of the parsed document, to a depth of DEEPEST, there is a line, and that line holds the last
key of the path.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and, in arrays, positions from 0."""

DEEPEST: Final = 16
"""Four times as deep as the schema. A dotted key may have a hundred thousand parts, and each would be a path."""

_GAP = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_BLANKS = re.compile(r"[ \t]*")
_KEY_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""")
# A closing delimiter may be preceded by up to two quotes that belong to the text.
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}(?!")' + r"|'''.*?'{3,5}(?!')" + r'|"(?:\\.|[^"\\\n])*"' + r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\r\n]*")


def index_lines(text: str) -> Mapping[KeyPath, int]:
    """Line numbers, from 1, of every path in a valid TOML text. A table has the line that first names it."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


def line_of(path: KeyPath, lines: Mapping[KeyPath, int]) -> int:
    """The line of a path or of the nearest thing around it: a missing key is reported at its table. 0 for nothing."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 0


class _Scanner:
    """One pass over the text; `_at` is the next character."""

    def __init__(self, text: str) -> None:
        self._text: Final = text
        self._at = 0
        self._line_starts: Final = [0, *(match.end() for match in re.finditer("\n", text))]
        self._array_lengths: Final[dict[KeyPath, int]] = {}
        self.lines: Final[dict[KeyPath, int]] = {}

    def document(self) -> None:
        table: KeyPath = ()
        self._skip(_GAP)
        while self._at < len(self._text):
            if self._text.startswith("[[", self._at):
                table = self._header(is_array=True)
            elif self._text[self._at] == "[":
                table = self._header(is_array=False)
            else:
                self._pair(table)
            self._skip(_GAP)

    def _header(self, *, is_array: bool) -> KeyPath:
        start, brackets = self._at, 2 if is_array else 1
        self._at += brackets
        parts = self._key()
        self._at += brackets
        path: KeyPath = ()
        for part in parts[:-1]:
            path = self._current(_below(path, part), start)
        path = _below(path, parts[-1])
        if not is_array:
            return self._current(path, start)
        self._note(path, start)
        number = self._array_lengths.get(path, 0)
        self._array_lengths[path] = number + 1
        path = _below(path, number)
        self._note(path, start)
        return path

    def _current(self, path: KeyPath, start: int) -> KeyPath:
        """The table that a header's prefix means: in an array of tables the last one."""
        self._note(path, start)
        return _below(path, self._array_lengths[path] - 1) if path in self._array_lengths else path

    def _pair(self, table: KeyPath) -> None:
        start = self._at
        path = table
        for part in self._key():
            path = _below(path, part)
            self._note(path, start)
        self._at += 1  # the equals sign
        self._skip(_BLANKS)
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        first = self._text[self._at : self._at + 1]
        if first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        elif first in {'"', "'"}:
            self._skip(_STRING)
        else:
            self._skip(_SCALAR)

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        self._skip(_GAP)
        number = 0
        while self._text[self._at] != "]":
            inner = _below(path, number)
            self._note(inner, self._at)
            self._value(inner)
            self._skip(_GAP)
            number += 1
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        self._skip(_GAP)
        while self._text[self._at] != "}":
            self._pair(path)
            self._skip(_GAP)
        self._at += 1

    def _key(self) -> list[str]:
        """The parts of a dotted key, and the blanks around it."""
        parts = []
        while True:
            self._skip(_BLANKS)
            parts.append(_unquoted(self._skip(_KEY_PART)))
            self._skip(_BLANKS)
            if self._text[self._at] != ".":
                return parts
            self._at += 1

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise AssertionError(f"not the TOML that tomllib accepts, at character {self._at}")
        self._at = match.end()
        return match.group()

    def _note(self, path: KeyPath, position: int) -> None:
        self.lines.setdefault(path, bisect_right(self._line_starts, position))


def _below(path: KeyPath, part: str | int) -> KeyPath:
    return (*path, part) if len(path) < DEEPEST else path


def _unquoted(part: str) -> str:
    if part[0] == "'":
        return part[1:-1]
    if part[0] == '"':
        # Only tomllib knows all escapes.
        return str(tomllib.loads(f"key = {part}")["key"])
    return part
