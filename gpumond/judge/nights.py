"""Which runs belong to one night. Pure.

A sweep measures a scope within minutes, its re-runs follow within hours; the next window is a day away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TypeVar

from gpumond.judge import policy
from gpumond.judge.observation import Observation

Item = TypeVar("Item")


def group_nights(
    items: Iterable[Item], observation_of: Callable[[Item], Observation]
) -> Iterator[list[Item]]:
    """The nights of one scope, out of items in order.

    Runs that are no measurement stand alone: they must not decide which night another run belongs to.
    """
    night: list[Item] = []
    for item in items:
        run = observation_of(item)
        if run.excluded:
            yield [item]
            continue
        if night and not belongs_to_night(run, observation_of(night[0]).at):
            yield night
            night = []
        night.append(item)
    if night:
        yield night


def belongs_to_night(run: Observation, night_at: datetime) -> bool:
    limit = policy.RERUN_WITHIN if run.is_rerun else policy.NIGHT
    return abs(run.at - night_at) < limit
