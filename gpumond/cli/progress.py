"""How a sweep looks while it runs: live bars on a terminal, one line a row elsewhere. Everything goes to standard error.

The rows are what a person came for, so they stay on the screen; bars are only below them.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from gpumond.model.benchmark import Placement, Point
from gpumond.model.run import Run
from gpumond.sweep.events import (
    RowMeasured,
    RunFinished,
    RunStarted,
    SweepEvent,
    SweepFinished,
    SweepStarted,
)

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
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, event: SweepEvent) -> None:
        line = _line_of(event)
        if line:
            self._progress.console.print(line, markup=False)
        match event:
            case RunStarted(run, number, planned_runs, expected_rows):
                title = f"{number}/{planned_runs} {run.collective.value} on {run.gpu_set.name}"
                self._task = self._progress.add_task(title, total=expected_rows)
            case RowMeasured() if self._task is not None:
                self._progress.advance(self._task)
            case RunFinished() if self._task is not None:
                self._progress.remove_task(self._task)
                self._task = None
            case _:
                pass


def _line_of(event: SweepEvent) -> str:
    match event:
        case SweepStarted(sweep):
            return f"sweep {sweep.name} ({sweep.id})"
        case RunStarted(run, number, planned_runs, _):
            gpus = len(run.gpu_set.uuids)
            return f"[{number}/{planned_runs}] {run.collective.value} on {run.gpu_set.name} ({gpus} GPUs)"
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
