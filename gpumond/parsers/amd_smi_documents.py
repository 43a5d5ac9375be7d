"""Reads the machine-readable topology of the AMD tools: amd-smi's JSON (two layouts) and CSV, rocm-smi's JSON.

The document may stand behind a prompt or a warning. A key that was not asked for is absent, and so is its table.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gpumond.model.identity import normalise_pci_bus_id
from gpumond.model.topology_text import TextProblemKind, TopologyText
from gpumond.parsers.amd_smi import OPTION_LETTERS
from gpumond.parsers.amd_tables import MAX_GPUS, Table, Tables, options_of
from gpumond.parsers.paste import Line
from gpumond.parsers.rocm_smi import rocm_tool

_LONGEST_CELL = 64
_GPU_NUMBER = re.compile(r"[0-9]{1,4}")
_LARGEST_GPU_NUMBER = 9_999
_DOCUMENTS_TRIED = 3  # places at which JSON may begin: `[INFO] ...` looks like one too

_KEYED: Final = {  # ROCm 6.0 and 6.1
    "link_accessibility": Table.ACCESS,
    "weight": Table.WEIGHT,
    "hops": Table.HOPS,
    "link_type": Table.LINK_TYPE,
    "numa_bandwidth": Table.BANDWIDTH,
}
_LINKS: Final = {  # ROCm 6.2 and later
    "link_status": Table.ACCESS,
    "weight": Table.WEIGHT,
    "num_hops": Table.HOPS,
    "link_type": Table.LINK_TYPE,
    "bandwidth": Table.BANDWIDTH,
    "coherent": Table.COHERENT,
    "atomics": Table.ATOMICS,
    "dma": Table.DMA,
    "bi_dir": Table.BI_DIRECTIONAL,
}
_CSV: Final = {
    **_KEYED,
    "coherent": Table.COHERENT,
    "atomics": Table.ATOMICS,
    "dma": Table.DMA,
    "bi_dir": Table.BI_DIRECTIONAL,
}
_CSV_COLUMN = re.compile(r"(\w{1,32}?)_gpu_(\d{1,4})")
_ROCM_PAIR = re.compile(
    r"\(Topology\) (Weight|Hops|Link type) between DRM devices (\d{1,4}) and (\d{1,4})", re.IGNORECASE
)
_ROCM: Final = {"weight": Table.WEIGHT, "hops": Table.HOPS, "link type": Table.LINK_TYPE}
_ROCM_CARD = re.compile(r"card(\d{1,4})")


def read_amd_documents(lines: Sequence[Line]) -> TopologyText | None:
    """The first document in the lines; None where there is none of topology."""
    for document in _json_documents(lines):
        found = _read_rocm(document) if isinstance(document, dict) else None
        found = found or _read_amd(document)
        if found is not None:
            return found
    return _read_csv(lines)


def _json_documents(lines: Sequence[Line]) -> Iterator[object]:
    starts = [place for place, line in enumerate(lines) if line.text.lstrip()[:1] in ("[", "{")]
    decoder = json.JSONDecoder()
    for start in starts[:_DOCUMENTS_TRIED]:
        text = "\n".join(line.text for line in lines[start:]).lstrip()
        try:
            yield decoder.raw_decode(text)[0]
        except (ValueError, RecursionError):  # no JSON, or nested too deeply
            continue


# --- amd-smi -----------------------------------------------------------------------------------------------------------


def _read_amd(document: object) -> TopologyText | None:
    if isinstance(document, dict):  # some releases wrap the list
        document = next((value for value in document.values() if isinstance(value, list)), None)
    entries = [entry for entry in document if isinstance(entry, dict)] if isinstance(document, list) else []
    numbers = [number for entry in entries if (number := _number(entry.get("gpu"))) is not None]
    if not numbers or len(set(numbers)) != len(numbers) or len(numbers) > MAX_GPUS:
        return None
    tables = Tables(gpus=[f"GPU{number}" for number in numbers])
    has_links = any(isinstance(entry.get("links"), list) for entry in entries)
    for entry in entries:
        number = _number(entry.get("gpu"))
        if number is None:
            continue
        _note_bdf(tables, f"GPU{number}", entry.get("bdf"))
        if has_links:
            _read_links(tables, f"GPU{number}", entry.get("links"))
        else:
            _read_keyed(tables, f"GPU{number}", entry)
    if not tables.cells:
        return None
    layout = "6.2+ layout" if has_links else "6.0/6.1 layout"
    return tables.as_topology(f"amd-smi topology{options_of(tables.cells, OPTION_LETTERS)} --json ({layout})")


def _read_links(tables: Tables, gpu: str, links: object) -> None:
    known = set(tables.gpus)
    for link in links if isinstance(links, list) else []:
        number = _number(link.get("gpu")) if isinstance(link, dict) else None
        peer = f"GPU{number}"
        if number is None or peer not in known:
            tables.tell(
                TextProblemKind.UNREADABLE_CELL, 0, f"{gpu} has a link to something that is not listed"
            )
            continue
        for key, table in _LINKS.items():
            if key in link:
                tables.put(table, gpu, peer, _cell(link[key]))


def _read_keyed(tables: Tables, gpu: str, entry: Mapping[str, object]) -> None:
    known = set(tables.gpus)
    for key, table in _KEYED.items():
        cells = entry.get(key)
        for peer_key, cell in cells.items() if isinstance(cells, dict) else ():
            peer = str(peer_key).replace("gpu_", "GPU")
            if peer in known:
                tables.put(table, gpu, peer, _cell(cell))


def _note_bdf(tables: Tables, gpu: str, bdf: object) -> None:
    if not isinstance(bdf, str):
        return
    try:
        tables.pci_bus_ids[gpu] = normalise_pci_bus_id(bdf)
    except ValueError:
        tables.tell(TextProblemKind.UNREADABLE_CELL, 0, f"{gpu} has no PCI bus id but {bdf[:40]!r}")


def _number(value: object) -> int | None:
    """A GPU's number; amd-smi itself has printed it as text in some releases."""
    if isinstance(value, str) and _GPU_NUMBER.fullmatch(value):
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _LARGEST_GPU_NUMBER else None


def _cell(value: object) -> str:
    if isinstance(value, dict):  # {"value": 64, "unit": "GB/s"}
        value = value.get("value")
    text = str(value)[:_LONGEST_CELL] if isinstance(value, str | int | float) else ""
    # JSON can hide what was taken out of the paste itself: control characters as \u001b.
    return "".join(character for character in text if character.isprintable()).strip()


def _read_csv(lines: Sequence[Line]) -> TopologyText | None:
    start = next(
        (n for n, line in enumerate(lines) if line.text.startswith("gpu,") and "_gpu_" in line.text), None
    )
    if start is None:
        return None
    try:
        # Not DictReader: it would give a row with too many cells a key of None.
        rows = list(csv.reader(line.text for line in lines[start:] if line.text.strip()))
    except csv.Error:
        return None
    header, *body = rows
    columns = [_CSV_COLUMN.fullmatch(name.strip()) for name in header]
    body = [row for row in body if len(row) == len(header) and _number(row[0].strip()) is not None]
    tables = Tables(gpus=list(dict.fromkeys(f"GPU{int(row[0])}" for row in body))[:MAX_GPUS])
    known = set(tables.gpus)
    for row in body:
        gpu = f"GPU{int(row[0])}"
        if gpu in known and header[1:2] == ["bdf"]:
            _note_bdf(tables, gpu, row[1].strip())
        for column, cell in zip(columns, row, strict=True):
            peer = f"GPU{int(column[2])}" if column else ""
            if column is not None and column[1] in _CSV and gpu in known and peer in known:
                tables.put(_CSV[column[1]], gpu, peer, cell.strip()[:_LONGEST_CELL])
    if not tables.cells:
        return None
    return tables.as_topology(f"amd-smi topology{options_of(tables.cells, OPTION_LETTERS)} --csv")


# --- rocm-smi ----------------------------------------------------------------------------------------------------------


def _read_rocm(document: Mapping[str, object]) -> TopologyText | None:
    """Pairs stand under `system`, the upper triangle only: rocm-smi takes both directions for one."""
    system = document.get("system")
    tables = Tables()
    pairs = [(match, value) for key, value in _items(system) if (match := _ROCM_PAIR.fullmatch(key))]
    numbers = sorted({int(number) for match, _ in pairs for number in match.group(2, 3)})
    if not numbers or len(numbers) > MAX_GPUS:
        return None
    tables.gpus = [f"GPU{number}" for number in numbers]
    for match, value in pairs:
        table, gpu, peer = _ROCM[match[1].lower()], f"GPU{int(match[2])}", f"GPU{int(match[3])}"
        tables.put(table, gpu, peer, _cell(value))
        tables.put(table, peer, gpu, _cell(value))
    for key, card in document.items():
        match = _ROCM_CARD.fullmatch(key)
        node = dict(_items(card)).get("(Topology) Numa Node")
        if match is not None and f"GPU{int(match[1])}" in tables.gpus and node is not None:
            text = _cell(node)
            tables.numa[f"GPU{int(match[1])}"] = text if text.isdigit() else None
    return tables.as_topology(rocm_tool(tables.cells, has_numa=bool(tables.numa)) + " --json")


def _items(value: object) -> Iterator[tuple[str, object]]:
    return ((str(key), item) for key, item in value.items()) if isinstance(value, dict) else iter(())
