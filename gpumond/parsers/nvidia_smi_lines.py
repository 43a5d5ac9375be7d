"""One line of `nvidia-smi topo`: is it a header, a row, and what is in it.

Never by column position: pastes lose tabs, blanks between cells and the left margin. The header says how many cells a
row has, the closed alphabet of labels where each cell ends; what is left is affinity (reference: 445 real pastes).
Knows one line at a time; what belongs together is the business of nvidia_smi.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice, pairwise
from typing import Final

MAX_DEVICES: Final = 1024
"""GPUs and NICs of one host. The largest seen is 16 GPUs and 30 virtual functions; the bound keeps n x n in memory."""

_NAMES_LOOKED_AT = 8  # before the device of a row there can be a log prefix with names in it


class Title(StrEnum):
    """The columns behind the matrix."""

    CPU = "CPU Affinity"
    NUMA = "NUMA Affinity"
    GPU_NUMA_ID = "GPU NUMA ID"


@dataclass(frozen=True, slots=True)
class Header:
    devices: tuple[str, ...]
    titles: tuple[Title, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row as far as it can be read; `cells` has None for what is there and is no label."""

    device: str
    cells: tuple[str | None, ...]
    rest: str
    is_fused: bool


SELF: Final = "X"
PCIE_LABELS: Final = frozenset({"SYS", "NODE", "PHB", "PXB", "PIX", "SOC", "PSB"})
"""SOC and PSB are from the first drivers that had the command."""
P2P_LABELS: Final = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})

_GAP = re.compile(r"[ \t]*")
_TITLE = re.compile(r"CPU\s+Affinity|NUMA\s+Affinity|GPU\s+NUMA\s+ID")
# A NIC of another name than mlx5_0 or NIC0 (ibp24s0, bnxt_re0) has a digit in it; a word of prose has none.
_DEVICE = re.compile(
    r"(?:GPU|NIC)\d{1,4}|mlx\d_(?:bond_|an)?\d{1,4}|(?=[a-z_.-]{0,40}\d)[a-z][a-z0-9_.-]{0,62}(?![a-z0-9])"
)
_CELL = re.compile(r"(?:NV(?:3[0-6]|[12]\d|\d)|SYS|NODE|PHB|PXB|PIX|SOC|PSB|OK|[CGT]?NS|DR|X|U)(?![a-z])")
_CPU_LIST = r"\d+(?:-\d+)?(?:, ?\d+(?:-\d+)?)*"
_AFFINITY = re.compile(rf"N/A|{_CPU_LIST}")
_SIX_NUMBERS = re.compile(r"\d{1,5}(?:,\d{1,5}){5}")
_CUT_STRIDE = 2
_CPU_DIGITS = 5
_WORD = re.compile(r"\S+")
_PROSE = re.compile(r"[a-z]+[.,:;]?")


def read_header(text: str) -> Header | None:
    """The header in a line, also behind a prefix; None where the line is none."""
    for start in _device_starts(text):
        header = _header_from(text, start) if text.startswith("GPU", start) else None
        if header is not None:
            return header
    return None


def read_more_header(text: str) -> Header | None:
    """The second line of a header that was broken in two."""
    return _header_from(text, _after_gap(text, 0))


def read_row(text: str, devices: frozenset[str], columns: int) -> Row | None:
    """The row of one of `devices` in a line, also behind a prefix; None where the line is none."""
    for start in _device_starts(text):
        name = _DEVICE.match(text, start)
        if name is None or name[0] not in devices:
            continue
        row = _row_from(text, name[0], name.end(), columns)
        if row is not None and any(row.cells):
            return row
    return None


def is_more_of_a_row(text: str) -> bool:
    """Whether a line has labels and affinity only: the rest of a row that was broken in two."""
    position = _after_gap(text, 0)
    while position < len(text):
        part = _CELL.match(text, position) or _AFFINITY.match(text, position)
        if part is None:
            return False
        position = _after_gap(text, part.end())
    return text.strip() != ""


def has_more_cells(row: Row) -> bool:
    """Whether labels follow the last named column: the header lost its end."""
    return _CELL.match(row.rest, _after_gap(row.rest, 0)) is not None


def read_nic_names(text: str) -> dict[str, str]:
    """`NIC0: mlx5_0` of the NIC legend, several of them where lines were joined."""
    return {
        match[1]: match[2] for match in re.finditer(r"(NIC\d{1,4})\s?:\s{0,8}([\w.-]+?)(?=\s|$|NIC\d)", text)
    }


def split_affinity(row: Row, titles: tuple[Title, ...]) -> dict[Title, str | None] | None:
    """The columns behind the cells, None each where blank or `N/A`; None altogether where they cannot be told apart."""
    values = _by_tabs(row.rest, titles) if "\t" in row.rest else None
    if values is None:
        values = _by_words(row.rest, titles)
    if values is None:
        return None
    return {
        title: None if value in ("", "N/A") else value for title, value in zip(titles, values, strict=True)
    }


def is_cut_cpu_list(cpus: str) -> bool:
    """Whether nvidia-smi itself dropped CPUs: it prints six with a stride of two where numbering is interleaved.

    16 of 18 such hosts had 64 to 112 CPUs by their own `lscpu` (reference/topology.md 3.1).
    """
    if _SIX_NUMBERS.fullmatch(cpus) is None:
        return False
    return {b - a for a, b in pairwise(int(number) for number in cpus.split(","))} == {_CUT_STRIDE}


def _device_starts(text: str) -> Iterator[int]:
    return (match.start() for match in islice(_DEVICE.finditer(text), _NAMES_LOOKED_AT))


def _header_from(text: str, start: int) -> Header | None:
    devices: list[str] = []
    titles: list[Title] = []
    position, end = start, len(text)
    while position < end:
        title = _TITLE.match(text, position)
        device = None if title or titles else _DEVICE.match(text, position)
        if title is not None:
            titles.append(Title(" ".join(title[0].split())))
            position = _after_gap(text, title.end())
        elif device is not None:
            devices.append(device[0])
            position = _after_gap(text, device.end())
        else:
            return None
    is_new = len(set(devices)) == len(devices) and len(set(titles)) == len(titles)
    return Header(tuple(devices), tuple(titles)) if is_new else None


def _row_from(text: str, device: str, position: int, columns: int) -> Row | None:
    cells: list[str | None] = []
    is_fused = False
    while len(cells) < columns:
        start = _after_gap(text, position)
        cell = _CELL.match(text, start)
        if cell is None:
            word = _WORD.match(text, start)
            if word is None or _AFFINITY.match(word[0]):
                break
            if _PROSE.fullmatch(word[0]):
                return None
            cells.append(None)
            position = word.end()
            continue
        is_fused = is_fused or (start == position and position > 0)
        cells.append(cell[0])
        position = cell.end()
    label, position = _settle_fused(cells[-1], text, position) if cells else (None, position)
    rest = text[position:]
    return Row(device, (*cells[:-1], label) if cells else (), rest, is_fused or rest[:1].strip() != "")


def _settle_fused(label: str | None, text: str, position: int) -> tuple[str | None, int]:
    """Where an `NV<k>` ends that has grown together with the CPU list behind it.

    `NV180-31` can only be NV18 and 0-31, because no list runs from 80 to 31. `NV124-47` can be two things, and then
    the label is not known from this row (the row of the peer has it).
    """
    if label is None or not label.startswith("NV") or not re.match(r"[\d,-]", text[position : position + 1]):
        return label, position
    digits = label[2:]
    ends = [position - len(digits) + length for length in range(1, len(digits) + 1)]
    legal = [end for end in ends if _is_ascending(text[end:])]
    if len(legal) != 1:
        return None, position
    start = position - len(label)
    return text[start : legal[0]], legal[0]


def _is_ascending(text: str) -> bool:
    match = _AFFINITY.match(text)
    if match is None or match[0] == "N/A":
        return match is not None
    last = -1
    for number in re.findall(r"\d+", match[0][:4096]):
        if len(number) > _CPU_DIGITS or int(number) <= last or (number[0] == "0" and number != "0"):
            return False
        last = int(number)
    return match.end() == len(text) or text[match.end()] not in "-,"


def _by_tabs(rest: str, titles: tuple[Title, ...]) -> list[str] | None:
    fields = [field.strip() for field in rest.split("\t")]
    if fields[0] == "":
        del fields[0]
    if len(fields) < len(titles) or not all(_AFFINITY.fullmatch(field) for field in fields if field):
        return None
    values = fields[: len(titles)]
    if titles and titles[-1] is Title.GPU_NUMA_ID:
        values[-1] = fields[-1]  # nvidia-smi writes two tabs before this column
    return values


def _by_words(rest: str, titles: tuple[Title, ...]) -> list[str] | None:
    words = _AFFINITY.findall(rest)
    if len(words) == len(titles):
        return list(words)
    if len(words) > len(titles):
        return None
    # Blank columns left no trace. The last column is never blank: it has a number or `N/A`.
    last = [words.pop()] if words and titles[-1] is Title.GPU_NUMA_ID else []
    blanks = len(titles) - len(last)
    if not words:
        return [""] * blanks + last
    if blanks == len(words):
        return [*words, *last]
    # One value for two columns: only a list of CPUs looks like one.
    return [words[0], "", *last] if set(words[0]) & {"-", ","} else None


def _after_gap(text: str, position: int) -> int:
    gap = _GAP.match(text, position)
    return gap.end() if gap else position
