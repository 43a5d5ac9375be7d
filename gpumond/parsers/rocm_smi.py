"""Reads `rocm-smi --showtopo` and its parts: tables "between two GPUs" and lines of NUMA nodes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from gpumond.model.topology_text import TextProblemKind, TopologyText
from gpumond.parsers.amd_tables import MAX_GPUS, Table, Tables
from gpumond.parsers.paste import Line

_TITLE = re.compile(
    r"(Weight|Hops|Link Type|Link accessibility|Bandwidth) between two (?:GPUs|nodes)", re.IGNORECASE
)
_TABLES: Final = {
    "weight": Table.WEIGHT,
    "hops": Table.HOPS,
    "link type": Table.LINK_TYPE,
    "link accessibility": Table.ACCESS,
    "bandwidth": Table.BANDWIDTH,
}
_NUMA = re.compile(r"GPU\[(\d{1,4})\]\s{0,16}:\s{0,8}\(Topology\) Numa (Node|Affinity):\s{0,8}(-?\d{1,6})")
_GPU = re.compile(r"(?<!\w)GPU\d{1,4}(?!\w)")

OPTIONS: Final = {
    Table.WEIGHT: "--showtopoweight",
    Table.HOPS: "--showtopohops",
    Table.LINK_TYPE: "--showtopotype",
    Table.ACCESS: "--showtopoaccess",
    Table.BANDWIDTH: "--shownodesbw",
}
_SHOWTOPO = (Table.WEIGHT, Table.HOPS, Table.LINK_TYPE)


def read_rocm_smi(lines: Sequence[Line]) -> TopologyText | None:
    """The tables of the first host; None where no line is a title of one, nor a NUMA node."""
    tables = Tables()
    columns: list[str] = []
    table: Table | None = None
    for line in lines:
        title = _TITLE.search(line.text)
        numa = _NUMA.search(line.text)
        if title is not None:
            table, columns = _TABLES[title[1].lower()], []
        elif numa is not None:
            _read_numa(tables, numa)
        elif table is not None:
            names = _GPU.findall(line.text)
            if not columns and names:
                columns = names
                if not same_gpus(tables, columns, line.number):
                    break
            elif names:
                _read_row(tables, table, columns, line)
    if not tables.gpus:
        return None
    return tables.as_topology(rocm_tool(tables.cells, has_numa=bool(tables.numa)))


def same_gpus(tables: Tables, names: Sequence[str], line: int) -> bool:
    """Take the GPUs of the first table; False where a later one is of another host."""
    if len(names) > MAX_GPUS or len(set(names)) != len(names):
        tables.tell(
            TextProblemKind.TOO_MANY_DEVICES, line, f"{len(names)} GPUs in one header, or one of them twice"
        )
        return False
    if not tables.cells:
        tables.gpus = list(names)
    if tables.gpus == list(names):
        return True
    tables.tell(
        TextProblemKind.OTHER_HOST, line, f"a second host begins here ({len(names)} GPUs); it is ignored"
    )
    return False


def rocm_tool(tables: Collection[Table], *, has_numa: bool) -> str:
    """The command that prints these tables."""
    options = [option for table, option in OPTIONS.items() if table in tables]
    if all(table in tables for table in _SHOWTOPO) and has_numa:
        options = [
            "--showtopo",
            *(OPTIONS[table] for table in OPTIONS if table in tables and table not in _SHOWTOPO),
        ]
    elif has_numa:
        options.append("--showtoponuma")
    return " ".join(["rocm-smi", *options])


def _read_numa(tables: Tables, match: re.Match[str]) -> None:
    gpu, number = f"GPU{match[1]}", match[3]
    if gpu not in tables.gpus and not tables.cells and len(tables.gpus) < MAX_GPUS:
        tables.gpus.append(gpu)  # `--showtoponuma` alone
    if match[2] == "Node" and gpu in tables.gpus:
        # -1 is the kernel's word for "not known".
        tables.numa.setdefault(gpu, None if number.startswith("-") else number)


def _read_row(tables: Tables, table: Table, columns: Sequence[str], line: Line) -> None:
    name = _GPU.search(line.text)
    if name is None or name[0] not in columns:
        return
    cells = line.text[name.end() :].split()
    if len(cells) != len(columns):
        detail = f"{name[0]} has {len(cells)} of {len(columns)} cells in {table}"
        tables.tell(TextProblemKind.SHORT_ROW, line.number, detail)
        return
    for peer, cell in zip(columns, cells, strict=True):
        tables.put(table, name[0], peer, cell, line=line.number)
