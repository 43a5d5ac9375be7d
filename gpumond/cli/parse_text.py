"""The result of `gpumond parse` as a person reads it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpumond.model.benchmark import ParsedOutput, Row, TextOutcome, Timing

_HEADINGS = ("time", "algbw", "busbw", "wrong")
_BINARY_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def lines_of(parsed: ParsedOutput) -> list[str]:
    """The result as a person reads it."""
    lines = [_title(parsed)]
    if parsed.rows:
        lines += ["time in us, bandwidth in GB/s (10^9 bytes/s)", "", *_table(parsed.rows), ""]
    lines.append(_verdict(parsed))
    if parsed.rows and parsed.avg_busbw_gbps is not None:
        lines.append(
            f"average busbw {parsed.avg_busbw_gbps:g} GB/s, over all sizes and both placements: "
            "it says nothing of a link, the large sizes do"
        )
    lines += [f"rejected line {row.line}: {row.reason}: {row.text}" for row in parsed.rejected]
    lines += [f"note: {note.text}" for note in parsed.notes]
    return lines


def _title(parsed: ParsedOutput) -> str:
    version = f" {parsed.tool_version}" if parsed.tool_version else ""
    library = f" on library {parsed.library_version}" if parsed.library_version else ""
    ranks = (
        "unknown number of ranks"
        if parsed.nranks is None
        else f"{parsed.nranks} rank{'s'[: parsed.nranks != 1]}"
    )
    return f"{parsed.collective or 'unknown collective'}, {ranks}, {parsed.tool}{version}{library}"


def _verdict(parsed: ParsedOutput) -> str:
    rows = f"{len(parsed.rows)} row{'' if len(parsed.rows) == 1 else 's'}"
    match parsed.outcome:
        case TextOutcome.FAILED:
            return f"failed: {parsed.error}" + (f"; {rows} before that" if parsed.rows else "")
        case TextOutcome.WRONG_RESULTS:
            return f"wrong results: data were corrupted, {_wrong_text(parsed)}"
        case TextOutcome.TRUNCATED if not _is_recognised(parsed):
            return "no output of nccl-tests or rccl-tests in it"
        case TextOutcome.TRUNCATED:
            return f"truncated: {rows}, and no footer"
        case TextOutcome.OK if not parsed.rows:
            return "no result: the run ended without a row that can be read"
        case TextOutcome.OK:
            return f"ok: {rows}, {_checked_text(parsed.rows)}"


def _is_recognised(parsed: ParsedOutput) -> bool:
    facts = (parsed.collective, parsed.ngpus, parsed.nranks, parsed.tool_version, parsed.out_of_bounds)
    return bool(parsed.rows or parsed.rejected) or any(fact is not None for fact in facts)


def _timings(rows: Sequence[Row]) -> list[Timing]:
    return [timing for row in rows for timing in (row.out_of_place, row.in_place) if timing is not None]


def _wrong_text(parsed: ParsedOutput) -> str:
    wrong = [timing.wrong for timing in _timings(parsed.rows) if timing.wrong]
    if wrong:
        return f"{sum(wrong)} wrong elements in {len(wrong)} measurement{'' if len(wrong) == 1 else 's'}"
    if parsed.out_of_bounds:
        return f"{parsed.out_of_bounds} values out of bounds"
    return "the last row was cut inside its count of wrong elements"


def _checked_text(rows: Sequence[Row]) -> str:
    if any(timing.wrong is not None for timing in _timings(rows)):
        return "no wrong values"
    return "data not checked element by element"


def _table(rows: Sequence[Row]) -> list[str]:
    blocks = [_block("", [("size", [size_text(row.bytes) for row in rows]), *_left_columns(rows)])]
    placements = (
        ("out-of-place", [row.out_of_place for row in rows]),
        ("in-place", [row.in_place for row in rows]),
    )
    blocks += [_block(title, _timing_columns(timings)) for title, timings in placements if any(timings)]
    return ["   ".join(line).rstrip() for line in zip(*blocks, strict=True)]


def _left_columns(rows: Sequence[Row]) -> list[tuple[str, list[str]]]:
    columns = [("type", [row.type for row in rows])]
    if any(row.redop not in (None, "none") for row in rows):
        columns.append(("redop", [row.redop or "" for row in rows]))
    if any(row.root not in (None, -1) for row in rows):
        columns.append(("root", ["" if row.root is None else str(row.root) for row in rows]))
    return columns


def _timing_columns(timings: Sequence[Timing | None]) -> list[tuple[str, list[str]]]:
    cells = [_timing_cells(timing) for timing in timings]
    return [(heading, [cell[index] for cell in cells]) for index, heading in enumerate(_HEADINGS)]


def _timing_cells(timing: Timing | None) -> tuple[str, str, str, str]:
    if timing is None:
        return ("", "", "", "")
    wrong = "-" if timing.wrong is None else str(timing.wrong)
    return (f"{timing.time_us:.2f}", f"{timing.algbw_gbps:.2f}", f"{timing.busbw_gbps:.2f}", wrong)


def _block(title: str, columns: Sequence[tuple[str, list[str]]]) -> list[str]:
    """Right-aligned columns, two spaces apart, under their common title."""
    widths = [max(len(heading), *(len(cell) for cell in cells)) for heading, cells in columns]
    lines = zip(*((heading, *cells) for heading, cells in columns), strict=True)
    aligned = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    ]
    return [title.center(len(aligned[0])), *aligned]


def size_text(size: int) -> str:
    """`size` in the largest binary unit that shows it exactly, as nccl-tests takes it: 2147483648 is 2 GiB."""
    for unit, factor in _BINARY_UNITS:
        if size and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"
