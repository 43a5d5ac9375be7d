"""Checks of what surrounds the GPUs: Python and its packages, the store, the lock, the benchmark programs, limits."""

from __future__ import annotations

import importlib.util
import os
import platform
import resource
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from gpumond import __version__
from gpumond.assembly import daemon_lock_file, journal_command, make_questions
from gpumond.clock import SystemClock
from gpumond.config.schema import Config
from gpumond.doctor.checks import NOT_EVALUATED, Check, Level
from gpumond.doctor.engines import check_engines
from gpumond.doctor.privileges import check_privileges
from gpumond.errors import HostError
from gpumond.guards.lock import holder_of
from gpumond.monitor.kernel_log import KERNEL_MESSAGES, no_access_hint
from gpumond.parsers.kernel_log import read_entry
from gpumond.process.procfs import read_all_stats

_JOURNAL_SECONDS_MAX = 10.0

_SLURM_DAEMON = "slurmd"
_KUBERNETES_DAEMON = "kubelet"

SHM_BYTES_MIN = 1 << 30
"""NCCL's shared memory transport fails on containers' default of 64 MiB (NVIDIA/nccl#290, #525)."""


def check_host(config: Config) -> Iterator[Check]:
    yield Check(
        "gpumond", Level.OK, f"{__version__}, Python {platform.python_version()}, {platform.system()}"
    )
    yield from _check_nvml_binding()
    yield from _check_extras()
    yield from _check_sweeps(config)
    yield from check_scheduler(config, {stat.name for stat in read_all_stats()})
    yield _check_daemon(config)
    yield _check_store(config)
    yield _check_lock(config)
    yield from check_engines(config)
    yield from _check_memory()
    yield from _check_kernel_log(config)
    yield from check_privileges(config)


def _check_nvml_binding() -> Iterator[Check]:
    """`pynvml` the module must be NVIDIA's single file: the old package of that name shadows it silently."""
    found = importlib.util.find_spec("pynvml")
    hint = "Install nvidia-ml-py, and remove the packages pynvml and nvidia-ml-py3."
    if found is None or found.origin is None:
        yield Check("NVML binding", Level.MISSING, "there is no module pynvml", hint)
    elif Path(found.origin).name != "pynvml.py":
        yield Check("NVML binding", Level.MISSING, f"{found.origin} is not NVIDIA's own", hint)
    else:
        yield Check("NVML binding", Level.OK, "nvidia-ml-py")


def _check_extras() -> Iterator[Check]:
    is_here = importlib.util.find_spec("amdsmi") is not None
    detail = "installed" if is_here else "not installed; only needed for AMD GPUs"
    yield Check("amdsmi", Level.OK if is_here else Level.NOTE, detail)


def _check_sweeps(config: Config) -> Iterator[Check]:
    if config.sweeps:
        names = ", ".join(sweep.name for sweep in config.sweeps)
        yield Check("sweeps", Level.OK, f"configured: {names}")
    else:
        yield Check(
            "sweeps",
            Level.WARNING,
            "none configured: nothing is ever measured by itself",
            "Add a [[sweep]] table; config.example.toml has a nightly one.",
        )


def check_scheduler(config: Config, names: Collection[str]) -> Iterator[Check]:
    """Whether whoever gives out this host's GPUs is asked; `names` are those of the running processes."""
    if not config.sweeps or config.simulate is not None:
        return
    slurm = config.guards.slurm
    if slurm is not None:
        yield Check("Slurm", Level.OK, f"is asked before a sweep, mode {slurm.mode.value}")
    elif _SLURM_DAEMON in names:
        yield Check(
            "Slurm",
            Level.WARNING,
            f"{_SLURM_DAEMON} runs here, and sweeps do not ask it",
            "Add the table [guards.slurm]: else a job may be given GPUs on which a sweep has just begun.",
        )
    if _KUBERNETES_DAEMON in names and not config.guards.command:
        yield Check(
            "Kubernetes",
            Level.WARNING,
            f"{_KUBERNETES_DAEMON} runs here, and sweeps do not ask it",
            "Set guards.command; docs/guards.md has an example.",
        )


def _check_daemon(config: Config) -> Check:
    try:
        holder = holder_of(daemon_lock_file(config))
    except HostError as error:
        return Check("daemon", Level.NOTE, f"cannot be told: {error.message}", error.hint)
    return (
        Check("daemon", Level.OK, f"runs: {holder}") if holder else Check("daemon", Level.NOTE, "not running")
    )


def _check_store(config: Config) -> Check:
    directory = config.store.directory
    if not directory.exists():
        hint = f"The daemon makes it, if it may: `install -d -o gpumond -m 750 {directory}`."
        return Check("store", Level.NOTE, f"{directory} does not exist yet", hint)
    if not os.access(directory, os.W_OK | os.X_OK):
        hint = "Run this as root or as the daemon's user to see more."
        return Check("store", Level.WARNING, f"{directory} is not writable for this user", hint)
    free = shutil.disk_usage(directory).free
    if free < config.store.min_free:
        hint = "Free some space, or lower store.min_free."
        return Check(
            "store", Level.MISSING, f"{directory} has {free >> 20} MiB free: no sweep is started", hint
        )
    return Check("store", Level.OK, f"{directory}, {free >> 20} MiB free")


def _check_lock(config: Config) -> Check:
    path = config.benchmark.lock_file
    nearest = next(parent for parent in path.parents if parent.exists())
    target = path if path.exists() else nearest
    if os.access(target, os.W_OK):
        return Check("benchmark lock", Level.OK, str(path))
    hint = "deploy/systemd/gpumond.tmpfiles.conf makes the directory; or set benchmark.lock_file."
    return Check("benchmark lock", Level.WARNING, f"{path} cannot be locked by this user", hint)


def _check_kernel_log(config: Config) -> Iterator[Check]:
    if not config.snapshot.kernel_log:
        yield Check("kernel log", Level.NOTE, "not read: snapshot.kernel_log is false")
        return
    ask = make_questions(SystemClock(), deadline_seconds=_JOURNAL_SECONDS_MAX)
    answer = ask(
        (*journal_command(config), "--boot", "--lines=1", "--output=json", "--quiet", KERNEL_MESSAGES)
    )
    if any(read_entry(line) for line in answer.output.splitlines()):
        yield Check("kernel log", Level.OK, "readable: Xids and PCIe errors are counted")
    else:
        detail = answer.failure or "this user sees no kernel messages"
        yield Check(
            "kernel log",
            Level.WARNING,
            f"{NOT_EVALUATED}: {detail}, so Xids and PCIe errors are not counted",
            no_access_hint(),
        )


def _check_memory() -> Iterator[Check]:
    shm = Path("/dev/shm")  # noqa: S108 - looked at, not written
    if shm.is_dir():
        size = shutil.disk_usage(shm).total
        if size < SHM_BYTES_MIN:
            hint = "In a container use --shm-size=1g or more."
            yield Check(
                "shared memory", Level.WARNING, f"{shm} has {size >> 20} MiB: NCCL may fail without P2P", hint
            )
        else:
            yield Check("shared memory", Level.OK, f"{shm} has {size >> 20} MiB")
    soft, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft != resource.RLIM_INFINITY:
        yield Check(
            "locked memory",
            Level.NOTE,
            f"limited to {soft >> 10} KiB: {NOT_EVALUATED} for RDMA, which needs it unlimited",
            "The unit sets LimitMEMLOCK=infinity; by hand, `ulimit -l unlimited`.",
        )
