"""When a difference is believed: after several equal readings in a row, and so is its end. Pure.

Links train after a boot, and one odd answer of a driver is no news. The state is a value: what is believed, and what
has been read differently since. A change is followed by its kind and subject; other evidence for the same change, once
it has been read as often, ends the change and opens it anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpumond.model.change import Change, ChangeKey

READINGS_TO_BELIEVE = 2
"""Topology reference 5.1 asks for two or three equal readings of what moves slowly."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """What the last readings say of one change against what is believed. `reading` None: it is not there."""

    reading: Change | None
    readings: int


@dataclass(frozen=True, slots=True)
class Beliefs:
    """What is believed, and what is doubted of it. `Beliefs()` knows nothing."""

    believed: dict[ChangeKey, Change] = field(default_factory=dict)
    doubts: dict[ChangeKey, Doubt] = field(default_factory=dict)


def believing(changes: Iterable[Change]) -> Beliefs:
    """The state of somebody who was told these changes before."""
    return Beliefs({change.key: change for change in changes})


def observe(
    beliefs: Beliefs, reading: Iterable[Change], *, readings_to_believe: int = READINGS_TO_BELIEVE
) -> Beliefs:
    """The state after one more reading: every change that one snapshot shows."""
    read = {change.key: change for change in reading}
    believed = dict(beliefs.believed)
    doubts: dict[ChangeKey, Doubt] = {}
    for key in {**believed, **read}:
        now = read.get(key)
        if now == believed.get(key):
            continue
        readings = _readings_so_far(beliefs.doubts.get(key), now, is_known=key in believed) + 1
        if readings < readings_to_believe:
            doubts[key] = Doubt(now, readings)
        elif now is None:
            del believed[key]
        else:
            believed[key] = now
    return Beliefs(believed, doubts)


def _readings_so_far(doubt: Doubt | None, now: Change | None, *, is_known: bool) -> int:
    """How many readings before this one said the same.

    Of a change that is not believed yet any evidence counts: a link that flaps between 16 and 17 is down all the same.
    """
    if doubt is None:
        return 0
    is_same = doubt.reading == now if is_known else (doubt.reading is None) == (now is None)
    return doubt.readings if is_same else 0
