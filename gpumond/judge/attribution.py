"""What may explain a loss: the inputs that changed about when it began, most likely first. Pure.

A coincidence in time is the evidence, so it ranks first; among equals hardware and topology come before the library, the
driver, and the rest. Where nothing changed the answer says so, and that it is limited to what gpumond records.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from gpumond.judge import policy
from gpumond.judge.fingerprint import group_of
from gpumond.model.baseline import InputChange

NOTHING_CHANGED: Final = "nothing that we record changed: hardware, or something outside the fingerprint"


def blamed(changes: Iterable[InputChange], *, onset: datetime, until: datetime) -> tuple[InputChange, ...]:
    """The last change of each key from shortly before `onset` on."""
    latest = {change.key: change for change in changes if onset - policy.BLAME_BEFORE <= change.at <= until}
    return tuple(sorted(latest.values(), key=lambda change: _rank(change, onset)))


def _rank(change: InputChange, onset: datetime) -> tuple[bool, int, str]:
    is_elsewhen = abs(change.at - onset) > policy.NIGHT
    return is_elsewhen, group_of(change.key), change.key


def sentence_of(changes: Iterable[InputChange]) -> str:
    """For a person: what changed, or that nothing did."""
    texts = [str(change) for change in changes]
    return f"changed: {', '.join(texts)}" if texts else NOTHING_CHANGED
