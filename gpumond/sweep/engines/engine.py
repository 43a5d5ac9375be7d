"""What a benchmark engine is to the runner: a name, and a command for a step. One interface, one result text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpumond.model.run import Engine
from gpumond.sweep.plan import Step


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """`argv[0]` is a resolved path; `library_path` is prepended for the dynamic loader."""

    argv: tuple[str, ...]
    library_path: tuple[Path, ...] = ()


class BenchmarkEngine(Protocol):
    """Prints nccl-tests' table for any step."""

    @property
    def name(self) -> Engine: ...

    def command(self, step: Step) -> EngineCommand:
        """How to run `step`. Raises HostError with a hint where what it needs is not on this host."""
        ...
