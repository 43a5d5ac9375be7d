"""What may explain a loss: what changed since the last good night, most likely first. Pure.

A coincidence in time is the evidence, so it ranks first; among equals hardware and topology come before the library, the
driver, and the rest. After the inputs come the circumstances of the low run that are no inputs: another transport,
throttled clocks, a busy CPU. Where there is neither the answer says so, and that it is limited to what gpumond records.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from gpumond.judge import policy
from gpumond.judge.fingerprint import group_of
from gpumond.model.baseline import InputChange

BESIDE_FINGERPRINT: Final = "topology."
"""How the keys begin under which a history's `topology` is compared."""

NOTHING_CHANGED: Final = "nothing that we record changed: hardware, or something outside the fingerprint"


def blamed(
    changes: Iterable[InputChange], *, onset: datetime, until: datetime, last_good_at: datetime | None = None
) -> tuple[InputChange, ...]:
    """The last change of each key after `last_good_at`; where that is not known, from shortly before `onset` on."""
    latest = {
        change.key: change
        for change in changes
        if change.at <= until
        and (change.at > last_good_at if last_good_at else change.at >= onset - policy.BLAME_BEFORE)
    }
    return tuple(sorted(latest.values(), key=lambda change: _rank(change, onset)))


def _rank(change: InputChange, onset: datetime) -> tuple[bool, int, str]:
    is_elsewhen = abs(change.at - onset) > policy.NIGHT
    return is_elsewhen, group_of(change.key), change.key


def cause_of(changes: Iterable[InputChange]) -> tuple[str, ...]:
    """Their keys. What a history says of the topology beside its fingerprint is named where the fingerprint is silent."""
    keys = tuple(change.key for change in changes)
    if any(_is_topology(key) and not key.startswith(BESIDE_FINGERPRINT) for key in keys):
        return tuple(key for key in keys if not key.startswith(BESIDE_FINGERPRINT))
    return keys


def _is_topology(key: str) -> bool:
    return "topolog" in key.lower()


def sentence_of(changes: Iterable[InputChange], circumstances: Iterable[str] = ()) -> str:
    """For a person: what changed, or that nothing did."""
    texts = [*(str(change) for change in changes), *circumstances]
    return f"changed: {', '.join(texts)}" if texts else NOTHING_CHANGED
