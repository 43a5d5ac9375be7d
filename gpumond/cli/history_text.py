"""What `gpumond history` prints, as text. Pure but for the local time zone, which is the reader's.

One line a run, no spaces inside a cell, so that a person can read it and `awk` too. Instants are local and carry their
offset from UTC; ids start with their time in UTC.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from gpumond.cli.watch_text import watch_facts
from gpumond.model.benchmark import Placement, Point
from gpumond.model.run import Purpose, Run, Sweep

NOTHING = "-"
_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_BYTES_PER_GB = 1e9
_MICROSECONDS_PER_SECOND = 1e6

_RUN_HEADER = (
    "STARTED",
    "SWEEP",
    "GPU-SET",
    "COLLECTIVE",
    "SIZE",
    "BUSBW-GB/s",
    "#WRONG",
    "VERDICT",
    "CAUSE",
    "ID",
)
_POINT_HEADER = ("SIZE", "TYPE", "REDOP", "PLACEMENT", "TIME-us", "ALGBW-GB/s", "BUSBW-GB/s", "#WRONG")
_RIGHT_ALIGNED = frozenset({"SIZE", "TIME-us", "ALGBW-GB/s", "BUSBW-GB/s", "#WRONG"})


def render_list(runs: Iterable[Run], skipped: Iterable[Sweep]) -> str:
    """Runs, and sweeps that ran nothing, newest first: a night without numbers has its reason in the table."""
    lines = [(run.started_at, run.id, _run_cells(run)) for run in runs]
    lines += [(sweep.started_at, sweep.id, _sweep_cells(sweep)) for sweep in skipped]
    lines.sort(key=lambda line: line[:2], reverse=True)
    return _table(_RUN_HEADER, [cells for _, _, cells in lines])


def render_run(run: Run) -> str:
    """One run in full."""
    facts = [
        ("run", run.id),
        ("sweep", f"{run.sweep} ({run.sweep_id})"),
        ("started", _both_times(run.started_at)),
        ("ended", _both_times(run.ended_at) if run.ended_at else "not yet"),
        ("duration", NOTHING if run.duration_seconds is None else f"{run.duration_seconds:.1f} s"),
        ("engine", _engine(run)),
        ("collective", _what(run)),
        ("GPU set", run.gpu_set.name),
        *(("GPU", uuid) for uuid in run.gpu_set.uuids),
        ("verdict", _verdict(run)),
        ("detail", run.detail or NOTHING),
        ("cause", _cause(run)),
        ("text", run.outcome or "nothing was read"),
        ("transport", run.transport.summary if run.transport else NOTHING),
        *watch_facts(run.watch),
        ("parameters", run.parameters_hash),
        ("command", shlex.join(run.command)),
        *(("environment", f"{name}={shlex.quote(value)}") for name, value in sorted(run.environment.items())),
    ]
    return _facts(facts) + "\n" + _table(_POINT_HEADER, [_point_cells(point) for point in run.points])


def render_sweep(sweep: Sweep, runs: Sequence[Run]) -> str:
    """One sweep with its runs."""
    facts = [
        ("sweep", f"{sweep.name} ({sweep.id})"),
        ("asked for by", sweep.trigger.value),
        ("started", _both_times(sweep.started_at)),
        ("ended", _both_times(sweep.ended_at) if sweep.ended_at else "not yet"),
        ("outcome", _outcome(sweep)),
        ("detail", sweep.detail or NOTHING),
        ("runs", f"{len(runs)} of {sweep.planned_runs} planned"),
    ]
    return _facts(facts) + "\n" + render_list(runs, ())


def human_size(size_bytes: int) -> str:
    """`2GiB` where that is exact, else bytes: a size is an exact thing here."""
    size, unit = size_bytes, 0
    while size and size % 1024 == 0 and unit < len(_BINARY_UNITS) - 1:
        size //= 1024
        unit += 1
    return f"{size}{_BINARY_UNITS[unit]}"


def printable(text: str) -> str:
    """`text` without anything that could move a terminal's cursor: it may come from a benchmark."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def largest_point(points: Sequence[Point]) -> Point | None:
    """The largest size, out of place where there is both: the number by which people know a link."""
    return max(
        points,
        key=lambda point: (point.size_bytes, point.placement is Placement.OUT_OF_PLACE),
        default=None,
    )


def wrong_elements(points: Iterable[Point]) -> int | None:
    """All wrong elements of a run; None where no point was checked."""
    counts = [point.wrong_elements for point in points if point.wrong_elements is not None]
    return sum(counts) if counts else None


def _run_cells(run: Run) -> tuple[str, ...]:
    largest = largest_point(run.points)
    return (
        _local(run.started_at),
        run.sweep,
        run.gpu_set.name,
        _what(run),
        human_size(largest.size_bytes) if largest else NOTHING,
        _gigabytes(largest.busbw_bytes_per_second) if largest else NOTHING,
        _count(wrong_elements(run.points)),
        _verdict(run),
        run.cause.value if run.cause else NOTHING,
        run.id,
    )


def _what(run: Run) -> str:
    """The collective, and why it ran where that was not to measure it."""
    is_measurement = run.purpose in (Purpose.MEASUREMENT, Purpose.IMPORTED)
    return run.collective.value if is_measurement else f"{run.collective.value}:{run.purpose.value}"


def _sweep_cells(sweep: Sweep) -> tuple[str, ...]:
    nothing = (NOTHING,) * 5
    return (_local(sweep.started_at), sweep.name, *nothing, _outcome(sweep), NOTHING, sweep.id)


def _point_cells(point: Point) -> tuple[str, ...]:
    return (
        human_size(point.size_bytes),
        point.datatype,
        point.redop,
        point.placement.value,
        f"{point.time_seconds * _MICROSECONDS_PER_SECOND:.2f}",
        _gigabytes(point.algbw_bytes_per_second),
        _gigabytes(point.busbw_bytes_per_second),
        _count(point.wrong_elements),
    )


def _verdict(run: Run) -> str:
    if run.ended_at is None:
        return "running"
    return f"{run.verdict.value}:{run.reason}" if run.reason else run.verdict.value


def _outcome(sweep: Sweep) -> str:
    if sweep.outcome is None:
        return "running"
    return f"{sweep.outcome.value}:{sweep.reason}" if sweep.reason else sweep.outcome.value


def _cause(run: Run) -> str:
    if run.cause is None:
        return NOTHING
    status = "" if run.exit_status is None else f", exit status {run.exit_status}"
    return f"{run.cause.value}{status}"


def _engine(run: Run) -> str:
    versions = [version for version in (run.tool_version, run.library_version) if version]
    return f"{run.engine.value} ({', '.join(versions)})" if versions else run.engine.value


def _gigabytes(bytes_per_second: float) -> str:
    return f"{bytes_per_second / _BYTES_PER_GB:.2f}"


def _count(value: int | None) -> str:
    return NOTHING if value is None else str(value)


def _local(instant: datetime) -> str:
    return instant.astimezone().isoformat(timespec="seconds")


def _both_times(instant: datetime) -> str:
    return f"{_local(instant)} ({instant.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ})"


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = [(name, printable(value)) for name, value in facts]
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [tuple(header), *(tuple(printable(cell) for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if title in _RIGHT_ALIGNED else cell.ljust(width)
            for title, cell, width in zip(header, row, widths, strict=True)
        ]
        lines.append("  ".join(padded).rstrip() + "\n")
    return "".join(lines)
