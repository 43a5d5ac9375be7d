"""How fast real GPUs are given back to a real CUDA process: from its first sight to a clear driver.

    python bench/gpu/preemption.py [TRIES]

The benchmark is a CUDA process on every GPU that copies without end; the foreigner is another one on the first GPU.
Both use the driver's own library through ctypes, so nothing needs a toolkit. gpumond must be installed: its children
run isolated. Prints every try, then the rows of docs/results.md.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpumond import __version__
from gpumond.assembly import make_launcher, make_sweep_context
from gpumond.clock import SystemClock
from gpumond.config.load import parse
from gpumond.guards.lock import hold_lock
from gpumond.guards.processes import find_foreign
from gpumond.log import configure
from gpumond.model.run import Run, Sweep, Trigger
from gpumond.process.ownership import OwnProcesses, name_of
from gpumond.process.supervisor import Cancellation
from gpumond.store.sqlite import Store
from gpumond.sweep.context import SweepContext, new_run_id
from gpumond.sweep.execution import Executor
from gpumond.sweep.observation import lists_of
from gpumond.sweep.runner import make_plan
from gpumond.sweep.specs import sweep_specs
from gpumond.sweep.watch import GpuWatch

TRIES = 20
WAIT_SECONDS_MAX = 30.0

WORK = """#!{python} -IS
import ctypes, pathlib, sys
cuda = ctypes.CDLL("libcuda.so.1")
def check(status):
    if status: sys.exit(f"CUDA status {{status}}")
check(cuda.cuInit(0))
count = ctypes.c_int()
check(cuda.cuDeviceGetCount(ctypes.byref(count)))
SIZE = 2 << 30
buffers = []
for number in range(count.value):
    context = ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), number))
    check(cuda.cuCtxSetCurrent(context))
    pair = [ctypes.c_uint64(), ctypes.c_uint64()]
    for buffer in pair:
        check(cuda.cuMemAlloc_v2(ctypes.byref(buffer), ctypes.c_size_t(SIZE)))
    buffers.append((context, pair))
pathlib.Path("{ready}").touch()
while True:
    for context, (one, other) in buffers:
        check(cuda.cuCtxSetCurrent(context))
        check(cuda.cuMemcpyDtoD_v2(one, other, ctypes.c_size_t(SIZE)))
"""

CONFIG = """
[store]
directory = "{directory}/state"
min_free = "0"
[benchmark]
lock_file = "{directory}/gpu.lock"
[engines.nccl_tests]
directory = "{directory}/bin"
[[sweep]]
name = "bench"
collectives = ["all_reduce"]
engine = "nccl-tests"
"""


@dataclass(frozen=True)
class Programs:
    """Two CUDA processes, and the files that say when each holds its GPUs."""

    directory: Path

    @property
    def ready(self) -> Path:
        return self.directory / "ready"

    def install(self) -> None:
        programs = self.directory / "bin"
        programs.mkdir()
        for name, ready in (("all_reduce_perf", self.ready), ("foreigner", self.directory / "foreign")):
            path = programs / name
            path.write_text(WORK.format(python=sys.executable, ready=ready))
            path.chmod(0o755)

    def start_foreigner(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": "0"}
        return subprocess.Popen(
            [self.directory / "bin" / "foreigner"], env=environment, start_new_session=True
        )


def wait_for(condition: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        if time.monotonic() > give_up:
            raise SystemExit(f"{what} did not come")
        time.sleep(0.005)


def one_try(run: Callable[[], Run], programs: Programs) -> tuple[Run, float]:
    """The preempted run, and how long after its start the foreigner was seen."""
    programs.ready.unlink(missing_ok=True)
    started: list[subprocess.Popen[bytes]] = []

    def come() -> None:
        wait_for(programs.ready.exists, "the benchmark's context")
        time.sleep(0.7)  # until the driver lists it
        started.append(programs.start_foreigner())

    thread = threading.Thread(target=come)
    thread.start()
    began = time.monotonic()
    finished = run()
    thread.join()
    started[0].kill()
    started[0].wait()
    return finished, time.monotonic() - began


def measure(directory: Path, tries: int) -> list[Run]:
    clock, programs = SystemClock(), Programs(directory)
    programs.install()
    config = parse(CONFIG.format(directory=directory), name="bench")
    with Store.open(config.store.directory, clock=clock) as store:
        launcher = make_launcher(config, clock)
        result = launcher.take()
        if result.snapshot is None:
            raise SystemExit(result.detail)
        snapshot = result.snapshot
        print(f"{len(snapshot.gpus)} x {snapshot.gpus[0].name}, driver {snapshot.driver}")
        context = make_sweep_context(config, store=store, clock=clock, take_snapshot=lambda: snapshot)
        return measure_with(context, config, programs, tries)


def measure_with(context: SweepContext, config: object, programs: Programs, tries: int) -> list[Run]:
    clock, own = context.clock, OwnProcesses()
    find = partial(find_foreign, owns=own.owns, name_of=name_of, allowed=())
    plan = make_plan(sweep_specs(config)["bench"], context)
    sweep = Sweep(new_run_id(clock.now()), "bench", Trigger.COMMAND, clock.now(), planned_runs=tries)
    context.store.start_sweep(sweep)
    uuids = [target.uuid for target in plan.targets]
    found = []
    with (
        hold_lock(context.lock_file, purpose="bench", clock=clock) as lock,
        GpuWatch(context.watch_for(plan.snapshot.vendor), plan.targets, clock=clock) as watch,
    ):
        executor = Executor(
            context, sweep, lock=lock, watch=watch, own=own, find=find, on_event=lambda _event: None
        )

        def is_clear() -> bool:
            look = watch.look_after(clock.monotonic())
            if look is None:
                raise SystemExit(watch.ended)
            presence = find(lists_of(look), uuids)
            return presence.is_nobody and not presence.own_pids

        for number in range(1, tries + 1):
            wait_for(is_clear, "an idle GPU")
            finished, seconds = one_try(lambda: executor.run(plan.steps[0], Cancellation()), programs)
            print(f"{number:3} {describe(finished)}, {seconds:.2f} s in all", flush=True)
            found.append(finished)
    return found


def describe(run: Run) -> str:
    watch = run.watch
    if watch is None or watch.preemption is None:
        return f"NOT PREEMPTED: {run.cause} {run.reason} {run.detail}"
    it = watch.preemption
    times = (it.kill_sent_seconds, it.gone_seconds, it.clear_seconds)
    shown = "  ".join("-" if seconds is None else f"{seconds * 1000:4.0f} ms" for seconds in times)
    return f"{run.reason}: sent, gone, clear {shown} ({it.foreign[0]})"


def row(name: str, seconds: list[float]) -> str:
    ordered = sorted(seconds)
    cells = (ordered[0], statistics.median(ordered), ordered[-1])
    return f"| {name} | {len(ordered)} | " + " | ".join(f"{cell * 1000:.0f} ms" for cell in cells) + " |"


def main() -> None:
    configure(level="error")
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else TRIES
    print(f"gpumond {__version__}, Python {platform.python_version()}, Linux {platform.release()}")
    with tempfile.TemporaryDirectory() as directory:
        runs = measure(Path(directory), tries)
    found = [
        run.watch.preemption for run in runs if run.watch is not None and run.watch.preemption is not None
    ]
    print("\n| from the first list that shows the foreigner | tries | least | median | most |")
    print("| --- | --- | --- | --- | --- |")
    print(row("to SIGKILL sent", [it.kill_sent_seconds for it in found if it.kill_sent_seconds is not None]))
    print(row("to none of ours left", [it.gone_seconds for it in found if it.gone_seconds is not None]))
    print(row("to a clear driver", [it.clear_seconds for it in found if it.clear_seconds is not None]))
    load = runs[-1].watch.gpus if runs and runs[-1].watch else ()
    print("\nlast run:", *(f"{gpu.uuid} {gpu.last}" for gpu in load), sep="\n")


if __name__ == "__main__":
    main()
