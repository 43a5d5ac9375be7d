"""Reads the text of `amd-smi topology`, ROCm 6.0 to 7.x: titled tables, rows and columns named by PCI bus id."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gpumond.model.identity import normalise_pci_bus_id
from gpumond.model.topology_text import TextProblemKind, TopologyText
from gpumond.parsers.amd_tables import MAX_GPUS, Table, Tables, options_of
from gpumond.parsers.paste import Line

_TITLE = re.compile(r"(?:^|\s)([A-Z]+(?:[ -][A-Z]+)?) TABLE:?\s*$")
_TABLES: Final = {
    "ACCESS": Table.ACCESS,
    "WEIGHT": Table.WEIGHT,
    "HOPS": Table.HOPS,
    "LINK TYPE": Table.LINK_TYPE,
    "NUMA BW": Table.BANDWIDTH,
    "CACHE COHERANCY": Table.COHERENT,  # as the tool spells it
    "CACHE COHERENCY": Table.COHERENT,
    "ATOMICS": Table.ATOMICS,
    "DMA": Table.DMA,
    "BI-DIRECTIONAL": Table.BI_DIRECTIONAL,
}
OPTION_LETTERS: Final = {
    Table.ACCESS: "a",
    Table.WEIGHT: "w",
    Table.HOPS: "o",
    Table.LINK_TYPE: "t",
    Table.BANDWIDTH: "b",
    Table.COHERENT: "c",
    Table.ATOMICS: "n",
    Table.DMA: "d",
    Table.BI_DIRECTIONAL: "z",
}
_BDF = re.compile(r"(?<![0-9A-Fa-f:])[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")


def read_amd_smi(lines: Sequence[Line]) -> TopologyText | None:
    """The tables of the first host; None where no line is a title of one."""
    tables = Tables()
    columns: dict[str, str] = {}  # of the table that is open: bus id -> GPU
    table: Table | None = None
    for line in lines:
        title = _TITLE.search(line.text)
        if title is not None and title[1] in _TABLES:
            table, columns = _TABLES[title[1]], {}
            continue
        bdfs = _BDF.findall(line.text) if table is not None else []
        if not bdfs or table is None:
            continue
        if not columns:
            names = [str(normalise_pci_bus_id(bdf)) for bdf in bdfs]
            if not _same_gpus(tables, names, line):
                break
            columns = dict(zip(names, tables.gpus, strict=True))
        else:
            _read_row(tables, table, columns, line)
    if not tables.gpus:
        return None
    return tables.as_topology(f"amd-smi topology{options_of(tables.cells, OPTION_LETTERS)}")


def _same_gpus(tables: Tables, bdfs: Sequence[str], line: Line) -> bool:
    """Name the GPUs by the first table; False where a later one is of another host."""
    if not tables.gpus:
        if len(bdfs) > MAX_GPUS or len(set(bdfs)) != len(bdfs):
            detail = f"{len(bdfs)} GPUs in one table, or one of them twice"
            tables.tell(TextProblemKind.TOO_MANY_DEVICES, line.number, detail)
            return False
        tables.gpus = [f"GPU{place}" for place, _ in enumerate(bdfs)]
        tables.pci_bus_ids = {
            gpu: normalise_pci_bus_id(bdf) for gpu, bdf in zip(tables.gpus, bdfs, strict=True)
        }
    if list(tables.pci_bus_ids.values()) == list(bdfs):
        return True
    detail = f"a second host begins here ({len(bdfs)} GPUs); it is ignored"
    tables.tell(TextProblemKind.OTHER_HOST, line.number, detail)
    return False


def _read_row(tables: Tables, table: Table, columns: Mapping[str, str], line: Line) -> None:
    name = _BDF.search(line.text)
    if name is None:
        return
    bdf = str(normalise_pci_bus_id(name[0]))
    cells = line.text[name.end() :].split()
    if bdf not in columns:
        tables.tell(
            TextProblemKind.MISPLACED_DIAGONAL, line.number, f"{bdf} has a row in {table} and no column"
        )
        return
    if len(cells) != len(columns):
        detail = f"{bdf} has {len(cells)} of {len(columns)} cells in {table}"
        tables.tell(TextProblemKind.SHORT_ROW, line.number, detail)
        return
    for peer, cell in zip(tables.gpus, cells, strict=True):
        tables.put(table, columns[bdf], peer, cell, line=line.number)
