"""Names that drivers, firmware and other people's files chose, made fit for a terminal. Pure."""

from __future__ import annotations

from typing import Final

NAME_CHARACTERS_MAX: Final = 96
"""Longer than any product name seen; a longer one is somebody's joke."""


def printable(text: str) -> str:
    """`text` without what moves a cursor or hides a line: such characters become `?`, newlines stay."""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)


def printable_name(text: str) -> str:
    """`text` on one line, and not longer than a name."""
    line = printable(text.replace("\n", "?"))
    return line if len(line) <= NAME_CHARACTERS_MAX else f"{line[: NAME_CHARACTERS_MAX - 1]}~"
