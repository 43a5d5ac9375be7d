"""Which options a build of nccl-tests has, from the usage text that it prints: options come and go between versions.

Asked once for each file, and only where the operator has configured further options: those that gpumond sets itself are in
every version since 2017. An option that a build does not have makes it print its usage and exit with 0 or 1, without a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from gpumond.process.ask import Answer

_OPTION = re.compile(r"(?<![\w-])(-[A-Za-z]|--[a-z][a-z_-]+)(?![\w-])")
"""`[-b,--minbytes <min size in bytes>]` and, in older texts, `[-b <min>]`."""

_BEGIN = "usage"


def options_of(text: str) -> frozenset[str]:
    """The options that a usage text names; empty where the text is none."""
    begin = text.lower().find(_BEGIN)
    return frozenset() if begin < 0 else frozenset(_OPTION.findall(text[begin:]))


class Usage:
    """Asks programs what they know, each file once for as long as it stays the same."""

    def __init__(self, ask: Callable[[Sequence[str]], Answer]) -> None:
        self._ask = ask
        self._known: dict[tuple[Path, int, int], frozenset[str]] = {}

    def unknown(self, program: Path, arguments: Sequence[str]) -> str:
        """The first option among `arguments` that `program` does not have; empty where there is none, or nobody knows."""
        options = [word.partition("=")[0] for word in arguments if _OPTION.fullmatch(word.partition("=")[0])]
        if not options:
            return ""
        known = self._options(program)
        return next((option for option in options if known and option not in known), "")

    def _options(self, program: Path) -> frozenset[str]:
        state = program.stat()
        key = (program, state.st_mtime_ns, state.st_size)
        if key not in self._known:
            answer = self._ask((str(program), "-h"))
            self._known[key] = options_of(answer.output + answer.errors)
        return self._known[key]
