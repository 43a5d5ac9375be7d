"""Checks of what measures: which engine is here, and whether each sweep finds the one that it asks for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpumond.assembly import make_engines
from gpumond.clock import SystemClock
from gpumond.config.schema import Config
from gpumond.config.sweep_schema import SweepConfig
from gpumond.doctor.checks import Check, Level
from gpumond.errors import HostError
from gpumond.model.benchmark import Collective
from gpumond.model.run import EngineChoice, Purpose
from gpumond.sweep.engines.choice import Engines
from gpumond.sweep.engines.nccl_tests import INSTALL_HINT, NcclTests


def check_engines(config: Config) -> Iterator[Check]:
    if config.simulate is not None:
        yield Check("benchmarks", Level.OK, "the simulated benchmark")
        return
    engines = make_engines(config, SystemClock())
    yield _check_nccl_tests(config, engines.nccl_tests)
    yield from _check_own(engines)
    for name, choice, purpose in _wanted(config.sweeps):
        try:
            engines.choose(choice, purpose)
        except HostError as error:
            yield Check(name, Level.MISSING, error.message, error.hint)


def _check_nccl_tests(config: Config, engine: NcclTests) -> Check:
    found: dict[Collective, Path] = {}
    problem = ""
    for collective in Collective:
        try:
            found[collective] = engine.find(collective)
        except HostError as error:
            problem = problem or error.message
    users = [sweep for sweep in config.sweeps if _uses_nccl_tests(sweep, engine)]
    missing = sorted({collective for sweep in users for collective in sweep.collectives} - set(found))
    if missing:
        names = ", ".join(collective.value for collective in missing)
        return Check("nccl-tests", Level.MISSING, f"{names} cannot be measured: {problem}", INSTALL_HINT)
    if not found:
        return Check("nccl-tests", Level.NOTE, "not found")
    places = sorted({str(path.parent) for path in found.values()})
    return Check("nccl-tests", Level.OK, f"{len(found)} programs in {', '.join(places)}")


def _uses_nccl_tests(sweep: SweepConfig, engine: NcclTests) -> bool:
    if sweep.engine is EngineChoice.AUTO:
        return engine.is_wanted
    return sweep.engine is EngineChoice.NCCL_TESTS


def _check_own(engines: Engines) -> Iterator[Check]:
    if engines.nccl4py is not None:
        try:
            engines.nccl4py.find()
            yield Check("nccl4py", Level.OK, "installed")
        except HostError as error:
            yield Check("nccl4py", Level.NOTE, error.message)
    try:
        yield Check("torch", Level.OK, f"in {engines.torch.find()}")
    except HostError as error:
        yield Check("torch", Level.NOTE, error.message)


def _wanted(sweeps: tuple[SweepConfig, ...]) -> Iterator[tuple[str, EngineChoice, Purpose]]:
    """What must be there: (who asks, for which engine, to do what); without any sweep what one would ask for."""
    if not sweeps:
        yield "benchmarks", EngineChoice.AUTO, Purpose.MEASUREMENT
    for sweep in sweeps:
        yield f"sweep {sweep.name}", sweep.engine, Purpose.MEASUREMENT
        if sweep.sanity:
            yield f"sweep {sweep.name}, sanity", sweep.engine, Purpose.SANITY
