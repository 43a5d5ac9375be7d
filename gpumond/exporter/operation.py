"""Samples about what gpumond does: results, verdicts, sweeps, collectors, itself. Functions of a status or of a scrape.

A timestamp of something that never happened is 0 only where an alert compares its age (last success); everywhere else
it has no sample.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from gpumond.exporter.chosen_sizes import chosen_sizes
from gpumond.exporter.family import Sample, Scrape
from gpumond.model.benchmark import Placement
from gpumond.model.finding import LEVELS, FindingKind
from gpumond.model.run import Verdict
from gpumond.model.status import CollectorStatus, HostStatus, LatestPoint, SweepStatus

OWN_COLLECTOR = "exporter"
"""The label `collector` of the exporter itself, beside the collectors of the status."""

ResultKey = tuple[str, ...]


def build_info(status: HostStatus) -> Iterator[Sample]:
    yield (status.version, platform.python_version()), 1


def simulated(status: HostStatus) -> Iterator[Sample]:
    yield (), bool(status.simulated)


def config_successful(status: HostStatus) -> Iterator[Sample]:
    yield (), status.is_config_current


def config_success_timestamp(status: HostStatus) -> Iterator[Sample]:
    if status.config_loaded_at is not None:
        yield (), status.config_loaded_at.timestamp()


def state_write_success(status: HostStatus) -> Iterator[Sample]:
    yield (), status.is_store_writable


def paused(status: HostStatus) -> Iterator[Sample]:
    yield (), status.pause is not None


def findings(status: HostStatus) -> Iterator[Sample]:
    counts = Counter((finding.kind, finding.level) for finding in status.findings)
    known = [(kind, LEVELS[kind]) for kind in FindingKind]
    for kind, level in dict.fromkeys([*known, *counts]):
        yield (kind.value, level.value), counts[kind, level]


def preemptions(status: HostStatus) -> Iterator[Sample]:
    yield (), status.preemptions


def time_now(scrape: Scrape) -> Iterator[Sample]:
    yield (), scrape.at.timestamp()


def scheduler_heartbeat(scrape: Scrape) -> Iterator[Sample]:
    if scrape.status.heartbeat_at is not None:
        yield (), scrape.status.heartbeat_at.timestamp()


def unkillable_processes(scrape: Scrape) -> Iterator[Sample]:
    yield (), len(scrape.status.unkillable_pids)


def collector_success(scrape: Scrape) -> Iterator[Sample]:
    for collector in _evaluated(scrape.status):
        yield (collector.name,), collector.is_successful
    yield (OWN_COLLECTOR,), scrape.is_complete


def per_collector(
    number: Callable[[CollectorStatus], float],
) -> Callable[[HostStatus], Iterable[Sample]]:
    """A producer of one sample a collector."""

    def samples(status: HostStatus) -> Iterator[Sample]:
        for collector in _evaluated(status):
            yield (collector.name,), number(collector)

    return samples


def _evaluated(status: HostStatus) -> Iterator[CollectorStatus]:
    """Without those that cannot work on this host: they have not failed."""
    return (collector for collector in status.collectors if collector.is_evaluated)


def sweep_running(scrape: Scrape) -> Iterator[Sample]:
    for sweep in scrape.status.sweeps:
        yield (sweep.name,), sweep.running_since is not None


def sweep_run_start(scrape: Scrape) -> Iterator[Sample]:
    for sweep in scrape.status.sweeps:
        if sweep.running_since is not None:
            yield (sweep.name,), sweep.running_since.timestamp()


def per_sweep(number: Callable[[SweepStatus], float | None]) -> Callable[[HostStatus], Iterable[Sample]]:
    """A producer of one sample a sweep; `number` answers None where there is nothing to say yet."""

    def samples(status: HostStatus) -> Iterator[Sample]:
        for sweep in status.sweeps:
            value = number(sweep)
            if value is not None:
                yield (sweep.name,), value

    return samples


def per_reason(counts: Callable[[SweepStatus], dict[str, int]]) -> Callable[[HostStatus], Iterable[Sample]]:
    """A producer of one sample a sweep and reason."""

    def samples(status: HostStatus) -> Iterator[Sample]:
        for sweep in status.sweeps:
            for reason, count in counts(sweep).items():
                yield (sweep.name, reason), count

    return samples


def last_run_duration(sweep: SweepStatus) -> float | None:
    return None if sweep.last_run_at is None else sweep.last_run_duration_seconds


def timestamp_or_none(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def timestamp_or_never(at: datetime | None) -> float:
    """0 for never, so that `time() - x` of something that never succeeded is old."""
    return 0 if at is None else at.timestamp()


def per_point(number: Callable[[LatestPoint], float | None]) -> Callable[[HostStatus], Iterable[Sample]]:
    """A producer of one sample an exported result."""

    def samples(status: HostStatus) -> Iterator[Sample]:
        for labels, point in exported_points(status).items():
            value = number(point)
            if value is not None:
                yield labels, value

    return samples


def exported_points(status: HostStatus) -> dict[ResultKey, LatestPoint]:
    """The points of the chosen sizes, and of every size at which data arrived corrupt."""
    points = _one_of_each(status)
    sizes: dict[ResultKey, set[int]] = {}
    for labels, point in points.items():
        sizes.setdefault(labels[:-1], set()).add(point.size_bytes)
    chosen = {labels: chosen_sizes(found) for labels, found in sizes.items()}
    return {
        labels: point
        for labels, point in points.items()
        if point.size_bytes in chosen[labels[:-1]] or point.wrong_elements
    }


def _one_of_each(status: HostStatus) -> dict[ResultKey, LatestPoint]:
    """One point a label set: the labels name no placement, so out of place wins, then the newest."""
    chosen: dict[ResultKey, LatestPoint] = {}
    for point in status.points:
        labels = _result_labels(point)
        if labels not in chosen or _rank(point) > _rank(chosen[labels]):
            chosen[labels] = point
    return chosen


def _result_labels(point: LatestPoint) -> ResultKey:
    return (
        point.sweep,
        point.engine.value,
        point.gpu_set,
        point.collective.value,
        point.datatype,
        str(point.size_bytes),
    )


def _rank(point: LatestPoint) -> tuple[bool, datetime]:
    return point.placement is Placement.OUT_OF_PLACE, point.measured_at


def collective_transport_channels(status: HostStatus) -> Iterator[Sample]:
    for item in status.transports:
        labels = (item.sweep, item.engine.value, item.gpu_set, item.collective.value)
        for transport, channels in item.channels.items():
            yield (*labels, transport), channels


def collective_verdict(status: HostStatus) -> Iterator[Sample]:
    """A state set: all four verdicts, so that no series vanishes while an alert looks at it."""
    for item in status.verdicts:
        labels = (item.sweep, item.engine.value, item.gpu_set, item.collective.value)
        for verdict in Verdict:
            yield (*labels, verdict.value), verdict is item.verdict
