"""Checks across tables: names used twice, and names that lead nowhere. Pure.

They read the document as it was written, not the models, so that a mistake elsewhere in the file does not hide them;
whatever has the wrong type here is the schema's business and passed over.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpumond.config.lines import KeyPath, line_of
from gpumond.config.sweep_schema import ALL_GPUS


@dataclass(frozen=True, slots=True)
class Misfit:
    """A mistake at a path of the document."""

    path: KeyPath
    message: str


def check_references(document: Mapping[str, Any], lines: Mapping[KeyPath, int]) -> tuple[Misfit, ...]:
    """Every mistake that only shows when tables are read together."""
    sweeps = document.get("sweep")
    tables = [
        (number, sweep)
        for number, sweep in enumerate(sweeps if isinstance(sweeps, list) else [])
        if isinstance(sweep, Mapping)
    ]
    gpu_sets = document.get("gpu_sets")
    known = list(dict.fromkeys([ALL_GPUS, *(gpu_sets if isinstance(gpu_sets, Mapping) else [])]))
    return (*_same_names(tables, lines), *_unknown_sets(tables, known))


def _same_names(tables: list[tuple[int, Any]], lines: Mapping[KeyPath, int]) -> Iterator[Misfit]:
    first: dict[str, KeyPath] = {}
    for number, sweep in tables:
        name, path = sweep.get("name"), ("sweep", number, "name")
        if not isinstance(name, str):
            continue
        if name in first:
            yield Misfit(path, f"is the name of another sweep too, in line {line_of(first[name], lines)}")
        first.setdefault(name, path)


def _unknown_sets(tables: list[tuple[int, Any]], known: list[str]) -> Iterator[Misfit]:
    for number, sweep in tables:
        names = sweep.get("gpu_sets")
        for position, name in enumerate(names if isinstance(names, list) else []):
            if isinstance(name, str) and name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                advice = f'did you mean "{near[0]}"?' if near else f"there is {', '.join(known)}"
                yield Misfit(("sweep", number, "gpu_sets", position), f"is no GPU set; {advice}")
