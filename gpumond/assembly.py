"""How the parts are put together for a configuration: the same for the daemon and for a command that does its work.

Knows which command is a probe and which is a benchmark on this host, real or made up. Holds no state.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from gpumond.clock import Clock
from gpumond.config.schema import Config
from gpumond.model.topology import Snapshot, Vendor
from gpumond.probe.launcher import ProbeLauncher, default_probe_command
from gpumond.process.environment import probe_environment
from gpumond.simulate.scenario import load_scenario
from gpumond.store.sqlite import Store
from gpumond.sweep.engines.engine import BenchmarkEngine
from gpumond.sweep.engines.nccl_tests import NcclTests
from gpumond.sweep.engines.simulated import SimulatedBenchmark
from gpumond.sweep.runner import SweepContext
from gpumond.sweep.specs import gpu_set_rules

DAEMON_LOCK = "daemon.lock"
RUNS_DIRECTORY = "runs"
LOST_PROBE = "probe.lost"


def daemon_lock_file(config: Config) -> Path:
    """Held by the one daemon of a store; a command that finds it held speaks to that daemon through the store."""
    return config.store.directory / DAEMON_LOCK


def probe_command(config: Config) -> tuple[str, ...]:
    """What looks at this host. Raises UsageError for a made-up host that nobody has made up."""
    if config.simulate is None:
        return default_probe_command()
    load_scenario(config.simulate.scenario)
    return (sys.executable, "-I", "-m", "gpumond.simulate.probe", config.simulate.scenario)


def make_launcher(config: Config, clock: Clock) -> ProbeLauncher:
    return ProbeLauncher(
        probe_command(config),
        probe_environment(os.environ),
        deadline_seconds=config.snapshot.deadline,
        clock=clock,
        memory_file=config.store.directory / LOST_PROBE,
    )


def make_engine(config: Config, vendor: Vendor | None = None) -> BenchmarkEngine:
    """What measures on this host."""
    if config.simulate is not None:
        return SimulatedBenchmark(scenario=config.simulate.scenario, pace=config.simulate.pace)
    settings = config.engines.nccl_tests
    return NcclTests(
        directory=settings.directory,
        library_path=settings.library_path,
        launcher=settings.launcher,
        search_path=os.environ.get("PATH", ""),
        is_rccl=vendor is Vendor.AMD,
    )


def make_sweep_context(
    config: Config, *, store: Store, clock: Clock, take_snapshot: Callable[[], Snapshot]
) -> SweepContext:
    return SweepContext(
        store=store,
        clock=clock,
        engine_for=lambda snapshot: make_engine(config, snapshot.vendor),
        take_snapshot=take_snapshot,
        gpu_sets=gpu_set_rules(config),
        lock_file=config.benchmark.lock_file,
        work_directory=config.store.directory / RUNS_DIRECTORY,
        base_environment=dict(os.environ),
        min_free_bytes=config.store.min_free,
    )
