"""From the configuration's words to what the plan works with. Pure."""

from __future__ import annotations

from gpumond.config.schema import ALL_GPUS, Config, SweepConfig
from gpumond.model.identity import GpuUuid
from gpumond.sweep.plan import Deadlines, GpuSetRule, Parameters, SweepSpec


def gpu_set_rules(config: Config) -> dict[str, GpuSetRule]:
    """Every GPU set by name, the built-in `all` first."""
    rules = {ALL_GPUS: GpuSetRule(ALL_GPUS)}
    for name, members in config.gpu_sets.items():
        uuids = None if members.uuids is None else tuple(GpuUuid(uuid) for uuid in members.uuids)
        rules[name] = GpuSetRule(name, uuids=uuids, numa_node=members.numa_node)
    return rules


def sweep_specs(config: Config) -> dict[str, SweepSpec]:
    """Every configured sweep by name, in the order of the file."""
    return {sweep.name: _spec_of(sweep, config) for sweep in config.sweeps}


def shared_parameters(config: Config) -> Parameters:
    """Those of a sweep that sets none itself."""
    return _spec_of(SweepConfig(name="none"), config).parameters


def _spec_of(sweep: SweepConfig, config: Config) -> SweepSpec:
    return SweepSpec(
        name=sweep.name,
        gpu_sets=tuple(sweep.gpu_sets),
        collectives=tuple(sweep.collectives),
        parameters=Parameters(
            min_bytes=sweep.min_size,
            max_bytes=sweep.max_size,
            step_factor=sweep.step_factor,
            datatype=sweep.datatype.value,
            redop=sweep.redop.value,
            warmup_iterations=sweep.warmup_iterations,
            iterations=sweep.iterations,
            check=sweep.check,
            extra_arguments=tuple(sweep.extra_arguments),
            environment=tuple(sorted(config.benchmark.environment.items())),
            beside_jobs=sweep.beside_jobs,
        ),
        engine=sweep.engine,
        has_sanity_check=sweep.sanity,
        iteration_seconds_max=sweep.max_iteration_time,
        deadlines=Deadlines(sweep.first_row_deadline, sweep.row_deadline, sweep.total_deadline),
    )
