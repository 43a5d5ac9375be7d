"""NCCL through nccl4py, from pip alone: one process for all GPUs of a set, in gpumond's own Python.

Nothing of it is imported here: this process never loads a GPU library (DESIGN rule 1).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec

from gpumond.errors import HostError
from gpumond.model.run import Engine
from gpumond.sweep.engines.engine import EngineCommand
from gpumond.sweep.engines.own import own_arguments
from gpumond.sweep.plan import Step

MODULE = "gpumond.sweep.engines.nccl4py_benchmark"

INSTALL_HINT = (
    "Install gpumond[nccl-cu13], or gpumond[nccl-cu12] for a driver of CUDA 12 (`nvidia-smi` says which)."
)

_NEEDED = ("nccl.bindings", "cuda.bindings")


class Nccl4pyEngine:
    """`find_module` is replaced in tests."""

    def __init__(self, *, find_module: Callable[[str], ModuleSpec | None] = importlib.util.find_spec) -> None:
        self._find_module = find_module

    @property
    def name(self) -> Engine:
        return Engine.NCCL4PY

    def command(self, step: Step) -> EngineCommand:
        arguments = own_arguments(step, self.name)
        self.find()
        return EngineCommand((sys.executable, "-I", "-m", MODULE, *arguments))

    def find(self) -> None:
        """Raises HostError where a package is missing."""
        for name in _NEEDED:
            if not self._is_there(name):
                package = "nccl4py" if name.startswith("nccl") else "cuda-bindings"
                raise HostError(f"{package} is not installed beside gpumond", hint=INSTALL_HINT)

    def _is_there(self, name: str) -> bool:
        try:
            return self._find_module(name) is not None
        except ModuleNotFoundError:  # its parent is missing
            return False
