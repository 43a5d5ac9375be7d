"""What a pasted topology listing says: `nvidia-smi topo`, `amd-smi topology`, `rocm-smi --showtopo`.

Devices are named as the text names them (`GPU0`, `NIC3`, `mlx5_0`); nothing here is an identity. What a text leaves
out is absent, what it shows and cannot be read is a problem: neither is ever a value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from gpumond.model.identity import PciBusId


class Way(NamedTuple):
    """From one device to another; drivers answer differently for the way back."""

    device: str
    peer: str

    @property
    def back(self) -> Way:
        return Way(self.peer, self.device)


class P2pQuestion(StrEnum):
    """What a P2P matrix answers. nvidia-smi's output does not say which one was asked; the prompt may."""

    READ = "read"
    WRITE = "write"
    NVLINK = "nvlink"
    ATOMICS = "atomics"
    PCI = "pci"
    ACCESS = "access"  # the access table of amd-smi and rocm-smi
    UNSTATED = "unstated"


class LinkFact(StrEnum):
    """The further tables of the AMD tools, by the names that the JSON of `amd-smi` has from 6.2 on, shortened."""

    WEIGHT = "weight"
    HOPS = "hops"
    BANDWIDTH = "numa_bw"
    COHERENT = "coherent"
    ATOMICS = "atomics"
    DMA = "dma"
    BI_DIRECTIONAL = "bi_dir"


class TextProblemKind(StrEnum):
    NO_MATRIX = "no_matrix"
    TOO_MANY_DEVICES = "too_many_devices"
    MISSING_ROW = "missing_row"  # half a matrix
    SHORT_ROW = "short_row"
    MISPLACED_DIAGONAL = "misplaced_diagonal"  # cells were lost or shifted
    UNREADABLE_CELL = "unreadable_cell"
    FUSED_CELLS = "fused_cells"  # repaired
    ASYMMETRIC = "asymmetric"
    CPU_LIST_CUT = "cpu_list_cut"  # by nvidia-smi itself
    AFFINITY_UNCLEAR = "affinity_unclear"
    NIC_UNNAMED = "nic_unnamed"
    OTHER_HOST = "other_host"  # ignored: the first host of a paste is the one
    CONTRADICTION = "contradiction"  # two matrices of one host that differ; the first stands
    NO_PCIE_TREE = "no_pcie_tree"


@dataclass(frozen=True, slots=True)
class TextProblem:
    """What was wrong with a text. `line` counts from 1; 0 where it is not one line's fault."""

    kind: TextProblemKind
    line: int
    detail: str


@dataclass(frozen=True, slots=True)
class P2pMatrix:
    """One P2P matrix. `argument` is what stood behind `-p2p` in the prompt, empty where no prompt was pasted."""

    question: P2pQuestion
    argument: str
    statuses: dict[Way, str]


@dataclass(frozen=True, slots=True)
class TopologyText:
    """One host as a text shows it. `links` and every other matrix are without the diagonal.

    `shows_nvlinks` is False for a matrix of PCIe paths only (`topo -mp`): then no `NV#` does not mean no NVLink.
    `gpu_numa_ids` is None where the text has no such column.
    """

    tool: str
    gpus: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    nic_names: dict[str, str] = field(default_factory=dict)
    links: dict[Way, str] = field(default_factory=dict)
    p2p: tuple[P2pMatrix, ...] = ()
    facts: dict[LinkFact, dict[Way, str]] = field(default_factory=dict)
    cpu_affinity: dict[str, str | None] = field(default_factory=dict)
    numa: dict[str, str | None] = field(default_factory=dict)
    gpu_numa_ids: dict[str, str | None] | None = None
    pci_bus_ids: dict[str, PciBusId] = field(default_factory=dict)
    shows_nvlinks: bool = True
    problems: tuple[TextProblem, ...] = ()
