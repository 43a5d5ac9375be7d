"""torch.distributed in the users' own Python: what their jobs would reach, with the NCCL that they load.

One process a GPU. Our program is handed to a configured interpreter; whether that has torch is asked of it once, without
importing it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from gpumond.errors import HostError
from gpumond.model.run import Engine
from gpumond.process.ask import Answer
from gpumond.sweep.engines.engine import EngineCommand
from gpumond.sweep.engines.own import own_arguments
from gpumond.sweep.engines.trust import require_trusted
from gpumond.sweep.plan import Step

PROGRAM = Path(__file__).with_name("torch_benchmark.py")

INSTALL_HINT = "Set engines.torch.python to the Python of an environment that has torch, or install gpumond[torch] beside gpumond."

NO_USER_SITE = "-s"
"""A benchmark has an empty home; the question must be asked in the same way."""

_HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"


class TorchEngine:
    """`backend` is gloo in tests without GPUs; a host with GPUs that torch cannot use is an error, never a CPU's number."""

    def __init__(
        self,
        *,
        python: Path | None,
        ask: Callable[[Sequence[str]], Answer],
        backend: str = "nccl",
        trusted_uids: Collection[int] = (),
    ) -> None:
        self._python = python or Path(sys.executable)
        self._ask = ask
        self._backend = backend
        self._trusted_uids = trusted_uids
        self._is_checked = False

    @property
    def name(self) -> Engine:
        return Engine.TORCH

    def command(self, step: Step) -> EngineCommand:
        arguments = own_arguments(step, self.name)
        return EngineCommand(
            (str(self.find()), NO_USER_SITE, str(PROGRAM), "--backend", self._backend, *arguments)
        )

    def find(self) -> Path:
        """The interpreter. Raises HostError where it cannot or must not be run, or has no torch."""
        python = self._python  # not resolved: a virtual environment is known by the path of its link
        if not self._is_checked:
            if not python.is_file():
                raise HostError(f"there is no Python at {python}", hint=INSTALL_HINT)
            if not os.access(python, os.X_OK):
                raise HostError(f"{python} is not executable", hint=INSTALL_HINT)
            if python != Path(sys.executable):  # which is running us already
                require_trusted(python, trusted_uids=self._trusted_uids)
            answer = self._ask((str(python), NO_USER_SITE, "-c", _HAS_TORCH))
            if answer.failure:
                said = answer.last_error_line
                raise HostError(f"{python} has no torch" + (f": {said}" if said else ""), hint=INSTALL_HINT)
            self._is_checked = True
        return python
