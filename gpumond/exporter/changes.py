"""Samples about how the host differs from the state that was accepted: functions of a status.

The counters begin at 0, so that the first change of a kind is an increase. A kind that has opened once keeps its gauge too,
at 0 while none is open: an alert resolves by a value, not by a series that vanishes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpumond.exporter.family import Sample
from gpumond.model.change import ChangeKind, is_of_hardware, levels_of
from gpumond.model.status import HostStatus


def topology_matches_accepted(status: HostStatus) -> Iterator[Sample]:
    """No sample while this cannot be told: nothing accepted yet, or something that could not be read."""
    if status.accepted_at is None or status.snapshot is None:
        return
    if any(is_of_hardware(item.change) for item in status.changes):
        yield (), 0
    elif not status.changes:
        yield (), 1


def topology_open_changes(status: HostStatus) -> Iterator[Sample]:
    open_now = Counter((item.change.kind.value, item.change.level.value) for item in status.changes)
    known = {(count.kind.value, count.level.value) for count in status.change_counts}
    for labels in sorted(known | open_now.keys()):
        yield labels, open_now[labels]


def topology_changes(status: HostStatus) -> Iterator[Sample]:
    known = {(kind, level): 0 for kind in ChangeKind for level in levels_of(kind)}
    counted = {(count.kind, count.level): count.count for count in status.change_counts}
    for (kind, level), count in (known | counted).items():
        yield (kind.value, level.value), count


def topology_last_change_timestamp(status: HostStatus) -> Iterator[Sample]:
    if status.last_change_at is not None:
        yield (), status.last_change_at.timestamp()
