"""How the parts are put together for a configuration: the same for the daemon and for a command that does its work.

Knows which command is a probe and which is a benchmark on this host, real or made up. Holds no state.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from gpumond.board import StatusBoard
from gpumond.clock import Clock, SystemClock
from gpumond.config.guards_schema import SlurmConfig, SlurmMode
from gpumond.config.schema import Config, NcclTestsConfig, SimulateConfig
from gpumond.exporter.metrics import Exposition
from gpumond.exporter.textfile import TextFile
from gpumond.exporter.web.access import OPEN_ACCESS, WebAccess
from gpumond.guards.operator import CommandGuard, InhibitGuard, PauseGuard
from gpumond.guards.quiet import LIVE_GAP_SECONDS_MAX, QuietLog, QuietRule
from gpumond.guards.report import Guard
from gpumond.guards.slurm import SlurmGuard
from gpumond.model.topology import Snapshot, Vendor
from gpumond.monitor.kernel_log import JOURNALCTL, KernelLogMonitor
from gpumond.probe.launcher import ProbeLauncher, default_probe_command
from gpumond.probe.sysfs import bridges_to
from gpumond.process.ask import Answer, ask
from gpumond.process.environment import helper_environment, probe_environment
from gpumond.process.lost import LostProcesses
from gpumond.process.procfs import read_stat
from gpumond.schedule.sweeps import read_boot_at
from gpumond.store.sqlite import Store
from gpumond.sweep.context import QuietPolicy, SweepContext
from gpumond.sweep.engines.choice import Engines
from gpumond.sweep.engines.engine import BenchmarkEngine
from gpumond.sweep.engines.nccl4py import Nccl4pyEngine
from gpumond.sweep.engines.nccl_tests import NcclTests
from gpumond.sweep.engines.simulated import SimulatedBenchmark
from gpumond.sweep.engines.torch import TorchEngine
from gpumond.sweep.engines.usage import Usage
from gpumond.sweep.events import SweepEvent
from gpumond.sweep.plan import Step
from gpumond.sweep.runner import SweepRunner
from gpumond.sweep.service import Runner
from gpumond.sweep.slurm_job import SlurmJobRunner, SlurmJobSettings
from gpumond.sweep.specs import gpu_set_rules
from gpumond.sweep.watch import WatchCommand

DAEMON_LOCK = "daemon.lock"
RUNS_DIRECTORY = "runs"
LOST_PROBE = "probe.lost"
LOST_BENCHMARK = "benchmark.lost"

WATCH_MODULES = {Vendor.NVIDIA: "gpumond.probe.watch", Vendor.AMD: "gpumond.probe.amd_watch"}

INTERPRETER_SECONDS_MAX = 30.0
"""How long a Python may take to say whether it has torch: it may lie on a network file system."""

USAGE_SECONDS_MAX = 10.0

SNAPSHOTS_MISSED_MAX = 2
"""So many snapshots in a row may fail before nobody can say that the GPUs were quiet."""


def daemon_lock_file(config: Config) -> Path:
    """Held by the one daemon of a store; a command that finds it held speaks to that daemon through the store."""
    return config.store.directory / DAEMON_LOCK


def probe_command(config: Config) -> tuple[str, ...]:
    """What looks at this host. Raises UsageError for a made-up host that nobody has made up."""
    if config.simulate is None:
        return default_probe_command()
    from gpumond.simulate.scenario import load_with_faults  # noqa: PLC0415 - 2 MiB that a real host has no use for

    load_with_faults(config.simulate.scenario, config.simulate.faults)
    return _simulator("probe", config.simulate)


def _simulator(program: str, simulate: SimulateConfig) -> tuple[str, ...]:
    """What takes the place of a program that looks at hardware."""
    module = f"gpumond.simulate.{program}"
    return (sys.executable, "-I", "-m", module, simulate.scenario, *_simulator_options(simulate))


def _simulator_options(simulate: SimulateConfig) -> tuple[str, ...]:
    """The faults, and when the made-up host began to live: with this process."""
    faults = (word for fault in simulate.faults for word in ("--fault", fault))
    return ("--started-at", f"{_started_at():.3f}", *faults)


@cache
def _started_at() -> float:
    """UNIX time of the start of this process; of now where /proc does not say."""
    now = SystemClock().now()
    boot_at, own = read_boot_at(now), read_stat(os.getpid())
    if boot_at is None or own is None:
        return now.timestamp()
    return boot_at.timestamp() + own.start_ticks / os.sysconf("SC_CLK_TCK")


def make_web_access(config: Config, clock: Clock) -> WebAccess:
    """Who may ask the HTTP server, and over what. Raises ConfigError with every problem of the web configuration file."""
    file = config.web.config_file
    if file is None:
        return OPEN_ACCESS
    from gpumond.exporter.web.web_file import load_web_file  # noqa: PLC0415 - YAML is 1 MiB

    return load_web_file(file, now=clock.now())


def make_lost_benchmarks(config: Config) -> LostProcesses:
    """The benchmarks of this store that no signal ends, whoever started them."""
    return LostProcesses(config.store.directory / LOST_BENCHMARK)


def make_launcher(config: Config, clock: Clock) -> ProbeLauncher:
    return ProbeLauncher(
        probe_command(config),
        probe_environment(os.environ),
        deadline_seconds=config.snapshot.deadline,
        clock=clock,
        memory_file=config.store.directory / LOST_PROBE,
    )


def make_engines(config: Config, clock: Clock, vendor: Vendor | None = None) -> Engines:
    """What could measure on this host."""
    settings = config.engines.nccl_tests
    trusted_uids = _uids_of(config.engines.trusted_owners)
    nccl_tests = NcclTests(
        directory=settings.directory,
        library_path=settings.library_path,
        launcher=settings.launcher,
        is_process_per_gpu=settings.process_per_gpu,
        search_path=os.environ.get("PATH", ""),
        is_rccl=vendor is Vendor.AMD,
        trusted_uids=trusted_uids,
        usage=Usage(_usage_questions(settings, clock)),
    )
    return Engines(
        nccl_tests=nccl_tests,
        nccl4py=None if vendor is Vendor.AMD else Nccl4pyEngine(),
        torch=TorchEngine(
            python=config.engines.torch.python,
            ask=make_questions(clock, deadline_seconds=INTERPRETER_SECONDS_MAX),
            trusted_uids=trusted_uids,
        ),
    )


def _usage_questions(settings: NcclTestsConfig, clock: Clock) -> Callable[[Sequence[str]], Answer]:
    """A benchmark needs its libraries to print its usage too."""
    environment = helper_environment(os.environ)
    if settings.library_path:
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, settings.library_path))
    return make_questions(clock, deadline_seconds=USAGE_SECONDS_MAX, environment=environment)


def _uids_of(names: Sequence[str]) -> frozenset[int]:
    """Those of this host; a name that it does not know owns nothing here."""
    found = set()
    for name in names:
        with contextlib.suppress(KeyError):
            found.add(pwd.getpwnam(name).pw_uid)
    return frozenset(found)


def engine_chooser(config: Config, clock: Clock) -> Callable[[Step, Snapshot], BenchmarkEngine]:
    """What measures a step: the made-up benchmark on a made-up host."""
    if config.simulate is not None:
        simulated = SimulatedBenchmark(
            scenario=config.simulate.scenario,
            pace=config.simulate.pace,
            options=_simulator_options(config.simulate),
        )
        return lambda _step, _snapshot: simulated
    of_vendor = cache(partial(make_engines, config, clock))
    return lambda step, snapshot: of_vendor(snapshot.vendor).choose(step.engine, step.purpose)


def watch_command(config: Config, vendor: Vendor) -> WatchCommand:
    """What watches this host's GPUs while a sweep runs."""
    environment = probe_environment(os.environ)
    if config.simulate is not None:
        return WatchCommand(_simulator("watch", config.simulate), environment)
    return WatchCommand((sys.executable, "-I", "-m", WATCH_MODULES[vendor]), environment)


def journal_command(config: Config) -> tuple[str, ...]:
    """What prints the kernel log: of a made-up host, a made-up one."""
    if config.simulate is None:
        return JOURNALCTL
    return _simulator("journal", config.simulate)


def make_kernel_log(config: Config, *, store: Store, board: StatusBoard, clock: Clock) -> KernelLogMonitor:
    return KernelLogMonitor(
        command=journal_command(config),
        environment=helper_environment(os.environ),
        chain_of=partial(bridges_to, Path("/sys")),
        store=store,
        board=board,
        clock=clock,
    )


def slurm_node(config: Config) -> str:
    """What Slurm calls this host."""
    slurm = config.guards.slurm
    return (slurm.node if slurm else None) or os.uname().nodename.partition(".")[0]


def make_guards(config: Config, *, store: Store, clock: Clock, own_job: str = "") -> tuple[Guard, ...]:
    """The configured guards. In Slurm's job mode it is Slurm that is asked first; its job then looks who else is there."""
    settings = config.guards
    guards: list[Guard] = [PauseGuard(store.pause), InhibitGuard(settings.inhibit_file)]
    if settings.slurm is not None and (own_job or settings.slurm.mode is SlurmMode.LOOK):
        questions = make_questions(clock, deadline_seconds=settings.slurm.deadline)
        guards.append(SlurmGuard(questions, node=slurm_node(config), own_job=own_job))
    if settings.command:
        questions = make_questions(clock, deadline_seconds=settings.command_deadline)
        guards.append(CommandGuard(settings.command, questions))
    return tuple(guards)


def make_textfile(config: Config, *, board: StatusBoard, clock: Clock) -> TextFile | None:
    if config.textfile is None:
        return None
    return TextFile(
        config.textfile.file,
        interval_seconds=config.textfile.interval,
        board=board,
        exposition=Exposition(),
        clock=clock,
    )


def make_questions(
    clock: Clock, *, deadline_seconds: float, environment: Mapping[str, str] | None = None
) -> Callable[[Sequence[str]], Answer]:
    """Asks other programs, each with a deadline; in a helper's environment, where none is given."""
    return partial(
        ask,
        environment=helper_environment(os.environ) if environment is None else environment,
        deadline_seconds=deadline_seconds,
        clock=clock,
    )


def _quiet_policy(config: Config, quiet_log: QuietLog) -> QuietPolicy:
    floor = config.guards.memory_floor
    gap = (SNAPSHOTS_MISSED_MAX + 1) * (config.snapshot.interval + config.snapshot.deadline)
    return QuietPolicy(
        scheduled=QuietRule(config.guards.quiet, floor, gap),
        by_hand=QuietRule(config.guards.quiet_by_hand, floor, LIVE_GAP_SECONDS_MAX),
        log=quiet_log,
    )


def make_sweep_context(
    config: Config,
    *,
    store: Store,
    clock: Clock,
    take_snapshot: Callable[[], Snapshot],
    quiet_log: QuietLog | None = None,
    own_job: str = "",
    runs_cgroup: Path | None = None,
    lost: LostProcesses | None = None,
) -> SweepContext:
    """`quiet_log` is the daemon's, which knows the last minutes; `own_job` is the Slurm job that this process is;
    `runs_cgroup` is the daemon's where one is delegated to it, `lost` the one that it asks each second.
    """
    return SweepContext(
        store=store,
        clock=clock,
        engine_for=engine_chooser(config, clock),
        take_snapshot=take_snapshot,
        gpu_sets=gpu_set_rules(config),
        lock_file=config.benchmark.lock_file,
        work_directory=config.store.directory / RUNS_DIRECTORY,
        base_environment=dict(os.environ),
        min_free_bytes=config.store.min_free,
        watch_for=partial(watch_command, config),
        quiet=_quiet_policy(config, quiet_log or QuietLog()),
        guards=make_guards(config, store=store, clock=clock, own_job=own_job),
        runs_cgroup=runs_cgroup,
        lost=lost or make_lost_benchmarks(config),
        own_job=own_job,
        allowed_processes=frozenset(config.guards.allowed_processes),
    )


def make_runner(
    config: Config,
    context: SweepContext,
    *,
    on_event: Callable[[SweepEvent], None],
    config_file: Path | None,
    count_gpus: Callable[[], int],
) -> Runner:
    """What runs sweeps on this host: we ourselves, or, where Slurm gives the GPUs out, a job of Slurm's."""
    slurm = config.guards.slurm
    if slurm is None or slurm.mode is not SlurmMode.JOB or context.own_job:
        return SweepRunner(context, on_event=on_event)
    return SlurmJobRunner(
        _job_settings(config, slurm, context.clock, config_file=config_file, count_gpus=count_gpus),
        store=context.store,
        clock=context.clock,
        lock_file=context.lock_file,
        work_directory=context.work_directory,
        lost=context.lost,
        on_event=on_event,
    )


def _job_settings(
    config: Config,
    slurm: SlurmConfig,
    clock: Clock,
    *,
    config_file: Path | None,
    count_gpus: Callable[[], int],
) -> SlurmJobSettings:
    environment = helper_environment(os.environ) | probe_environment(os.environ)
    options = {
        "--partition": slurm.partition,
        "--account": slurm.account,
        "--qos": slurm.qos,
        "--nice": slurm.nice,
    }
    return SlurmJobSettings(
        node=slurm_node(config),
        submit_arguments=(
            *(f"{name}={value}" for name, value in options.items() if value is not None),
            *slurm.submit_arguments,
        ),
        inside_command=(sys.executable, "-I", "-m", "gpumond", "sweep"),
        inside_options=() if config_file is None else (f"--config={config_file.absolute()}",),
        exported=tuple(sorted(environment)),
        wait_seconds=slurm.wait,
        count_gpus=count_gpus,
        gres=slurm.gres,
        ask=make_questions(clock, deadline_seconds=slurm.deadline, environment=environment),
    )
