"""The end of a sweep, told to everybody who wants to know: the store, whoever watches, and the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpumond.model.run import Sweep
from gpumond.store.sqlite import Store
from gpumond.sweep.events import SweepEvent, SweepFinished

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def end_sweep(
    sweep: Sweep, *, store: Store, on_event: Callable[[SweepEvent], None], log: FilteringBoundLogger
) -> None:
    """`sweep` has its end and its outcome; `log` is that of who ran it. Raises StoreError."""
    store.finish_sweep(sweep)
    on_event(SweepFinished(sweep))
    log.info(
        "sweep_finished",
        sweep=sweep.name,
        id=sweep.id,
        outcome=None if sweep.outcome is None else sweep.outcome.value,
        reason=sweep.reason,
        detail=sweep.detail,
    )
