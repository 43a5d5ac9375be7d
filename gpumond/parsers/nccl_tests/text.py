"""One physical line: what wraps it, what is glued to it, and what is left of the benchmark's own text.

Knows launchers, log shippers and NCCL's log prefix. Knows nothing of tables. Every pattern is bounded, so that a
hostile line costs no more than its length.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, field

MAX_HOSTS = 4096

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)?|[()*+][0-9A-Za-z]|[ -/@-Z\\^_=>])"
)
_WIDE_SPACE = re.compile(
    "[\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]"
)  # what web pages make of spaces
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\ufeff\ud800-\udfff]")

_PREFIX = re.compile(
    r"""\s*+(?:
      \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\ (?:std(?:out|err)\ [FP]\ )?  # Kubernetes, CRI
    | [A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d:\d\d\ \S{1,64}\ [^\s\[:]{1,64}(?:\[\d{1,10}\])?:\              # syslog, journal
    | (?P<task>\d{1,6}):(?=\s|$)                                                                      # srun --label
    | \[(?P<hydra>\d{1,6})\]\                                                                         # mpiexec -prepend-rank
    | (?P<label>[A-Za-z][\w.-]{0,63})\ *\|\                                                           # compose
    )""",
    re.VERBOSE | re.ASCII,
)
_MPI_TAG = re.compile(r".{0,40}?\[(?:[^\]\s]{1,64}@)?(\d{1,9},\d{1,9})\]<std(?:out|err|diag)>:", re.ASCII)
_MAX_PREFIXES = 4  # compose around kubectl around mpirun: more was never seen

_JSON_KEYS = ("log", "message", "msg", "MESSAGE", "line", "body", "text")

_NCCL_LINE = re.compile(r"NCCL (?:INFO|WARN|TRACE|CALL|ABORT|VERSION|ERROR)\b")
_NCCL_HEAD = re.compile(
    r"(\S{1,128}):\d{1,10}:\d{1,10} (?:\[-?\d{1,5}\] )?(?:\S{1,96} (?:\(\S{1,64}\) )?)?$", re.ASCII
)
_UCX_LINE = re.compile(r"\[\d{1,12}\.\d{1,9}\] \[\S{1,128}\] +\S{1,64} +UCX +[A-Z]+ ", re.ASCII)
_HEAD_WINDOW_CHARS = 400
_TRAILING_STAMP = re.compile(r"\[[^\[\]]{4,64}\] ?$")

_HOST = re.compile(r"[A-Za-z0-9][\w.-]{0,127}", re.ASCII)
# The last cell of a print, where a host name of unknown spelling follows without a space. Numbers as C prints them:
# `0` is never followed by more digits, and no root is below -1.
_GLUED_CELL = re.compile(
    r"N/A|-1|\d(?:\.\d{1,5})?e[+-]\d\d\*?|0|[1-9]\d{0,8}"
    r"|bfloat16|fp8_e4m3|fp8_e5m2|f8e4m3|f8e5m2|uint64|uint32|double|int64|int32|uint8|float|int8|half|char|int"
    r"|mulsum|prod|none|sum|max|min|avg",
    re.ASCII,
)


def decoder_for(head: bytes) -> codecs.IncrementalDecoder:
    """A decoder that never fails; `head` are the first bytes (PowerShell's `>` writes UTF-16 with a mark)."""
    is_utf16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return codecs.getincrementaldecoder("utf-16" if is_utf16 else "utf-8")(errors="replace")


def clean(line: str) -> str:
    """`line` without escape sequences and unprintable characters: safe to match, and to show on a terminal."""
    if "\x1b" in line:
        line = _ESCAPE.sub("", line)
    if line.isascii() and line.isprintable():
        return line
    return _UNPRINTABLE.sub("", _WIDE_SPACE.sub(" ", line))


def unwrap_json(line: str) -> str | None:
    """The text inside a log record in JSON, or None where `line` is no such record."""
    stripped = line.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")):
        return None
    try:
        record = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    inner = next((record[key] for key in _JSON_KEYS if isinstance(record.get(key), str)), None)
    return None if inner is None else str(inner)


def strip_prefixes(line: str) -> tuple[str, str]:
    """(who printed it, as far as a prefix says; the rest of the line)."""
    tag = ""
    for _ in range(_MAX_PREFIXES):
        match = _PREFIX.match(line) or ("]<std" in line and _MPI_TAG.match(line)) or None
        if match is None:
            break
        tag = match[match.lastindex] if match.lastindex else tag
        line = line[match.end() :]
    return tag, line


@dataclass(frozen=True, slots=True)
class Split:
    """A line, cut where foreign text begins."""

    own: str
    foreign: str


@dataclass(slots=True)
class Hosts:
    """The host names that the text has shown: they tell `-1` + `node-a:` from `-1node-a:`."""

    names: set[str] = field(default_factory=set)

    def learn(self, name: str) -> None:
        if len(self.names) < MAX_HOSTS and _HOST.fullmatch(name):
            self.names.add(name)
            self.names.add(name.partition(".")[0])  # NCCL and nccl-tests cut there

    def split_foreign(self, line: str) -> Split:
        """Cut off a line of NCCL or UCX, wherever in `line` it begins."""
        if "NCCL" in line:
            found = _NCCL_LINE.search(line)
            if found is not None:
                own = self._before_nccl(line, found.start())
                return Split(own, line[len(own) :])
        if "UCX" in line:
            found = _UCX_LINE.search(line)
            if found is not None:
                return Split(line[: found.start()], line[found.start() :])
        return Split(line, "")

    def _before_nccl(self, line: str, at: int) -> str:
        window = max(0, at - _HEAD_WINDOW_CHARS)
        head = _NCCL_HEAD.search(line[window:at])
        if head is None:
            return line[:at]
        own = self.without_host(line[: window + head.end(1)])
        return own[: stamp.start()] if (stamp := _TRAILING_STAMP.search(own)) else own

    def without_host(self, text: str) -> str:
        """`text`, which ends in a host name, without it."""
        glued = text[max(text.rfind(" "), text.rfind("\t")) + 1 :]
        before = text[: len(text) - len(glued)]
        bare = glued.rpartition("]")[2]  # a time stamp may stand in front of the host
        if bare in self.names:
            return before + glued[: len(glued) - len(bare)]
        known = max((name for name in self.names if bare.endswith(name)), key=len, default="")
        if known and before.strip():
            return text[: len(text) - len(known)]
        if not before.strip():
            self.learn(bare)  # nothing stands before it: it is the host, whole
            return before + glued[: len(glued) - len(bare)]
        cell = _GLUED_CELL.match(glued)
        return before + (cell[0] if cell else "")
