"""How a sweep looks while it runs: live bars on a terminal, one line a row elsewhere. Everything goes to standard error.

The rows are what a person came for, so they stay on the screen; bars are only below them.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Protocol, Self

from tqdm import tqdm

from gpumond.model.benchmark import Placement, Point
from gpumond.model.run import Engine, Run
from gpumond.sweep.events import (
    RowMeasured,
    RunFinished,
    RunStarted,
    SweepEvent,
    SweepFinished,
    SweepStarted,
)

_ROW_HEADER = f"{'size':>10}  {'out of place':>14}  {'in place':>14}  (busbw)"

_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


class SweepDisplay(Protocol):
    """Shows events in the order in which they happen."""

    def show(self, event: SweepEvent) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def make_display(*, is_quiet: bool) -> SweepDisplay:
    if is_quiet:
        return QuietDisplay()
    return TerminalDisplay() if sys.stderr.isatty() else LineDisplay()


class QuietDisplay:
    """Shows nothing."""

    def show(self, event: SweepEvent) -> None:
        """Leave it unseen."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


class LineDisplay(QuietDisplay):
    """One line an event, for logs and pipes."""

    def show(self, event: SweepEvent) -> None:
        line = _line_of(event)
        if line:
            print(line, file=sys.stderr, flush=True)


class TerminalDisplay(QuietDisplay):
    """The same lines, with a bar for the sizes of the running benchmark below them."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_bar()

    def show(self, event: SweepEvent) -> None:
        if isinstance(event, RunFinished):
            self._end_bar()
        line = _line_of(event)
        if line:
            tqdm.write(line, file=sys.stderr)
        if isinstance(event, RunStarted):
            self._bar = _bar_for(event)
        elif isinstance(event, RowMeasured) and self._bar is not None:
            self._bar.update()

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _bar_for(event: RunStarted) -> Any:
    """Rows done, of how many, and for how long; without a total where the plan is not known here."""
    return tqdm(
        total=event.expected_rows or None,
        desc=f"      {event.run.collective.value}",
        bar_format="{desc} |{bar:30}| {n_fmt}/{total_fmt} sizes, {elapsed}",
        leave=False,
        file=sys.stderr,
        dynamic_ncols=True,
        mininterval=0,
    )


def _line_of(event: SweepEvent) -> str:
    match event:
        case SweepStarted(sweep):
            return f"sweep {sweep.name} ({sweep.id})"
        case RunStarted(run, number, planned_runs, _):
            gpus = len(run.gpu_set.uuids)
            title = f"[{number}/{planned_runs}] {run.collective.value} on {run.gpu_set.name} ({gpus} GPUs)"
            mark = "  SIMULATED: no GPU measures this" if run.engine is Engine.SIMULATED else ""
            return f"{title}{mark}\n{_ROW_HEADER}"
        case RowMeasured(_, points):
            return row_line(points)
        case RunFinished(run):
            return f"      {verdict_line(run)}"
        case SweepFinished():
            return ""


def row_line(points: tuple[Point, ...]) -> str:
    """`size  busbw out of place  busbw in place  #wrong`, in the units in which people compare."""
    by_placement = {point.placement: point for point in points}
    cells = [f"{format_bytes(points[0].size_bytes):>10}"]
    for placement in Placement:
        point = by_placement.get(placement)
        cells.append(f"{point.busbw_bytes_per_second / 1e9:9.2f} GB/s" if point else f"{'-':>14}")
    wrong = [point.wrong_elements for point in points if point.wrong_elements is not None]
    cells.append(f"#wrong {sum(wrong)}" if wrong else "unchecked")
    return "  ".join(cells)


def verdict_line(run: Run) -> str:
    reason = f" ({run.reason})" if run.reason else ""
    detail = f": {run.detail}" if run.detail else ""
    return f"{run.verdict.value}{reason}{detail}"


def format_bytes(size: int) -> str:
    """`2 GiB` where it is one, else the number of bytes: sizes are compared, not estimated."""
    for unit, name in _UNITS:
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"
