"""What is allowed and yet probably not meant. Pure; used by `gpumond check-config` and `gpumond doctor`.

Each sentence names its key. Nothing here stops the daemon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumond.config.durations import format_duration
from gpumond.config.schema import Config, SweepConfig
from gpumond.config.values import MIB

STEADY_BYTES: Final = 256 * MIB
"""From this size on, runs on idle GPUs repeat within 0.1-0.4 % (measured on two H200s); below, the CPU has its share."""

STEADY_ITERATIONS: Final = 5
"""With fewer timed iterations results are lower and noisier (measured)."""


def advise(config: Config) -> tuple[str, ...]:
    """Warnings, in the order of the file."""
    return tuple(_advise(config))


def _advise(config: Config) -> Iterator[str]:
    if config.snapshot.deadline > config.snapshot.interval:
        yield (
            f"snapshot.deadline ({format_duration(config.snapshot.deadline)}) is longer than snapshot.interval "
            f"({format_duration(config.snapshot.interval)}): one hanging snapshot delays the next ones"
        )
    if not config.sweeps:
        yield "no [[sweep]]: nothing will ever be measured"
    used = {name for sweep in config.sweeps for name in sweep.gpu_sets}
    for name in config.gpu_sets:
        if name not in used:
            yield f"gpu_sets.{name}: no sweep uses it"
    for sweep in config.sweeps:
        yield from _advise_sweep(sweep)
    if config.simulate is not None:
        yield f"simulate.scenario: everything shown is made up ({config.simulate.scenario})"


def _advise_sweep(sweep: SweepConfig) -> Iterator[str]:
    where = f"sweep {sweep.name}"
    if not sweep.check:
        yield f"{where}: check is false: corrupted data goes unseen"
    if sweep.iterations < STEADY_ITERATIONS:
        yield f"{where}: with fewer than {STEADY_ITERATIONS} iterations results are lower and noisier"
    if sweep.max_size < STEADY_BYTES:
        yield f"{where}: max_size is below 256MiB: bandwidth is not steady at these sizes"
    if sweep.run_at_start:
        yield f"{where}: run_at_start measures at every start of the daemon, outside the window too"
