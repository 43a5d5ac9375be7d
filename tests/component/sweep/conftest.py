"""A sweep on two idle GPUs with a stand-in benchmark, a real store and real processes."""

from __future__ import annotations

import sys

import pytest
from benchmark_stand_in import Script

from gpumond.clock import SystemClock
from gpumond.guards.quiet import QuietLog, QuietRule
from gpumond.model.benchmark import Collective
from gpumond.model.run import Trigger
from gpumond.process.supervisor import Cancellation
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.store.sqlite import Store
from gpumond.sweep.context import QuietPolicy, SweepContext
from gpumond.sweep.engines.nccl_tests import NcclTests
from gpumond.sweep.plan import Deadlines, GpuSetRule, Parameters, SweepSpec
from gpumond.sweep.runner import SweepRunner
from gpumond.sweep.watch import WatchCommand

SCENARIO = "h200-2-vm"

PARAMETERS = Parameters(
    min_bytes=8,
    max_bytes=2 << 30,
    step_factor=2,
    datatype="float",
    redop="sum",
    warmup_iterations=1,
    iterations=20,
    check=True,
)


class Host:
    """What a test may change before it runs a sweep."""

    def __init__(self, directory, store, snapshot, install, driver):
        self.directory = directory
        self.store = store
        self.snapshot = snapshot
        self.programs = directory / "nccl-tests"
        self.events = []
        self.min_free_bytes = 0
        self.driver = driver
        self.watch_program = "gpumond.probe.watch"
        self.guards = ()
        self.quiet_seconds = 0.0
        self.quiet_log = QuietLog()
        self._install = install

    def install(self, **scripts):
        self._install(self.programs, {f"{name}_perf": script for name, script in scripts.items()})

    @property
    def lock_file(self):
        return self.directory / "run" / "gpu.lock"

    def context(self):
        return SweepContext(
            store=self.store,
            clock=SystemClock(),
            take_snapshot=self.take_snapshot,
            engine_for=lambda _step, _snapshot: NcclTests(directory=self.programs),
            gpu_sets={"all": GpuSetRule("all")},
            lock_file=self.lock_file,
            work_directory=self.directory / "runs",
            base_environment={
                "PATH": "/usr/bin:/bin",
                "NCCL_ALGO": "Tree",
                "AWS_SECRET_ACCESS_KEY": "s3cret",
            },
            min_free_bytes=self.min_free_bytes,
            watch_for=lambda _vendor: WatchCommand(
                (sys.executable, "-I", "-m", self.watch_program),
                {"PATH": "/usr/bin:/bin", **self.driver.environment},
            ),
            quiet=QuietPolicy(
                scheduled=QuietRule(self.quiet_seconds, 1 << 30, gap_seconds_max=60.0),
                by_hand=QuietRule(self.quiet_seconds, 1 << 30, gap_seconds_max=2.0),
                log=self.quiet_log,
            ),
            guards=self.guards,
        )

    def take_snapshot(self):
        if isinstance(self.snapshot, Exception):
            raise self.snapshot
        return self.snapshot

    def show(self, *faults):
        """From the next look on the driver shows these faults, such as `gpu_busy,gpu=0,pid=1`."""
        self.driver.show(with_faults(load_scenario(SCENARIO), [parse_fault(fault) for fault in faults]))

    def sweep(self, *collectives, deadlines=None, cancellation=None, trigger=Trigger.COMMAND):
        spec = SweepSpec(
            "nightly", ("all",), collectives or (Collective.ALL_REDUCE,), PARAMETERS, deadlines or Deadlines()
        )
        runner = SweepRunner(self.context(), on_event=self.events.append)
        return runner.run(spec, trigger=trigger, cancellation=cancellation or Cancellation())


@pytest.fixture
def host(tmp_path, two_gpus, benchmark_stand_in, fake_nvml):
    with Store.open(tmp_path / "state", clock=SystemClock()) as store:
        driver = fake_nvml.host(load_scenario(SCENARIO))
        host = Host(tmp_path, store, two_gpus, benchmark_stand_in, driver)
        host.install(all_reduce=Script(), all_gather=Script())
        yield host
