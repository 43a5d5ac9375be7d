"""Reads what people paste of `nvidia-smi topo -m`, `-mp` and `-p2p *`, several of them in one text.

Owns which lines belong together, which matrix is which, and what is wrong with them. A row is believed only where its
own `X` stands in its own column: lost or shifted cells show there. Nothing is guessed; what cannot be told is left out
and reported. The first host of a paste is the one; what follows from another is ignored and reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpumond.model.topology_text import (
    P2pMatrix,
    P2pQuestion,
    TextProblem,
    TextProblemKind,
    TopologyText,
    Way,
)
from gpumond.parsers.nvidia_smi_lines import (
    MAX_DEVICES,
    P2P_LABELS,
    SELF,
    Header,
    Row,
    Title,
    has_more_cells,
    is_cut_cpu_list,
    is_more_of_a_row,
    read_header,
    read_more_header,
    read_nic_names,
    read_row,
    split_affinity,
)
from gpumond.parsers.paste import Line

_PROMPT = re.compile(
    r"topo\s{1,8}(-mp|-m|--matrix_pci|--matrix|-p2p|--p2pstatus)(?![\w-])(?:[ =]{1,8}(\S{1,16}))?"
)
_PCIE_ONLY: Final = frozenset({"-mp", "--matrix_pci"})
_P2P: Final = frozenset({"-p2p", "--p2pstatus"})
_REFUSED = 'Option "-p2p"'  # `is missing its value`: no matrix follows
_LEGEND_NVLINK = re.compile(r"NV#\s{0,8}=")
_LEGEND_PIX = re.compile(r"PIX\s{0,8}=")  # the last line before that of NV#

_MOST_NAMED = 8  # names in one problem
_MOST_PAIRS = 20  # asymmetric pairs told one by one

_QUESTIONS: Final = {
    "r": P2pQuestion.READ,
    "w": P2pQuestion.WRITE,
    "n": P2pQuestion.NVLINK,
    "a": P2pQuestion.ATOMICS,
    "p": P2pQuestion.PCI,
}


@dataclass(slots=True)
class _Block:
    """One printed matrix while it is being read."""

    line: int
    header: Header
    option: str = ""
    argument: str = ""
    names: frozenset[str] = frozenset()
    rows: dict[str, Row] = field(default_factory=dict)
    row_lines: dict[str, int] = field(default_factory=dict)
    nic_names: dict[str, str] = field(default_factory=dict)
    legend: set[str] = field(default_factory=set)
    problems: list[TextProblem] = field(default_factory=list)
    ways: dict[Way, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = frozenset(self.header.devices)

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(device for device in self.header.devices if device.startswith("GPU"))

    @property
    def nics(self) -> tuple[str, ...]:
        return tuple(device for device in self.header.devices if not device.startswith("GPU"))

    @property
    def is_p2p(self) -> bool:
        """By its labels; by the prompt and the missing affinity where there is only one GPU and so no label."""
        labels = set(self.ways.values())
        if labels:
            return labels <= P2P_LABELS
        return self.option in _P2P or not (self.header.titles or self.nics)

    @property
    def is_pcie_only(self) -> bool:
        """`topo -mp` has the same table without NVLinks; only the prompt and the legend tell."""
        if any(label.startswith("NV") for label in self.ways.values()):
            return False
        return self.option in _PCIE_ONLY or self.legend == {"PIX"}

    def tell(self, kind: TextProblemKind, line: int, detail: str) -> None:
        self.problems.append(TextProblem(kind, line, detail))


def read_nvidia_smi(lines: Sequence[Line]) -> TopologyText | None:
    """The first host in the lines; None where there is no matrix of nvidia-smi in them."""
    blocks = list(_read_blocks(lines))
    if blocks and len(blocks[-1].names) > MAX_DEVICES:
        detail = f"{len(blocks[-1].names)} devices in one header, more than {MAX_DEVICES}"
        return TopologyText(
            "", problems=(TextProblem(TextProblemKind.TOO_MANY_DEVICES, blocks[-1].line, detail),)
        )
    blocks = [block for block in blocks if block.rows]
    for block in blocks:
        _read_ways(block)
    return _assemble(blocks) if blocks else None


# --- which lines belong together ---------------------------------------------------------------------------------------


def _read_blocks(lines: Sequence[Line]) -> Iterator[_Block]:
    """The matrices in order; one with too many devices is the last, whatever follows."""
    option = argument = ""
    block: _Block | None = None
    open_row = ""  # the text of a row that may go on with the next line
    header_end = 0
    for line in lines:
        prompt = _PROMPT.search(line.text)
        if prompt is not None:
            option, argument, open_row = prompt[1], prompt[2] or "", ""
            continue
        if _REFUSED in line.text:
            option = argument = ""
            continue
        if block is not None and line.number == header_end + 1 and _extend_header(block, line.text):
            header_end = line.number
            continue
        header = _read_header(line.text, block, option)
        if header is not None:
            if block is not None:
                yield block
            block = _Block(line.number, header, option, argument)
            option = argument = open_row = ""
            header_end = line.number
            if len(block.names) > MAX_DEVICES:
                break
        elif block is not None:
            open_row = _read_line(block, line, open_row)
    if block is not None:
        yield block


def _read_header(text: str, block: _Block | None, option: str) -> Header | None:
    header = read_header(text)
    if header is None or header.titles or len(header.devices) > 1:
        return header
    # One name alone is the header of a P2P matrix of one GPU, or a row whose cells are on the next line.
    return header if block is None or option in _P2P else None


def _read_line(block: _Block, line: Line, open_row: str) -> str:
    """Give a line to the block that is open; returns the text of a row that may go on with the next line."""
    columns = len(block.header.devices)
    is_more = bool(open_row) and is_more_of_a_row(line.text)
    text = f"{open_row} {line.text}" if is_more else line.text
    row = read_row(text, block.names, columns)
    if row is None:
        _read_legend(block, line.text)
        return ""
    if is_more or row.device not in block.rows:
        block.rows[row.device] = row
        block.row_lines.setdefault(row.device, line.number)
    elif block.rows[row.device].cells != row.cells:
        detail = f"a second row of {row.device} differs from the first; the first stands"
        block.tell(TextProblemKind.CONTRADICTION, line.number, detail)
        return ""
    is_whole = len(row.cells) == columns and (row.rest.strip() or not block.header.titles)
    return "" if is_whole else text


def _extend_header(block: _Block, text: str) -> bool:
    more = read_more_header(text)
    if more is None or not (more.devices or more.titles) or block.names & set(more.devices):
        return False
    if block.header.titles and more.devices:
        return False
    block.header = Header(block.header.devices + more.devices, block.header.titles + more.titles)
    block.names = frozenset(block.header.devices)
    return True


def _read_legend(block: _Block, text: str) -> None:
    if _LEGEND_PIX.search(text):
        block.legend.add("PIX")
    if _LEGEND_NVLINK.search(text):
        block.legend.add("NV")
    for label, name in read_nic_names(text).items():
        if label in block.names:
            block.nic_names.setdefault(label, name)


# --- one matrix --------------------------------------------------------------------------------------------------------


def _read_ways(block: _Block) -> None:
    devices = block.header.devices
    for place, device in enumerate(devices):
        row = block.rows.get(device)
        if row is None:
            continue
        line = block.row_lines[device]
        cells = _trusted_cells(block, row, place, line)
        unreadable = [peer for peer, cell in zip(devices, cells, strict=False) if cell is None]
        if unreadable:
            block.tell(
                TextProblemKind.UNREADABLE_CELL, line, f"no label for {device} to {_named(unreadable)}"
            )
        for peer, cell in zip(devices, cells, strict=False):
            if cell is not None and peer != device:
                block.ways[Way(device, peer)] = cell
        if row.is_fused:
            block.tell(TextProblemKind.FUSED_CELLS, line, f"cells of {device} had grown together")
        if has_more_cells(row):
            block.tell(TextProblemKind.SHORT_ROW, line, f"{device} has more cells than the header has names")
    missing = [device for device in devices if device not in block.rows]
    if missing:
        block.tell(TextProblemKind.MISSING_ROW, block.line, f"no row of {_named(missing)}")


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _trusted_cells(block: _Block, row: Row, place: int, line: int) -> tuple[str | None, ...]:
    """The cells of a row that are surely in their own column."""
    cells = row.cells
    if SELF in cells[:place] or (len(cells) > place and cells[place] != SELF) or SELF in cells[place + 1 :]:
        block.tell(
            TextProblemKind.MISPLACED_DIAGONAL, line, f"the X of {row.device} is not in its own column"
        )
        return ()
    missing = len(block.header.devices) - len(cells)
    if missing == 0:
        return cells
    block.tell(
        TextProblemKind.SHORT_ROW, line, f"{row.device} lacks {missing} of {len(block.header.devices)} cells"
    )
    # A row that was cut off is right up to there. One that goes on with affinity has lost a cell somewhere behind
    # the X, or anywhere if the X is lost too.
    if not row.rest.strip():
        return cells
    return cells[: place + 1] if len(cells) > place else ()


# --- one host ----------------------------------------------------------------------------------------------------------


def _assemble(blocks: Sequence[_Block]) -> TopologyText:
    matrices = [block for block in blocks if not block.is_p2p]
    problems: list[TextProblem] = []
    matrix = _merge_matrices(matrices, problems)
    base = matrix or blocks[0]
    end = next((b.line for b in matrices if matrix is not None and not _is_same_host(matrix, b)), None)
    p2p = _collect_p2p([b for b in blocks if b.is_p2p], base, end, problems)
    if matrix is None:
        return TopologyText(_tool(None, p2p), base.gpus, p2p=tuple(p2p), problems=tuple(problems))
    columns = _read_affinity(matrix, problems)
    problems += [*matrix.problems, *_asymmetric(matrix.ways), *_oddities(matrix, columns)]
    return TopologyText(
        tool=_tool(matrix, p2p),
        gpus=matrix.gpus,
        nics=matrix.nics,
        nic_names=_nic_names(matrix, problems),
        links=matrix.ways,
        p2p=tuple(p2p),
        cpu_affinity=columns.get(Title.CPU, {}),
        numa=columns.get(Title.NUMA, {}),
        gpu_numa_ids=columns.get(Title.GPU_NUMA_ID),
        shows_nvlinks=not matrix.is_pcie_only,
        problems=tuple(sorted(problems, key=lambda problem: problem.line)),
    )


def _merge_matrices(matrices: Sequence[_Block], problems: list[TextProblem]) -> _Block | None:
    """The matrix that shows most of the first host; the others are repeats, PCIe views, or other hosts."""
    best = matrices[0] if matrices else None
    for block in matrices[1:]:
        if best is None or not _is_same_host(best, block):
            detail = f"a second host begins here ({len(block.gpus)} GPUs); it is ignored"
            problems.append(TextProblem(TextProblemKind.OTHER_HOST, block.line, detail))
            break
        if best.is_pcie_only and not block.is_pcie_only:
            best = block
    return best


def _is_same_host(one: _Block, other: _Block) -> bool:
    """Same devices, same labels; `-m` shows NVLinks in the place of the paths that `-mp` shows."""
    if one.header.devices != other.header.devices:
        return False
    if not one.is_pcie_only and not other.is_pcie_only:
        return one.ways == other.ways
    shared = one.ways.keys() & other.ways.keys()
    pairs = ((one.ways[way], other.ways[way]) for way in shared)
    return all(a == b or a.startswith("NV") or b.startswith("NV") for a, b in pairs)


def _collect_p2p(
    blocks: Sequence[_Block], base: _Block, end: int | None, problems: list[TextProblem]
) -> list[P2pMatrix]:
    found: list[P2pMatrix] = []
    for block in blocks:
        if block.gpus != base.gpus or (end is not None and block.line > end):
            detail = f"a P2P matrix of {len(block.gpus)} GPUs that is not of the first host; it is ignored"
            problems.append(TextProblem(TextProblemKind.OTHER_HOST, block.line, detail))
            continue
        problems += block.problems
        question = _QUESTIONS.get(block.argument, P2pQuestion.UNSTATED) if block.option in _P2P else None
        matrix = P2pMatrix(question or P2pQuestion.UNSTATED, block.argument, block.ways)
        earlier = next((m for m in found if m.question is matrix.question and question is not None), None)
        if earlier is None:
            found.append(matrix)
        elif earlier.statuses != matrix.statuses:
            detail = f"a second matrix of P2P {matrix.question} differs from the first; the first stands"
            problems.append(TextProblem(TextProblemKind.CONTRADICTION, block.line, detail))
    return found


def _tool(matrix: _Block | None, p2p: Sequence[P2pMatrix]) -> str:
    parts = [] if matrix is None else ["topo -mp" if matrix.is_pcie_only else "topo -m"]
    parts += [f"topo -p2p {one.argument}".rstrip() for one in p2p]
    return "nvidia-smi " + " + ".join(parts)


def _nic_names(matrix: _Block, problems: list[TextProblem]) -> dict[str, str]:
    """Drivers before 525 name the columns by the device itself and have no legend."""
    names = {nic: matrix.nic_names.get(nic, "" if nic.startswith("NIC") else nic) for nic in matrix.nics}
    unnamed = [nic for nic, name in names.items() if not name]
    if unnamed:
        detail = f"the legend that names {_named(unnamed)} is missing"
        problems.append(TextProblem(TextProblemKind.NIC_UNNAMED, matrix.line, detail))
    return {nic: name for nic, name in names.items() if name}


def _read_affinity(matrix: _Block, problems: list[TextProblem]) -> dict[Title, dict[str, str | None]]:
    titles = matrix.header.titles
    columns: dict[Title, dict[str, str | None]] = {title: {} for title in titles}
    for gpu in matrix.gpus:
        row = matrix.rows.get(gpu)
        values = split_affinity(row, titles) if row is not None else dict.fromkeys(titles)
        if values is None:
            detail = f"the columns behind the matrix of {gpu} cannot be told apart"
            problems.append(TextProblem(TextProblemKind.AFFINITY_UNCLEAR, matrix.row_lines[gpu], detail))
            values = dict.fromkeys(titles)
        for title in titles:
            columns[title][gpu] = values[title]
    return columns


def _asymmetric(ways: dict[Way, str]) -> Iterator[TextProblem]:
    differing = [way for way, label in ways.items() if way < way.back and ways.get(way.back, label) != label]
    for way in differing[:_MOST_PAIRS]:
        detail = f"{way.device} to {way.peer} is {ways[way]}, the way back {ways[way.back]}"
        yield TextProblem(TextProblemKind.ASYMMETRIC, 0, detail)
    more = len(differing) - _MOST_PAIRS
    if more > 0:
        yield TextProblem(
            TextProblemKind.ASYMMETRIC, 0, f"and {more} more pairs differ in their two directions"
        )


def _oddities(matrix: _Block, columns: dict[Title, dict[str, str | None]]) -> Iterator[TextProblem]:
    cpus = columns.get(Title.CPU, {})
    cut = [gpu for gpu, text in cpus.items() if text is not None and is_cut_cpu_list(text)]
    if cut:
        detail = f"nvidia-smi itself cuts the CPU list of {_named(cut)} after six: do not pin by it"
        yield TextProblem(TextProblemKind.CPU_LIST_CUT, matrix.row_lines[cut[0]], detail)
    labels = {label for way, label in matrix.ways.items() if way.peer in matrix.gpus}
    if labels == {"SYS"} and not any(cpus.values()):
        detail = "every pair is SYS and no CPU affinity is shown, as under WSL2: here SYS means unknown"
        yield TextProblem(TextProblemKind.NO_PCIE_TREE, matrix.line, detail)
