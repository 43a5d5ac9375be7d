"""Tables as nccl-tests and rccl-tests of each era print them, from true values; with the rows that a parser must find.

The printing follows shared/reference/nccl-output.md section 3 (formats, widths), not the parser under test.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from gpumond.model.benchmark import Row, Timing

ELEMENT_BYTES = {
    "int8": 1,
    "f8e5m2": 1,
    "half": 2,
    "bfloat16": 2,
    "float": 4,
    "int32": 4,
    "double": 8,
    "uint64": 8,
}


@dataclass(frozen=True)
class Program:
    """busbw / algbw, whether `size` counts every rank's share, what stands in the cells redop and root."""

    name: str
    factor: str  # "all_reduce", "share" or "one"
    is_size_of_all: bool
    has_op: bool
    root: int

    def busbw_factor(self, ranks: int) -> float:
        return {"all_reduce": 2 * (ranks - 1) / ranks, "share": (ranks - 1) / ranks, "one": 1.0}[self.factor]


PROGRAMS = (
    Program("all_reduce", "all_reduce", is_size_of_all=False, has_op=True, root=-1),
    Program("reduce_scatter", "share", is_size_of_all=True, has_op=True, root=-1),
    Program("all_gather", "share", is_size_of_all=True, has_op=False, root=-1),
    Program("alltoall", "share", is_size_of_all=True, has_op=False, root=-1),
    Program("gather", "share", is_size_of_all=True, has_op=False, root=0),
    Program("broadcast", "one", is_size_of_all=False, has_op=False, root=1),
    Program("reduce", "one", is_size_of_all=False, has_op=True, root=0),
)


@dataclass(frozen=True)
class Style:
    """What a version prints, or an option changes."""

    name: str
    era: int = 3  # 1: v1, 2: v2.0 - v2.11, 3: v2.13 - v2.17.2, 4: v2.17.3 -
    placements: tuple[str, ...] = ("out_of_place", "in_place")
    has_statistics: bool = False
    has_stamp: bool = False
    has_bitdiff: bool = False
    has_hipevt: bool = False
    has_choice: bool = False  # algo proto nchannels
    is_checked: bool = True
    time_name: str = "time"


STYLES = (
    Style("v1", era=1),
    Style("v1 unchecked", era=1, is_checked=False),
    Style("v2.0", era=2),
    Style("v2.0 unchecked", era=2, is_checked=False),
    Style("v2.13"),
    Style("v2.13 unchecked", is_checked=False),
    Style("v2.19", era=4),
    Style("v2.19 -S", era=4, has_stamp=True),
    Style("v2.19 -I", era=4, has_statistics=True),
    Style("v2.19 -I -S", era=4, has_statistics=True, has_stamp=True),
    Style("v2.20 bitwise", era=4, has_bitdiff=True),
    Style("v2.20 bitwise -I", era=4, has_bitdiff=True, has_statistics=True),
    Style("v2.19 -C", era=4, time_name="cputime"),
    Style("rccl in-place only", placements=("in_place",)),
    Style("rccl out-of-place only", era=4, placements=("out_of_place",)),
    Style("rccl -A", era=4, has_choice=True),
    Style("rccl -A -S", era=4, has_choice=True, has_stamp=True),
    Style("rccl hipevt", era=4, has_hipevt=True),
    Style("rccl hipevt -A", era=4, has_hipevt=True, has_choice=True, placements=("in_place",)),
)
WITH_TWO_PLACEMENTS = tuple(style for style in STYLES if len(style.placements) == 2)


@dataclass(frozen=True)
class TrueTiming:
    seconds: float
    wrong: int


@dataclass(frozen=True)
class TrueRow:
    count: int
    type: str
    op: str
    timings: tuple[TrueTiming, TrueTiming]


@dataclass(frozen=True)
class Table:
    style: Style
    program: Program
    ranks: int
    rows: tuple[TrueRow, ...]


def _columns_left(style: Style, program: Program) -> list[str]:
    if style.era >= 3:
        return ["size", "count", "type", "redop", "root"]
    names = ["bytes", "N", "type"] if style.era == 1 else ["size", "count", "type"]
    if program.has_op or program.name == "alltoall":
        names.append("op" if style.era == 1 else "redop")
    if program.root >= 0:
        names.append("root")
    return names


def _columns_placement(style: Style) -> list[str]:
    check = {1: "res", 2: "error"}.get(style.era, "#wrong")
    names = [style.time_name, *(["hipevt"] if style.has_hipevt else []), "algbw", "busbw", check]
    if style.has_bitdiff:
        names.append("#bitdiff")
    return names + (["i_min", "i_max", "i_p99", "i_cv%"] if style.has_statistics else [])


def header(table: Table) -> list[str]:
    style = table.style
    names = _columns_left(style, table.program)
    for _ in style.placements:
        names += _columns_placement(style)
    names += ["algo", "proto", "nchannels"] if style.has_choice else []
    names += ["timestamp"] if style.has_stamp else []
    title = "          ".join(placement.replace("_", "-") for placement in style.placements)
    return [
        f"#{title:>80}",
        "#" + "".join(f"  {name:>8}" for name in names),
        "#        (B)    (elements)   (us)  (GB/s)",
    ]


def run_lines(table: Table) -> list[str]:
    start = [f"# Collective test starting: {table.program.name}_perf"] if table.style.era == 4 else []
    mark = "" if table.style.era == 1 else "# "
    ranks = [
        f"#   Rank {rank:2} Pid  40100 on     node-a device {rank:2} [0x1b] NVIDIA H200"
        for rank in range(table.ranks)
    ]
    return [
        *start,
        f"{mark}nThread 1 nGpus {table.ranks} minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20",
        "#",
        "# Using devices",
        *ranks,
        "#",
    ]


FOOTER = ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 93.96 ", "#"]


def number(value: float, style: Style, *, is_time: bool) -> str:
    if style.era == 1:
        return f"{value:7.3f}" if is_time else f"{value:5.2f}"
    if style.era < 4:
        if not is_time:
            return f"{value:6.2f}"
        return f"{value:7.2f}" if value < 100 else f"{value:7.1f}" if value < 10_000 else f"{value:7.0f}"
    width = 7 if is_time else 6
    for decimals in (2, 1, 0):
        if len(text := f"{value:{width}.{decimals}f}") <= width:
            return text
    return f"{value:{width}.1e}" if is_time else f"{value:{width}.0e}"


def check_cell(timing: TrueTiming, placement: str, table: Table) -> str:
    style = table.style
    if not style.is_checked or (
        style.era >= 3 and placement == "in_place" and table.program.name == "alltoall"
    ):
        return "\tN/A" if style.era == 1 else "  N/A"
    if style.era < 3:
        return f"{timing.wrong * 1e-7:5.0e}"
    return f"{timing.wrong:6g}"


def placement_text(timing: TrueTiming, placement: str, size: int, table: Table) -> tuple[str, Timing]:
    """(one print of a row, what it says)."""
    style = table.style
    algbw = size / timing.seconds / 1e9
    busbw = algbw * table.program.busbw_factor(table.ranks)
    time = number(timing.seconds * (1e3 if style.era == 1 else 1e6), style, is_time=True)
    cells = [number(algbw, style, is_time=False), number(busbw, style, is_time=False)]
    check = check_cell(timing, placement, table)
    more = ["      0"] if style.has_bitdiff else []
    more += ["  17.60", "  37.34", "  37.34", "  21.42"] if style.has_statistics else []
    hipevt = ["  12.34"] if style.has_hipevt else []
    text = "".join(f"  {cell}" for cell in (time, *hipevt, *cells, check, *more))
    has_count = style.era >= 3 and "N/A" not in check
    said = Timing(
        time_us=round(float(time) * 1000) if style.era == 1 else float(time),
        algbw_gbps=float(cells[0]),
        busbw_gbps=float(cells[1]),
        wrong=int(float(check)) if has_count else None,
    )
    return text, said


def prints(row: TrueRow, table: Table) -> tuple[list[str], Row]:
    """(the prints of one row, the row that they make)."""
    style, program = table.style, table.program
    size = row.count * ELEMENT_BYTES[row.type] * (table.ranks if program.is_size_of_all else 1)
    left = f"{size:12}  {row.count:12}  {row.type:>8}"
    names = _columns_left(style, program)
    redop = row.op if program.has_op else ("none" if style.era >= 3 else "")
    if {"op", "redop"} & set(names):
        left += f"  {redop:>6}"
    if "root" in names:
        left += f"  {program.root:6}"
    parts, said = [left], {}
    for placement, timing in zip(("out_of_place", "in_place"), row.timings, strict=True):
        if placement in style.placements:
            text, said[placement] = placement_text(timing, placement, size, table)
            parts.append(text)
    tail = "  2026-11-29 16:13:50" if style.has_stamp else ""
    tail += "    RING      LL          24" if style.has_choice else ""
    if tail:
        parts.append(tail)
    is_blank = not redop or not ({"op", "redop"} & set(names))
    made = Row(
        bytes=size,
        count=row.count,
        type=row.type,
        redop=None if is_blank else redop,
        root=program.root if "root" in names else None,
        out_of_place=said.get("out_of_place"),
        in_place=said.get("in_place"),
    )
    return parts, made


def render(table: Table) -> tuple[str, tuple[Row, ...]]:
    """(a whole output, its rows)."""
    made = [prints(row, table) for row in table.rows]
    lines = [*run_lines(table), *header(table), *("".join(parts) for parts, _ in made), *FOOTER]
    return "\n".join(lines) + "\n", tuple(row for _, row in made)


def true_timings(*, is_wrong: bool = True) -> st.SearchStrategy[TrueTiming]:
    wrong = st.one_of(st.just(0), st.just(0), st.integers(1, 3_000_000)) if is_wrong else st.just(0)
    return st.builds(TrueTiming, seconds=st.floats(2e-6, 0.5), wrong=wrong)


def true_rows(*, is_wrong: bool = True) -> st.SearchStrategy[TrueRow]:
    timings = true_timings(is_wrong=is_wrong)
    return st.builds(
        TrueRow,
        count=st.one_of(st.integers(1, 2**30), st.sampled_from([2**power for power in range(31)])),
        type=st.sampled_from(sorted(ELEMENT_BYTES)),
        op=st.sampled_from(["sum", "prod", "max", "mulsum"]),
        timings=st.tuples(timings, timings),
    )


def tables(
    styles: tuple[Style, ...] = STYLES, *, min_ranks: int = 2, max_rows: int = 5, is_wrong: bool = True
):
    def fitting(table: Table) -> Table:
        # v1 knew four programs and neither bfloat16 nor fp8; what matters here is that the layout is its own.
        return (
            replace(table, program=PROGRAMS[0])
            if table.style.era == 1 and table.program.name == "alltoall"
            else table
        )

    return st.builds(
        Table,
        style=st.sampled_from(styles),
        program=st.sampled_from(PROGRAMS),
        ranks=st.integers(min_ranks, 16),
        rows=st.lists(true_rows(is_wrong=is_wrong), min_size=1, max_size=max_rows).map(tuple),
    ).map(fitting)
