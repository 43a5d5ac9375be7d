"""The benchmark of a made-up host: a real child process that prints what such a host would (demo and tests)."""

from __future__ import annotations

import sys

from gpumond.model.run import Engine
from gpumond.sweep.engines.engine import EngineCommand
from gpumond.sweep.plan import Step, nccl_tests_arguments


class SimulatedBenchmark:
    """`pace` is how many times faster than the real host it runs, `options` are further ones of the simulator."""

    def __init__(self, *, scenario: str, pace: float, options: tuple[str, ...] = ()) -> None:
        self._scenario = scenario
        self._pace = pace
        self._options = options

    @property
    def name(self) -> Engine:
        return Engine.SIMULATED

    def command(self, step: Step) -> EngineCommand:
        # By module name, not by import: the simulator stands above this layer and runs in its own process.
        return EngineCommand(
            (
                sys.executable,
                "-m",
                "gpumond.simulate.benchmark",
                "--scenario",
                self._scenario,
                "--collective",
                step.collective.value,
                "--pace",
                str(self._pace),
                *self._options,
                *nccl_tests_arguments(step),
            )
        )
