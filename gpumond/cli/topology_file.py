"""`gpumond topology --from FILE`: a customer's paste, read without any GPU.

Owns what is printed. JSON has the keys of a topology case
(docs/operating.md), a few of our own beside them, and no key for a table that the text does not have.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpumond.cli.paste import TEXT_HINT, read_text
from gpumond.errors import ExitCode, NotEvaluatedError
from gpumond.model.topology_text import (
    LinkFact,
    P2pMatrix,
    P2pQuestion,
    TextProblem,
    TopologyText,
    Way,
)
from gpumond.parsers.topology_text import parse_topology_text
from gpumond.topology.classify import Classification, classify_text

_NUMBERS = frozenset({LinkFact.WEIGHT, LinkFact.HOPS})
_DECIDES_FIRST = (
    P2pQuestion.READ,
    P2pQuestion.ACCESS,
    P2pQuestion.UNSTATED,
    P2pQuestion.WRITE,
    P2pQuestion.PCI,
    P2pQuestion.NVLINK,
    P2pQuestion.ATOMICS,
)


def run_from_file(path: str, *, as_json: bool) -> int:
    """Print what the file says. Raises UsageError for no readable text, NotEvaluatedError for no matrix in it."""
    return show_text(read_text(path), path, as_json=as_json)


def show_text(text: str, path: str, *, as_json: bool) -> int:
    """Print what `text`, which came from `path`, says. Raises NotEvaluatedError for no matrix in it."""
    topology = parse_topology_text(text)
    classification = classify_text(topology)
    if as_json:
        print(json.dumps(as_document(topology, classification), indent=1))
    if not topology.gpus:
        raise NotEvaluatedError(f"no topology matrix in {path}", hint=TEXT_HINT)
    if not as_json:
        print("\n".join(_as_lines(topology, classification)))
        for problem in topology.problems:
            print(f"{path}: {_as_line(problem)}", file=sys.stderr)
    return ExitCode.HEALTHY


def as_document(topology: TopologyText, classification: Classification) -> dict[str, Any]:
    """The case's keys first; `p2p` is the matrix that tells most, `p2p_by_capability` has all of them."""
    return {
        "tool": topology.tool,
        "gpus": list(topology.gpus),
        "nics": list(topology.nics),
        "nic_names": topology.nic_names,
        "links": _pairs(topology.links, topology),
        "p2p": _main_p2p(topology.p2p),
        "p2p_by_capability": {
            _capability_key(place, matrix, topology.p2p): _ways(matrix.statuses)
            for place, matrix in enumerate(topology.p2p)
        },
        "cpu_affinity": topology.cpu_affinity,
        "numa": _numbers(topology.numa),
        "gpu_numa_id": None if topology.gpu_numa_ids is None else _numbers(topology.gpu_numa_ids),
        **({"bdf": topology.pci_bus_ids} if topology.pci_bus_ids else {}),
        **{fact.value: _fact_pairs(fact, topology) for fact in topology.facts},
        "class": classification.topology_class.value,
        "class_facts": list(classification.facts),
        "problems": [
            {"kind": problem.kind.value, "line": problem.line, "detail": problem.detail}
            for problem in topology.problems
        ],
    }


# --- JSON --------------------------------------------------------------------------------------------------------------


def _pairs(cells: Mapping[Way, str], topology: TopologyText) -> dict[str, str]:
    """`A-B` where both directions agree or only one is known, else `A->B` and `B->A`."""
    places = {device: place for place, device in enumerate((*topology.gpus, *topology.nics))}
    pairs: dict[str, str] = {}
    for way, label in cells.items():
        if cells.get(way.back, label) != label:
            pairs[f"{way.device}->{way.peer}"] = label
        else:
            first, second = sorted(way, key=places.__getitem__)
            pairs[f"{first}-{second}"] = label
    return pairs


def _ways(cells: Mapping[Way, str]) -> dict[str, str]:
    return {f"{way.device}->{way.peer}": status for way, status in cells.items()}


def _main_p2p(matrices: Iterable[P2pMatrix]) -> dict[str, str] | None:
    ordered = sorted(matrices, key=lambda matrix: _DECIDES_FIRST.index(matrix.question))
    return _ways(ordered[0].statuses) if ordered else None


def _capability_key(place: int, matrix: P2pMatrix, matrices: tuple[P2pMatrix, ...]) -> str:
    """The capability; numbered where several matrices do not say which one they are."""
    before = sum(1 for other in matrices[:place] if other.question is matrix.question)
    return f"{matrix.question}_{before + 1}" if before else matrix.question.value


def _numbers(values: Mapping[str, str | None]) -> dict[str, int | str | None]:
    """`0` as a number, `0-1` as it is printed."""
    return {gpu: int(text) if text is not None and text.isdecimal() else text for gpu, text in values.items()}


def _fact_pairs(fact: LinkFact, topology: TopologyText) -> dict[str, Any]:
    pairs = _pairs(topology.facts[fact], topology)
    return {
        pair: int(cell) if fact in _NUMBERS and cell.isdecimal() else cell for pair, cell in pairs.items()
    }


# --- text --------------------------------------------------------------------------------------------------------------


def _as_lines(topology: TopologyText, classification: Classification) -> Iterator[str]:
    devices = [*topology.gpus, *topology.nics]
    yield f"printed by  {topology.tool}"
    yield f"class       {classification.topology_class}"
    for fact in classification.facts:
        yield f"            {fact}"
    yield ""
    yield from _table(["", *devices, "CPUs", "NUMA"], (_row(topology, device, devices) for device in devices))
    if topology.nic_names:
        yield ""
        yield from (f"{nic}: {name}" for nic, name in topology.nic_names.items() if nic != name)


def _row(topology: TopologyText, device: str, devices: Iterable[str]) -> list[str]:
    cells = ["X" if peer == device else topology.links.get(Way(device, peer), "?") for peer in devices]
    return [device, *cells, topology.cpu_affinity.get(device) or "", topology.numa.get(device) or ""]


def _table(header: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _as_line(problem: TextProblem) -> str:
    return f"line {problem.line}: {problem.detail}" if problem.line else problem.detail
