"""NCCL's own log (NCCL_DEBUG=INFO): which transport, how many channels, which algorithm. Pure.

Text of every era since 2.3, of RCCL, and of several ranks one after the other (nccl-output.md 10). Lines of anything
else may stand between. Every pattern is bounded and memory too, so that a hostile text costs no more than its length.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gpumond.model.transport import AlgorithmChoice, PairTransport, TransportReport

MAX_LINE_CHARS = 4096
MAX_CONNECTIONS = 200_000
"""64 ranks that all talk to each other on 32 channels make 129,024."""
MAX_CHOICES = 256
MAX_WARNINGS = 8
MAX_WARNING_CHARS = 300

_CONNECTION = re.compile(
    r"\b(?:Ring|Channel) (?P<channel>\d{1,4})(?:/(?P<connection>\d{1,4}))? : (?P<source>\d{1,7})(?:\[\w{1,16}\])? -> "
    r"(?P<target>\d{1,7})(?:\[\w{1,16}\])?(?: \[(?:send|receive)\])? via (?P<via>[^\r\n]{1,200})",
    re.ASCII,
)
_RCCL_SUFFIX = re.compile(r" comm 0x[0-9a-f]{1,16}\b.*")
_COUNTS = re.compile(
    r"\b(?P<collective>\d{1,4}) coll channels,"
    r"(?: \d{1,4} collnet channels,)?(?: (?P<nvls>\d{1,4}) nvls channels,)? (?P<p2p>\d{1,4}) p2p channels",
    re.ASCII,
)
_GDR = re.compile(r"\bConnected all rings, use ring PXN \d GDR ([01])\b", re.ASCII)
_VERSION = re.compile(r"\b[NR]CCL version(?: :)? (\d[\w.+:-]{0,63})", re.ASCII)
_CHOICE = re.compile(
    r"\b(?P<operation>[A-Z]\w{1,31}): (?P<size>\d{1,18}) Bytes -> Algo (?P<algorithm>\w{1,32}) "
    r"proto (?P<protocol>\w{1,32})(?: channel\{Lo\.\.Hi\}=\{(?P<low>\d{1,4})\.\.(?P<high>\d{1,4})\})?",
    re.ASCII,
)
_WARNING = re.compile(r"\bNCCL WARN (?P<text>.{1,2000})")

_SHARED_MEMORY_BEFORE_2_13 = "direct shared memory"
_P2P_POINTER = "direct pointer"


def transport_of(via: str) -> str:
    """NCCL's word without device numbers, proxy ranks and directions.

    `P2P/CUMEM/read` is `P2P/CUMEM`, `SHM/direct/direct` is `SHM/direct`, `NET/IB/0(3)/GDRDMA/Shared` is `NET/IB/GDRDMA`.
    """
    text = _RCCL_SUFFIX.sub("", via).strip()
    if text.startswith(_SHARED_MEMORY_BEFORE_2_13):
        return "SHM/direct"
    kind, *details = text.split("/")
    if not details:
        return kind
    how = "direct" if details[0] == _P2P_POINTER else details[0]
    is_gdr = kind == "NET" and any(detail.startswith("GDRDMA") for detail in details)
    return f"{kind}/{how}/GDRDMA" if is_gdr else f"{kind}/{how}"


@dataclass(slots=True)
class LogReader:
    """Reads lines of any number of logs of one run."""

    _connections: dict[tuple[str, ...], str] = field(default_factory=dict)
    _choices: dict[tuple[str, int], AlgorithmChoice] = field(default_factory=dict)
    _warnings: dict[str, None] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _uses_gdr: bool | None = None
    _library_version: str = ""
    _is_complete: bool = True

    def read(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._read_line(line[:MAX_LINE_CHARS])

    def note_cut(self) -> None:
        """Whoever reads did not read all there was."""
        self._is_complete = False

    def report(self) -> TransportReport | None:
        """None where nothing was said by NCCL."""
        report = TransportReport(
            pairs=self._pairs(),
            nvls_channels=self._counts.get("nvls"),
            collective_channels=self._counts.get("collective"),
            p2p_channels=self._counts.get("p2p"),
            uses_gdr=self._uses_gdr,
            library_version=self._library_version,
            choices=tuple(sorted(self._choices.values(), key=lambda each: (each.operation, each.size_bytes))),
            warnings=tuple(self._warnings),
        )
        if report == TransportReport():
            return None
        return report if self._is_complete else replace(report, is_complete=False)

    def _read_line(self, line: str) -> None:
        if match := _CONNECTION.search(line):
            self._add_connection(match)
        elif match := _CHOICE.search(line):
            self._add_choice(match)
        elif match := _COUNTS.search(line):
            self._add_counts(match)
        elif match := _GDR.search(line):
            self._uses_gdr = bool(self._uses_gdr) or match[1] == "1"
        elif match := _WARNING.search(line):
            if len(self._warnings) < MAX_WARNINGS:
                self._warnings.setdefault(match["text"].strip()[:MAX_WARNING_CHARS])
        elif not self._library_version and (match := _VERSION.search(line)):
            self._library_version = match[1]

    def _add_connection(self, match: re.Match[str]) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            self._is_complete = False
            return
        # Both ends of a network connection tell of it, and so does every communicator over the same GPUs.
        key = (match["channel"], match["connection"] or "", match["source"], match["target"])
        self._connections[key] = transport_of(match["via"])

    def _add_choice(self, match: re.Match[str]) -> None:
        if len(self._choices) >= MAX_CHOICES:
            self._is_complete = False
            return
        low, high = match["low"], match["high"]
        choice = AlgorithmChoice(
            operation=match["operation"],
            size_bytes=int(match["size"]),
            algorithm=match["algorithm"],
            protocol=match["protocol"],
            channels=None if low is None else int(high) - int(low) + 1,
        )
        self._choices[choice.operation, choice.size_bytes] = choice

    def _add_counts(self, match: re.Match[str]) -> None:
        for name, count in match.groupdict().items():
            if count is not None:
                self._counts[name] = max(int(count), self._counts.get(name, 0))

    def _pairs(self) -> tuple[PairTransport, ...]:
        counts = Counter(
            (int(source), int(target), transport)
            for (_, _, source, target), transport in self._connections.items()
        )
        return tuple(PairTransport(*pair, channels) for pair, channels in sorted(counts.items()))


def parse_nccl_log(text: str) -> TransportReport | None:
    """What one text says."""
    reader = LogReader()
    reader.read(text.splitlines())
    return reader.report()
