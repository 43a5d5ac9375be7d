"""What the readers of amd-smi and rocm-smi share: tables of one host, gathered one by one, made into a TopologyText."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gpumond.model.identity import PciBusId
from gpumond.model.topology_text import (
    LinkFact,
    P2pMatrix,
    P2pQuestion,
    TextProblem,
    TextProblemKind,
    TopologyText,
    Way,
)

MAX_GPUS: Final = 1024


class Table(StrEnum):
    """The tables by what they answer; the further ones are named as LinkFact names them."""

    ACCESS = "access"
    LINK_TYPE = "link_type"
    WEIGHT = LinkFact.WEIGHT.value
    HOPS = LinkFact.HOPS.value
    BANDWIDTH = LinkFact.BANDWIDTH.value
    COHERENT = LinkFact.COHERENT.value
    ATOMICS = LinkFact.ATOMICS.value
    DMA = LinkFact.DMA.value
    BI_DIRECTIONAL = LinkFact.BI_DIRECTIONAL.value


BASE_TABLES: Final = (Table.ACCESS, Table.WEIGHT, Table.HOPS, Table.LINK_TYPE, Table.BANDWIDTH)
"""What every release prints when none is chosen."""

_FAILED = frozenset({"XXXX", "UNKNOWN", "NA", ""})  # how the tools print what they could not read


@dataclass(slots=True)
class Tables:
    """The tables of one host while they are being read. Cells by the places of two GPUs, the diagonal left out."""

    gpus: list[str] = field(default_factory=list)
    cells: dict[Table, dict[Way, str]] = field(default_factory=dict)
    numa: dict[str, str | None] = field(default_factory=dict)
    pci_bus_ids: dict[str, PciBusId] = field(default_factory=dict)
    problems: list[TextProblem] = field(default_factory=list)

    def put(self, table: Table, gpu: str, peer: str, cell: str, *, line: int = 0) -> None:
        cells = self.cells.setdefault(table, {})
        if gpu == peer:
            return
        if cell.upper() in _FAILED or (table is Table.LINK_TYPE and cell.upper() == "N/A"):
            self.tell(TextProblemKind.UNREADABLE_CELL, line, f"{table} from {gpu} to {peer} is {cell!r}")
            return
        if cells.setdefault(Way(gpu, peer), cell) != cell:
            detail = f"{table} from {gpu} to {peer} is {cell} here and {cells[Way(gpu, peer)]} before"
            self.tell(TextProblemKind.CONTRADICTION, line, detail)

    def tell(self, kind: TextProblemKind, line: int, detail: str) -> None:
        self.problems.append(TextProblem(kind, line, detail))

    def as_topology(self, tool: str) -> TopologyText:
        access = self.cells.get(Table.ACCESS)
        return TopologyText(
            tool=tool,
            gpus=tuple(self.gpus),
            links=self.cells.get(Table.LINK_TYPE, {}),
            p2p=() if access is None else (P2pMatrix(P2pQuestion.ACCESS, "", access),),
            facts={fact: self.cells[Table(fact)] for fact in LinkFact if Table(fact) in self.cells},
            numa=self.numa,
            pci_bus_ids=self.pci_bus_ids,
            problems=(*self.problems, *self._incomplete()),
        )

    def _incomplete(self) -> Sequence[TextProblem]:
        expected = len(self.gpus) * (len(self.gpus) - 1)
        return [
            TextProblem(TextProblemKind.MISSING_ROW, 0, f"{table} has {len(cells)} of {expected} cells")
            for table, cells in self.cells.items()
            if len(cells) < expected
        ]


def options_of(cells: Mapping[Table, object], letters: Mapping[Table, str]) -> str:
    """The options that choose these tables, as the command line had them; none where all base tables are there."""
    if all(table in cells for table in BASE_TABLES):
        return ""
    return "".join(f" -{letter}" for table, letter in letters.items() if table in cells)
