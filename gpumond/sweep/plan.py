"""From a configured sweep and today's GPUs to ordered benchmark steps with limits. Pure: no clock, no files.

Limits come from the plan, not from one constant. They assume the slowest transport that still counts as working: a run
that is slower than that is a hang for every purpose.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

from gpumond.errors import UsageError
from gpumond.model.benchmark import Collective, busbw_factor
from gpumond.model.identity import GpuUuid
from gpumond.model.reading import Value
from gpumond.model.run import Engine, EngineChoice, GpuSet, Purpose
from gpumond.model.topology import Snapshot

ALL_GPUS = "all"

FLOOR_BUSBW_BYTES_PER_SECOND = 1e9
"""Shared memory over one busy socket was reported at 2.7 GB/s (operators.md 0.8); less than 1 GB/s is a hang."""

START_SECONDS = 60.0
START_SECONDS_PER_GPU = 2.0
"""CUDA and NCCL start-up take 1.75 s on two H200s; hosts without persistence mode need many seconds a GPU."""

ROW_SECONDS_MIN = 30.0

ITERATION_SECONDS_MAX = 0.1
"""What one operation of the largest size may take: beyond, a larger message shows nothing new."""

SANITY_BYTES = 1024**2
"""Enough for every channel to carry some of it."""

TUNING_BYTES_MIN = 1024**2
"""NCCL's choice of algorithm costs a line a call, 1-3 us: a tenth of the time of a small message (measured on two H200s),
and nothing that can be seen from this size on."""

_REDUCING = frozenset({Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE})


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a benchmark is told; every field is part of the series."""

    min_bytes: int
    max_bytes: int
    step_factor: int
    datatype: str
    redop: str
    warmup_iterations: int
    iterations: int
    check: bool
    extra_arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    """The operator's NCCL_* variables, sorted by name."""
    beside_jobs: bool = False
    """Whether GPUs behind the same NVSwitch may be busy meanwhile."""


@dataclass(frozen=True, slots=True)
class GpuSetRule:
    """How a configured GPU set finds its members; exactly one of `uuids` and `numa_node` is set, or neither for all."""

    name: str
    uuids: tuple[GpuUuid, ...] | None = None
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class Deadlines:
    """What the operator set in seconds; None leaves it to the plan."""

    first_row_seconds: float | None = None
    row_seconds: float | None = None
    total_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """A configured sweep, without when it runs."""

    name: str
    gpu_sets: tuple[str, ...]
    collectives: tuple[Collective, ...]
    parameters: Parameters
    deadlines: Deadlines = Deadlines()
    engine: EngineChoice = EngineChoice.AUTO
    iteration_seconds_max: float = ITERATION_SECONDS_MAX
    has_sanity_check: bool = False
    """Whether each GPU set begins with the check that every rank sees the sum of all."""


@dataclass(frozen=True, slots=True)
class StepLimits:
    """Seconds after which a benchmark counts as hung."""

    first_row_seconds: float
    row_seconds: float
    total_seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """One benchmark process to come."""

    sweep: str
    gpu_set: GpuSet
    collective: Collective
    parameters: Parameters
    deadlines: Deadlines = Deadlines()
    engine: EngineChoice = EngineChoice.AUTO
    purpose: Purpose = Purpose.MEASUREMENT
    iteration_seconds_max: float = ITERATION_SECONDS_MAX
    asked: Parameters | None = None
    """What the operator asked for, where `parameters` is less of it (gpumond.sweep.fit): the name of the series."""


def resolve_gpu_set(rule: GpuSetRule, snapshot: Snapshot) -> GpuSet:
    """The members of a set today, ordered by PCI bus id. Raises UsageError where a member is unknown, or none is left."""
    gpus = sorted(snapshot.gpus, key=lambda gpu: gpu.pci_bus_id)
    if rule.uuids is not None:
        present = {gpu.uuid for gpu in gpus}
        unknown = [uuid for uuid in rule.uuids if uuid not in present]
        if unknown:
            raise UsageError(
                f"GPU set {rule.name!r}: {', '.join(unknown)} is not on this host",
                hint="`gpumond topology` prints the UUIDs that are.",
            )
        members = tuple(gpu.uuid for gpu in gpus if gpu.uuid in rule.uuids)
    elif rule.numa_node is not None:
        members = tuple(
            gpu.uuid
            for gpu in gpus
            if isinstance(gpu.numa_node, Value) and gpu.numa_node.value == rule.numa_node
        )
    else:
        members = tuple(gpu.uuid for gpu in gpus)
    if not members:
        raise UsageError(
            f"GPU set {rule.name!r} has no GPU today", hint="`gpumond topology` shows the NUMA nodes."
        )
    return GpuSet(rule.name, members)


def resolve_gpu_sets(rules: Iterable[GpuSetRule], snapshot: Snapshot) -> tuple[GpuSet, ...]:
    """Every set that has its members today; the others are left out (the sweep that needs one says why)."""
    sets = []
    for rule in rules:
        try:
            sets.append(resolve_gpu_set(rule, snapshot))
        except UsageError:
            continue
    return tuple(sets)


def plan_sweep(spec: SweepSpec, rules: Mapping[str, GpuSetRule], snapshot: Snapshot) -> tuple[Step, ...]:
    """The steps of a sweep, in the order in which they run. Raises UsageError where a GPU set cannot be had."""
    sets = [resolve_gpu_set(rules[name], snapshot) for name in spec.gpu_sets]
    return _steps(spec, sets)


def timeout_of(spec: SweepSpec, sets: Iterable[GpuSet]) -> float:
    """Seconds after which a sweep over `sets` must have ended; 0 where none of its sets is among them."""
    members = [gpu_set for gpu_set in sets if gpu_set.name in spec.gpu_sets]
    return sum(limits_of(step).total_seconds for step in _steps(spec, members))


def _steps(spec: SweepSpec, sets: Iterable[GpuSet]) -> tuple[Step, ...]:
    return tuple(step for gpu_set in sets for step in _steps_on(spec, gpu_set))


def _steps_on(spec: SweepSpec, gpu_set: GpuSet) -> Iterator[Step]:
    if spec.has_sanity_check:
        yield Step(
            spec.name,
            gpu_set,
            Collective.ALL_REDUCE,
            sanity_parameters(spec.parameters),
            spec.deadlines,
            spec.engine,
            Purpose.SANITY,
        )
    for collective in spec.collectives:
        yield Step(
            spec.name,
            gpu_set,
            collective,
            spec.parameters,
            spec.deadlines,
            spec.engine,
            iteration_seconds_max=spec.iteration_seconds_max,
        )


def sanity_parameters(parameters: Parameters) -> Parameters:
    """One small all_reduce; of the sweep's own parameters only those of the host stay."""
    return Parameters(
        min_bytes=SANITY_BYTES,
        max_bytes=SANITY_BYTES,
        step_factor=2,
        datatype="float",
        redop="sum",
        warmup_iterations=0,
        iterations=1,
        check=True,
        environment=parameters.environment,
        beside_jobs=parameters.beside_jobs,
    )


def count_steps(spec: SweepSpec) -> int:
    """How many benchmarks the sweep is, if every GPU set can be had."""
    return len(spec.gpu_sets) * (len(spec.collectives) + spec.has_sanity_check)


def sizes_of(parameters: Parameters) -> tuple[int, ...]:
    """The sizes that the benchmark is asked for; it may round them to its own grain, or clamp them to the memory."""
    sizes = [parameters.min_bytes]
    while sizes[-1] * parameters.step_factor <= parameters.max_bytes and parameters.step_factor > 1:
        sizes.append(sizes[-1] * parameters.step_factor)
    return tuple(sizes)


def parameters_hash(engine: Engine, step: Step) -> str:
    """A short name for everything that makes results comparable beyond the visible labels: members of the set, and
    every parameter that was asked for. Not the paths of the host: an updated binary is a change of the fingerprint, not a new series.
    """
    parameters = step.asked or step.parameters
    facts = {"engine": engine.value, "members": step.gpu_set.uuids, **asdict(parameters)}
    if not parameters.beside_jobs:
        del facts["beside_jobs"]  # so that series from before this parameter go on
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def limits_of(step: Step) -> StepLimits:
    """How long the step may take before it counts as hung."""
    ranks = len(step.gpu_set.uuids)
    sizes = sizes_of(step.parameters)
    rows = [_row_seconds(step, size) for size in sizes]
    # Since nccl-tests 2.16.8 all sizes are warmed up before the first row is printed.
    warm_up = sum(_pass_seconds(step, size) * step.parameters.warmup_iterations for size in sizes)
    first_row = step.deadlines.first_row_seconds or (
        START_SECONDS + START_SECONDS_PER_GPU * ranks + warm_up + rows[0]
    )
    return StepLimits(
        first_row_seconds=first_row,
        row_seconds=step.deadlines.row_seconds or max(ROW_SECONDS_MIN, *rows),
        total_seconds=step.deadlines.total_seconds or first_row + sum(rows) + ROW_SECONDS_MIN,
    )


def _pass_seconds(step: Step, size: int) -> float:
    factor = busbw_factor(step.collective, max(2, len(step.gpu_set.uuids)))
    return size * max(factor, 1.0) / FLOOR_BUSBW_BYTES_PER_SECOND


def _row_seconds(step: Step, size: int) -> float:
    # Both placements, and one more pass where the results are checked.
    passes = 2 * (step.parameters.iterations + (1 if step.parameters.check else 0))
    return _pass_seconds(step, size) * passes


def debug_subsystems(step: Step) -> tuple[str, ...]:
    """What NCCL is to tell of itself (NCCL_DEBUG_SUBSYS)."""
    if step.parameters.min_bytes < TUNING_BYTES_MIN:
        return ("INIT", "ENV")
    return ("INIT", "ENV", "TUNING")


def nccl_tests_arguments(step: Step, *, gpus_per_process: int | None = None) -> tuple[str, ...]:
    """The command line of nccl-tests and rccl-tests for a step, without the program. Every default that has changed
    between versions is stated (warm-up went from 5 to 1 in 2.16.8). Without `gpus_per_process` one process has them all.
    """
    parameters = step.parameters
    arguments = [
        ("-b", parameters.min_bytes),
        ("-e", parameters.max_bytes),
        ("-f", parameters.step_factor),
        ("-g", gpus_per_process or len(step.gpu_set.uuids)),
        ("-w", parameters.warmup_iterations),
        ("-n", parameters.iterations),
        ("-c", 1 if parameters.check else 0),
        ("-d", parameters.datatype),
    ]
    if step.collective in _REDUCING:
        arguments.append(("-o", parameters.redop))
    flat = [str(part) for pair in arguments for part in pair]
    return (*flat, *parameters.extra_arguments)


def program_name(collective: Collective) -> str:
    return f"{collective.value}_perf"
