"""Samples that follow from how the GPUs are linked: the class of the host, and what its rings should reach."""

from __future__ import annotations

from collections.abc import Iterator

from gpumond.exporter.family import Sample
from gpumond.exporter.hardware import readable_snapshot
from gpumond.exporter.operation import exported_points
from gpumond.model.status import HostStatus
from gpumond.topology.classify import classify_snapshot
from gpumond.topology.expected import EXPECTED_FROM_BYTES, RING_COLLECTIVES, expected_ring_busbw

BASIS_MODEL = "model"
"""From the links that are up and published constants; other bases (a baseline, a fleet) are others' to export."""


def topology_class_info(status: HostStatus) -> Iterator[Sample]:
    snapshot = readable_snapshot(status)
    if snapshot is not None:
        yield (classify_snapshot(snapshot).topology_class.value,), 1


def busbw_expected(status: HostStatus) -> Iterator[Sample]:
    """Beside each exported result of a ring that is large enough; nothing where no number has a source."""
    snapshot = readable_snapshot(status)
    if snapshot is None:
        return
    by_set = {gpu_set.name: expected_ring_busbw(snapshot, gpu_set.uuids) for gpu_set in status.gpu_sets}
    for labels, point in exported_points(status).items():
        expected = by_set.get(point.gpu_set)
        is_ring = point.collective in RING_COLLECTIVES and point.size_bytes >= EXPECTED_FROM_BYTES
        if expected is not None and is_ring:
            yield (*labels, BASIS_MODEL), expected
