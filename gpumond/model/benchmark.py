"""What a benchmark printed (in the units in which it prints) and what is kept of it (in base units).

`ParsedOutput` is the contract of `gpumond parse --json` and stays as close to the text as possible. `Point` is one
measurement: what the store, the exporter and the judge work with.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class Collective(StrEnum):
    """The benchmark programs' names without `_perf`."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALLTOALL = "alltoall"
    ALLTOALLV = "alltoallv"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    SENDRECV = "sendrecv"
    GATHER = "gather"
    SCATTER = "scatter"
    HYPERCUBE = "hypercube"


class Placement(StrEnum):
    OUT_OF_PLACE = "out_of_place"
    IN_PLACE = "in_place"


class TextOutcome(StrEnum):
    """What the text alone says; the first that applies, in this order."""

    FAILED = "failed"
    WRONG_RESULTS = "wrong_results"
    TRUNCATED = "truncated"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Timing:
    """One placement of one row, as printed. `wrong` is None for `N/A` and for the old `error` columns."""

    time_us: float
    algbw_gbps: float
    busbw_gbps: float
    wrong: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """One complete row of the table. `bytes` and `count` as printed."""

    bytes: int
    count: int
    type: str
    redop: str | None
    root: int | None
    out_of_place: Timing | None
    in_place: Timing | None


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row whose arithmetic does not hold: misread or invented, so no measurement (DESIGN rule 6)."""

    line: int
    text: str
    reason: str


class NoteKind(StrEnum):
    """What a text says besides its rows and its outcome, or what of it was not kept."""

    INPUT_CUT = "input_cut"
    LINES_CUT = "lines_cut"
    ROWS_CUT = "rows_cut"
    REJECTED_CUT = "rejected_cut"
    SEVERAL_RUNS = "several_runs"
    SIZES_REDUCED = "sizes_reduced"
    ARGUMENT_REPLACED = "argument_replaced"
    NOTHING_MEASURED = "nothing_measured"
    AVERAGE_TOO_LOW = "average_too_low"
    BITWISE_MISMATCH = "bitwise_mismatch"
    ERROR_AFTER_FOOTER = "error_after_footer"


@dataclass(frozen=True, slots=True)
class Note:
    """One such thing; `text` is for a person."""

    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """What a nccl-tests or rccl-tests text says.

    `collective`, `ngpus`, `nranks` and the versions are None where the text does not state them. `error` is set
    exactly when `outcome` is FAILED.
    """

    tool: str
    collective: str | None
    ngpus: int | None
    nranks: int | None
    rows: tuple[Row, ...]
    avg_busbw_gbps: float | None
    out_of_bounds: int | None
    outcome: TextOutcome
    error: str | None
    rejected: tuple[RejectedRow, ...] = ()
    notes: tuple[Note, ...] = ()
    tool_version: str | None = None
    library_version: str | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement: one size, one placement, base units. `time_seconds` is of one operation."""

    collective: Collective
    datatype: str
    redop: str
    size_bytes: int
    placement: Placement
    time_seconds: float
    algbw_bytes_per_second: float
    busbw_bytes_per_second: float
    wrong_elements: int | None


def points_of_row(row: Row, collective: Collective) -> tuple[Point, ...]:
    """The measurements in a row: one for each placement that was timed; a row of size 0 holds none."""
    if row.bytes == 0:
        return ()
    placements = ((Placement.OUT_OF_PLACE, row.out_of_place), (Placement.IN_PLACE, row.in_place))
    return tuple(
        Point(
            collective=collective,
            datatype=row.type,
            redop=row.redop or "none",
            size_bytes=row.bytes,
            placement=placement,
            time_seconds=_scaled(timing.time_us, -6),
            algbw_bytes_per_second=_scaled(timing.algbw_gbps, 9),
            busbw_bytes_per_second=_scaled(timing.busbw_gbps, 9),
            wrong_elements=timing.wrong,
        )
        for placement, timing in placements
        if timing is not None
    )


def _scaled(printed: float, exponent: int) -> float:
    """`printed` x 10^exponent without binary rounding on the way: 338.12 becomes 338120000000.0."""
    return float(Decimal(repr(printed)).scaleb(exponent))


def busbw_factor(collective: Collective, ranks: int) -> float:
    """busbw / algbw with `ranks` ranks (nccl-tests doc/PERFORMANCE.md)."""
    match collective:
        case Collective.ALL_REDUCE:
            return 2 * (ranks - 1) / ranks
        case (
            Collective.ALL_GATHER
            | Collective.REDUCE_SCATTER
            | Collective.ALLTOALL
            | Collective.ALLTOALLV
            | Collective.GATHER
            | Collective.SCATTER
        ):
            return (ranks - 1) / ranks
        case Collective.BROADCAST | Collective.REDUCE | Collective.SENDRECV | Collective.HYPERCUBE:
            return 1.0
