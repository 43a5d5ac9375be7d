"""The rows that a benchmark of given options has: sizes, counts, datatypes, operators. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from gpumond.model.benchmark import Collective
from gpumond.simulate.benchmark_options import DATATYPE_BYTES, Options
from gpumond.simulate.nccl_text import loops_over_redops, redop_cell, root_cell
from gpumond.simulate.world import ScenarioGpu

GIB = 1 << 30
RESERVED_MAX_BYTES = 4 * GIB
ALIGNMENT_BYTES = 16

_PER_RANK = frozenset(
    {
        Collective.ALL_GATHER,
        Collective.REDUCE_SCATTER,
        Collective.ALLTOALL,
        Collective.ALLTOALLV,
        Collective.GATHER,
        Collective.SCATTER,
        Collective.HYPERCUBE,
    }
)
"""Their size is that of all ranks together, and the count that of one."""


@dataclass(frozen=True, slots=True)
class SizeRow:
    size: int
    count: int
    datatype: str
    redop: str
    root: int


def size_rows(options: Options, collective: Collective, ranks: int, max_bytes: int) -> Iterator[SizeRow]:
    """Types outermost, then operators, then sizes; the whole once a cycle, for ever where `cycles` is 0."""
    redops = options.redops if loops_over_redops(collective) else options.redops[:1]
    for _ in range(options.cycles) if options.cycles else count():
        for datatype in options.datatypes:
            for redop in redops:
                for requested in _requested(options, max_bytes):
                    yield _row(
                        collective, ranks, requested, datatype=datatype, redop=redop, root=options.root
                    )


def clamped(options: Options, gpus: tuple[ScenarioGpu, ...]) -> int:
    """The largest size that the smallest GPU has room for: send, receive and, when checking, expected buffer."""
    memory = min(gpu.model.memory_total_bytes for gpu in gpus)
    reserved = min(GIB + GIB * (memory // (16 * GIB)), RESERVED_MAX_BYTES)
    return min(options.max_bytes, (memory - reserved) // (3 if options.checks else 2))


def _requested(options: Options, max_bytes: int) -> Iterator[int]:
    size = min(options.min_bytes, max_bytes)
    while size <= max_bytes:
        yield size
        following = size * options.step_factor if options.step_factor > 1 else size + options.step_bytes
        if following <= size:
            return
        size = following


def _row(
    collective: Collective, ranks: int, requested: int, *, datatype: str, redop: str, root: int
) -> SizeRow:
    width = DATATYPE_BYTES[datatype]
    if collective in _PER_RANK:
        elements = requested // ranks // ALIGNMENT_BYTES * ALIGNMENT_BYTES // width
        size = elements * width * ranks
    else:
        elements = requested // width
        size = elements * width
    return SizeRow(size, elements, datatype, redop_cell(collective, redop), root_cell(collective, root))
