"""Samples of what the judge has said: scores, baselines and their state. Reads judgements, makes none (DESIGN rule 7)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpumond.exporter.family import Sample
from gpumond.exporter.operation import ResultKey, exported_points
from gpumond.model.baseline import BaselineState
from gpumond.model.status import CollectiveBaseline, HostStatus

_CHANNELS = re.compile(r"(\S+):(\d+)")


def score_ratio(status: HostStatus) -> Iterator[Sample]:
    for item in status.scores:
        yield (item.sweep, item.engine.value, item.gpu_set, item.collective.value), item.score


def busbw_baseline(status: HostStatus) -> Iterator[Sample]:
    """Beside each exported result of the bandwidth regime."""
    normal: dict[ResultKey, dict[int, float]] = {
        (*_labels(item), item.datatype): item.busbw for item in status.baselines
    }
    for labels, point in exported_points(status).items():
        busbw = normal.get(labels[:-1], {})
        if point.size_bytes in busbw:
            yield labels, busbw[point.size_bytes]


def baseline_state(status: HostStatus) -> Iterator[Sample]:
    """A state set: all three, so that no series vanishes while an alert looks at it."""
    for item in status.baselines:
        for state in BaselineState:
            yield (*_labels(item), state.value), state is item.state


def transport_baseline_channels(status: HostStatus) -> Iterator[Sample]:
    for item in status.baselines:
        for transport, channels in _CHANNELS.findall(item.transport):
            yield (*_labels(item), transport), int(channels)


def _labels(item: CollectiveBaseline) -> tuple[str, str, str, str]:
    return item.sweep, item.engine.value, item.gpu_set, item.collective.value
