"""Takes from a pasted text what terminals, logs, mails and issue forms added to it; every reader of topology uses it.

Knows no tool. Invariant: nothing that a tool printed in a cell is removed, and the number of lines stays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Whole, or half lost on the way: ESC[4m, [4m, ^[[4m (cat -v), \x1b[4m and \033[4m (a quoted string).
_ESCAPE = re.compile(r"(?:\x1b|\^\[|␛|\\(?:x1b|033|u001b|e))\[[0-9;?]*[A-Za-z]|\[\d{0,2}(?:;\d{1,2})*m|\x1b")
_QUOTE = re.compile(r"\s*(?:[>#]\s?)+")
_OTHER_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\u200b]")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a paste; `number` counts from 1."""

    number: int
    text: str


def clean_lines(text: str) -> list[Line]:
    """The lines without escape codes, quote marks, control characters and odd kinds of blanks. Tabs stay."""
    plain = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ")
    lines = []
    for number, line in enumerate(plain.split("\n"), start=1):
        quote = _QUOTE.match(line)
        unquoted = line[quote.end() :] if quote else line
        lines.append(Line(number, _OTHER_CONTROL.sub("", unquoted).rstrip(" ")))
    return lines
