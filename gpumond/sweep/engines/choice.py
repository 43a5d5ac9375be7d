"""Which engine measures a step: the one that the sweep names, or the first that this host has.

`auto` is nccl-tests (or rccl-tests), then nccl4py, then torch. It never changes the engine because one program is
missing: results of another engine are another series, and a missing program is to be noticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpumond.errors import HostError
from gpumond.model.run import EngineChoice, Purpose
from gpumond.sweep.engines.engine import BenchmarkEngine
from gpumond.sweep.engines.nccl4py import INSTALL_HINT as NCCL4PY_HINT
from gpumond.sweep.engines.nccl4py import Nccl4pyEngine
from gpumond.sweep.engines.nccl_tests import INSTALL_HINT as NCCL_TESTS_HINT
from gpumond.sweep.engines.nccl_tests import NcclTests
from gpumond.sweep.engines.torch import INSTALL_HINT as TORCH_HINT
from gpumond.sweep.engines.torch import TorchEngine


class _Findable(BenchmarkEngine, Protocol):
    def find(self) -> object:
        """Raises HostError where it is not on this host."""
        ...


@dataclass(frozen=True, slots=True)
class Engines:
    """What this host could measure with; `nccl4py` is None on AMD hosts."""

    nccl_tests: NcclTests
    nccl4py: Nccl4pyEngine | None
    torch: TorchEngine

    def choose(self, choice: EngineChoice, purpose: Purpose) -> BenchmarkEngine:
        """Raises HostError where what is asked for is not on this host."""
        match choice:
            case EngineChoice.TORCH:
                return self.torch
            case EngineChoice.NCCL4PY:
                return self._named_nccl4py()
            case EngineChoice.NCCL_TESTS | EngineChoice.AUTO if purpose is Purpose.SANITY:
                return self._first_of_our_own()
            case EngineChoice.NCCL_TESTS:
                return self.nccl_tests
            case EngineChoice.AUTO:
                return self._first_of_all()

    def _named_nccl4py(self) -> Nccl4pyEngine:
        if self.nccl4py is None:
            raise HostError("nccl4py measures NVIDIA GPUs only", hint='Set engine = "torch" in this sweep.')
        return self.nccl4py

    def _first_of_all(self) -> BenchmarkEngine:
        if self.nccl_tests.is_wanted:
            return self.nccl_tests
        try:
            return self._first_of_our_own()
        except HostError as error:
            raise HostError(
                "there is neither nccl-tests nor nccl4py nor torch on this host",
                hint=f"{NCCL_TESTS_HINT} Or: {NCCL4PY_HINT} Or: {TORCH_HINT}",
            ) from error

    def _first_of_our_own(self) -> BenchmarkEngine:
        for engine in (self.nccl4py, self.torch):
            if engine is not None and is_here(engine):
                return engine
        raise HostError(
            "there is neither nccl4py nor torch on this host", hint=f"{NCCL4PY_HINT} Or: {TORCH_HINT}"
        )


def is_here(engine: _Findable) -> bool:
    try:
        engine.find()
    except HostError:
        return False
    return True
