"""Text in the layout of nccl-tests 2.19 or rccl-tests 2.18, for numbers of our own. Pure. Written from the documented
layouts.

A row is three pieces, as the program prints them: sizes, out-of-place, in-place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpumond.model.benchmark import Collective
from gpumond.model.identity import PciBusId
from gpumond.simulate.busbw import Timed

TIME_WIDTH = 7
BANDWIDTH_WIDTH = 6
WRONG_WIDTH = 6
DECIMALS_MAX = 2

UNCHECKED = "N/A"
NO_IN_PLACE_CHECK = frozenset({Collective.ALLTOALL, Collective.ALLTOALLV, Collective.SENDRECV})

_REDUCING = frozenset({Collective.ALL_REDUCE, Collective.REDUCE, Collective.REDUCE_SCATTER})
_ROOTED = frozenset({Collective.BROADCAST, Collective.REDUCE, Collective.GATHER, Collective.SCATTER})

_COLUMNS = ("size", "count", "type", "redop", "root", *("time", "algbw", "busbw", "#wrong") * 2)
_UNITS = ("(B)", "(elements)", "", "", "", *("(us)", "(GB/s)", "(GB/s)", "") * 2)


@dataclass(frozen=True, slots=True)
class Tool:
    """Whose text it is: `nccl` or `rccl`, the version of the tests, the version code of the library."""

    library: str
    version: str
    library_code: int


@dataclass(frozen=True, slots=True)
class Settings:
    """The command line, as far as the text shows it."""

    program: str
    threads: int
    gpus_per_thread: int
    min_bytes: int
    max_bytes: int
    step: str
    warmup_iterations: int
    iterations: int
    aggregated_iterations: int
    checks: int


@dataclass(frozen=True, slots=True)
class RankLine:
    """One rank: the GPU that it drives."""

    rank: int
    device: int
    pci_bus_id: PciBusId
    gpu_name: str


def opening(settings: Settings, tool: Tool) -> list[str]:
    run_line = (
        f"# nThread {settings.threads} nGpus {settings.gpus_per_thread} minBytes {settings.min_bytes} "
        f"maxBytes {settings.max_bytes} step: {settings.step} warmup iters: {settings.warmup_iterations} "
        f"iters: {settings.iterations} agg iters: {settings.aggregated_iterations} "
        f"validation: {settings.checks} graph: 0 unalign: 0"
    )
    library, code = tool.library, tool.library_code
    return [
        f"# {library}-tests version {tool.version} {library}-headers={code} {library}-library={code}",
        f"# Collective test starting: {settings.program}",
        run_line,
        "#",
        "# Using devices",
    ]


def rank_lines(ranks: Sequence[RankLine], *, host: str, pid: int) -> list[str]:
    return [
        f"#  Rank {it.rank:2} Group  0 Pid {pid:6} on {host:>10} device {it.device:2} "
        f"[{it.pci_bus_id.partition('.')[0]}] {it.gpu_name}"
        for it in ranks
    ]


def clamp_lines(max_bytes: int) -> list[str]:
    return ["#", f"# Reducing maxBytes to {max_bytes} due to memory limitation"]


def table_head() -> list[str]:
    """The three header lines; the title of each placement stands above its columns."""
    title = f"#{'':62}out-of-place{'':23}in-place{'':10}"
    return ["#", title, _header(_COLUMNS), _header(_UNITS)]


def _header(cells: Sequence[str]) -> str:
    widths = (10, 12, 8, 6, 6, *(TIME_WIDTH, BANDWIDTH_WIDTH, BANDWIDTH_WIDTH, WRONG_WIDTH) * 2)
    return "# " + "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)) + " "


def sizes_piece(size: int, count: int, datatype: str, redop: str, root: int) -> str:
    return f"{size:12}  {count:12}  {datatype:>8}  {redop:>6}  {root:>6}"


def timing_piece(timed: Timed, wrong: str) -> str:
    return (
        f"  {fitted(timed.time_us, TIME_WIDTH)}  {fitted(timed.algbw_gbps, BANDWIDTH_WIDTH)}"
        f"  {fitted(timed.busbw_gbps, BANDWIDTH_WIDTH)}  {wrong:>{WRONG_WIDTH}}"
    )


def fitted(value: float, width: int) -> str:
    """As many decimals as fit, two at most; an exponent where not even the digits do."""
    for decimals in range(DECIMALS_MAX, -1, -1):
        text = f"{value:.{decimals}f}"
        if len(text) <= width:
            return text.rjust(width)
    return f"{value:.{1 if width == TIME_WIDTH else 0}e}".rjust(width)


def asterisks_line(tool: Tool) -> list[str]:
    """What rccl-tests says above its footer, also where there are none."""
    words = "# Errors with asterisks indicate errors that have exceeded the maximum threshold."
    return [words] if tool.library == "rccl" else []


def wrong_cell(count: int) -> str:
    """As C prints a count that it keeps in a double: six digits."""
    return f"{float(count):g}"


def footer(program: str, *, wrong_cells: int, average_gbps: float) -> list[str]:
    return [
        f"# Out of bounds values : {wrong_cells} {'FAILED' if wrong_cells else 'OK'}",
        f"# Avg bus bandwidth    : {average_gbps:g} ",
        "#",
        f"# Collective test concluded: {program}",
        "#",
        "",
    ]


def redop_cell(collective: Collective, redop: str) -> str:
    """The operator also for sendrecv, which reduces nothing; blank for hypercube; else `none`."""
    if collective in _REDUCING or collective is Collective.SENDRECV:
        return redop
    return "" if collective is Collective.HYPERCUBE else "none"


def root_cell(collective: Collective, root: int) -> int:
    return root if collective in _ROOTED else -1


def loops_over_redops(collective: Collective) -> bool:
    return collective in _REDUCING
