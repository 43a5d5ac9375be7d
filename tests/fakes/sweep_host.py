"""Two idle GPUs with a stand-in benchmark, a real store, a real watch child and real processes, for tests and bench.

`host.sweep()` runs one sweep; `with host.bench() as bench` runs single benchmarks under one watch, many times.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial

from benchmark_stand_in import install_stand_ins

from gpumond.clock import SystemClock
from gpumond.guards.lock import hold_lock
from gpumond.guards.processes import find_foreign
from gpumond.guards.quiet import QuietLog, QuietRule
from gpumond.model.benchmark import Collective
from gpumond.model.run import Sweep, Trigger
from gpumond.process.lost import LostProcesses
from gpumond.process.ownership import OwnProcesses, name_of
from gpumond.process.supervisor import Cancellation
from gpumond.simulate.faults import parse_fault
from gpumond.simulate.scenario import load_scenario, with_faults
from gpumond.sweep.context import QuietPolicy, SweepContext, new_run_id
from gpumond.sweep.engines.nccl_tests import NcclTests
from gpumond.sweep.execution import Executor
from gpumond.sweep.plan import Deadlines, GpuSetRule, Parameters, SweepSpec
from gpumond.sweep.runner import SweepRunner, make_plan
from gpumond.sweep.watch import GpuWatch, WatchCommand

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

    def __init__(self, directory, store, snapshot, driver):
        self.directory = directory
        self.store = store
        self.snapshot = snapshot
        self.programs = directory / "nccl-tests"
        self.events = []
        self.min_free_bytes = 0
        self.driver = driver
        self.watch_program = "gpumond.probe.watch"
        self.watch_options = ()
        self.is_rccl = False
        self.guards = ()
        self.quiet_seconds = 0.0
        self.quiet_log = QuietLog()
        self.lost = LostProcesses()
        self.on_event = self.events.append

    def install(self, **scripts):
        install_stand_ins(self.programs, {f"{name}_perf": script for name, script in scripts.items()})

    @property
    def lock_file(self):
        return self.directory / "run" / "gpu.lock"

    def context(self):
        return SweepContext(
            store=self.store,
            clock=SystemClock(),
            take_snapshot=self.take_snapshot,
            engine_for=lambda _step, _snapshot: NcclTests(directory=self.programs, is_rccl=self.is_rccl),
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
                (sys.executable, "-I", "-m", self.watch_program, *self.watch_options),
                {"PATH": "/usr/bin:/bin", **self.driver.environment},
            ),
            quiet=QuietPolicy(
                scheduled=QuietRule(self.quiet_seconds, 1 << 30, gap_seconds_max=60.0),
                by_hand=QuietRule(self.quiet_seconds, 1 << 30, gap_seconds_max=2.0),
                log=self.quiet_log,
            ),
            guards=self.guards,
            lost=self.lost,
        )

    def _tell(self, event):
        self.on_event(event)

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
        runner = SweepRunner(self.context(), on_event=self.on_event)
        return runner.run(spec, trigger=trigger, cancellation=cancellation or Cancellation())

    @contextmanager
    def bench(self, collective=Collective.ALL_REDUCE):
        """Yields a function that runs the benchmark once, without guards, under a watch that goes on."""
        context = self.context()
        plan = make_plan(SweepSpec("bench", ("all",), (collective,), PARAMETERS), context)
        sweep = Sweep(
            new_run_id(context.clock.now()), "bench", Trigger.COMMAND, context.clock.now(), planned_runs=1
        )
        self.store.start_sweep(sweep)
        own = OwnProcesses()
        find = partial(find_foreign, owns=own.owns, name_of=name_of, allowed=())
        with (
            hold_lock(self.lock_file, purpose="bench", clock=context.clock) as lock,
            GpuWatch(context.watch_for(None), plan.targets, clock=context.clock) as watch,
        ):
            executor = Executor(
                context,
                sweep,
                lock=lock,
                watch=watch,
                own=own,
                find=find,
                on_event=self._tell,
            )
            yield lambda: executor.run(plan.steps[0], Cancellation())
