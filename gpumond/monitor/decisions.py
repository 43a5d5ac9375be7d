"""What an operator says about the state of the host, as requests to a running daemon name it, and how it is answered."""

from __future__ import annotations

from enum import StrEnum

from gpumond.errors import NotEvaluatedError
from gpumond.model.topology import Snapshot
from gpumond.monitor.changes import ChangeWatch
from gpumond.monitor.inventory import inventory_of

REASON = "reason"
"""The argument of every such request."""


class DecisionKind(StrEnum):
    """The kind of a request in the store."""

    ACCEPT = "accept"
    REJECT = "reject"
    UNDO = "undo"


def decide(watch: ChangeWatch, kind: DecisionKind, snapshot: Snapshot | None, *, by: str, reason: str) -> str:
    """Do it; the answer is a sentence. `snapshot` is what is decided about. Raises NotEvaluatedError, StoreError."""
    if kind is DecisionKind.UNDO:
        undone = watch.undo(by=by, reason=reason)
        if undone is None:
            raise NotEvaluatedError(
                "there is no decision that could be undone",
                hint="The first accepted state stays until another one is accepted.",
            )
        return f"undone: what {undone.by} {undone.verdict.value} at {undone.at:%Y-%m-%d %H:%M:%S} UTC"
    if snapshot is None:
        raise NotEvaluatedError("there is no snapshot that could be decided about")
    if kind is DecisionKind.REJECT:
        decision = watch.reject(snapshot, by=by, reason=reason)
    else:
        decision = watch.accept(snapshot, inventory_of(snapshot), by=by, reason=reason)
    return f"{decision.verdict.value}: the state of {snapshot.taken_at:%Y-%m-%d %H:%M:%S} UTC, {_count(snapshot)}"


def _count(snapshot: Snapshot) -> str:
    return "1 GPU" if len(snapshot.gpus) == 1 else f"{len(snapshot.gpus)} GPUs"
