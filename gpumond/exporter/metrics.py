"""A status as exposition text: the only door to prometheus_client.

Owns the isolation of families from each other and the uniqueness of series. Refuses to know what a metric means
(gpumond.exporter.catalogue) and when to render (gpumond.exporter.bodies). No value lives here: every rendering starts
from an immutable status and a registry of its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import generate_latest as encode_text
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics.exposition import generate_latest as encode_openmetrics
from prometheus_client.validation import enable_legacy_validation

from gpumond.exporter.catalogue import AT_SCRAPE, STEADY
from gpumond.exporter.family import Family, Kind, Scrape, steady
from gpumond.exporter.labels import label_value
from gpumond.exporter.negotiate import Format
from gpumond.log import get_logger
from gpumond.model.status import DurationCounts, HostStatus

Source = TypeVar("Source")

# Switches of the library for the whole process, set at its only door: a name that older servers cannot scrape is an
# error, and no counter is doubled by a `_created` series.
enable_legacy_validation()  # type: ignore[no-untyped-call] # the library has no types there
disable_created_metrics()  # type: ignore[no-untyped-call]

_END = b"# EOF\n"  # closes an OpenMetrics text
_PROBLEMS_SAID_MAX = 100


@dataclass(frozen=True, slots=True)
class Rendered:
    """A part of an exposition, without the end mark, and whether every family in it is whole."""

    text: bytes
    is_complete: bool


@dataclass(frozen=True, slots=True)
class _Built:
    metrics: tuple[Metric, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Fixed:
    """A collector of metrics that exist already."""

    metrics: Sequence[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.metrics


class Exposition:
    """Renders statuses. Thread-safe: it remembers nothing but what it has already complained about."""

    def __init__(
        self,
        *,
        families: tuple[Family[HostStatus], ...] = STEADY,
        scrape_families: tuple[Family[Scrape], ...] = AT_SCRAPE,
    ) -> None:
        self._families = families
        self._scrape_families = scrape_families
        self._process = ProcessCollector(registry=None)
        self._log = get_logger("exporter")
        self._said: set[tuple[str, str]] = set()

    def render_steady(self, status: HostStatus, form: Format) -> Rendered:
        """The part that changes only with the status."""
        built = self._build_steady(status)
        return Rendered(_encode(built.metrics, form), built.is_complete)

    def render_scrape(
        self, status: HostStatus, form: Format, *, at: datetime, is_steady_complete: bool = True
    ) -> bytes:
        """The part that belongs to one scrape, with the end mark: it comes last."""
        built = self._build_scrape(status, at, is_steady_complete=is_steady_complete)
        return _encode(built.metrics, form) + end_mark(form)

    def render_only(self, status: HostStatus, form: Format, *, at: datetime, names: Collection[str]) -> bytes:
        """A whole exposition of the samples called `names` (`?name[]=`) and of nothing else."""
        steady_part = self._build_steady(status)
        scrape_part = self._build_scrape(status, at, is_steady_complete=steady_part.is_complete)
        return _encode((*steady_part.metrics, *scrape_part.metrics), form, names) + end_mark(form)

    def render_file(self, status: HostStatus, *, at: datetime) -> bytes:
        """A whole exposition for a file that another exporter shows beside its own metrics.

        Without `process_*`: that exporter has metrics of these names itself, and would refuse to answer at all.
        """
        steady_part = self._build_steady(status)
        own = self._build(self._scrape_families, Scrape(status, at, steady_part.is_complete))
        return _encode((*steady_part.metrics, *own.metrics), Format.TEXT)

    def _build_steady(self, status: HostStatus) -> _Built:
        # What only a scrape may show is taken away first: a family that reads it here would be stale.
        return self._build(self._families, steady(status))

    def _build_scrape(self, status: HostStatus, at: datetime, *, is_steady_complete: bool) -> _Built:
        process = self._build_process()
        is_complete = is_steady_complete and process.is_complete
        own = self._build(self._scrape_families, Scrape(status, at, is_complete))
        if is_complete and not own.is_complete:
            own = self._build(self._scrape_families, Scrape(status, at, is_complete=False))
        return _Built((*own.metrics, *process.metrics), is_complete and own.is_complete)

    def _build_process(self) -> _Built:
        try:
            return _Built(tuple(self._process.collect()), is_complete=True)
        except Exception as error:  # noqa: BLE001 - /proc of our own process must not cost the scrape
            self._complain("process", repr(error))
            return _Built((), is_complete=False)

    def _build(self, families: Iterable[Family[Source]], source: Source) -> _Built:
        metrics, is_complete = [], True
        for family in families:
            try:
                metric, dropped = build_metric(family, source)
            except Exception as error:  # noqa: BLE001 - one family must not spoil the others
                self._complain(family.name, repr(error))
                is_complete = False
                continue
            if dropped:
                self._complain(family.name, "series twice, or a value that is no number")
                is_complete = False
            if metric.samples:
                metrics.append(metric)
        return _Built(tuple(metrics), is_complete)

    def _complain(self, family: str, detail: str) -> None:
        """Say it once, not once a scrape."""
        if (family, detail) not in self._said and len(self._said) < _PROBLEMS_SAID_MAX:
            self._said.add((family, detail))
            self._log.error("metric_incomplete", metric=family, detail=detail)


def families(status: HostStatus, catalogue: Iterable[Family[HostStatus]] = STEADY) -> Iterable[Metric]:
    """The metrics that follow from `status` alone; raises what a broken family raises."""
    source = steady(status)
    return (build_metric(family, source)[0] for family in catalogue)


def build_metric(family: Family[Source], source: Source) -> tuple[Metric, int]:
    """The family with its samples, and how many were dropped: those whose labels were there before, NaN and infinity."""
    metric = _empty_metric(family)
    seen: set[tuple[str, ...]] = set()
    dropped = 0
    for labels, value in family.samples(source):
        clean = tuple(label_value(label) for label in labels)
        # Prometheus keeps the first of two and says nothing; so do we, and we say it.
        if clean in seen or not _is_number(value):
            dropped += 1
            continue
        seen.add(clean)
        _add(metric, family, clean, value)
    return metric, dropped


def _is_number(value: float | DurationCounts) -> bool:
    return math.isfinite(value.sum_seconds if isinstance(value, DurationCounts) else float(value))


def _add(
    metric: Metric, family: Family[Source], labels: Sequence[str], value: float | DurationCounts
) -> None:
    if not isinstance(value, DurationCounts):
        metric.add_sample(family.name, dict(zip(family.labels, labels, strict=True)), float(value))
        return
    if not isinstance(metric, HistogramMetricFamily):
        raise TypeError(f"{family.name} is no histogram")
    # Prometheus counts a bucket with all below it, and calls the last one +Inf.
    bounds = [*map(str, value.bounds_seconds), "+Inf"]
    metric.add_metric(labels, list(zip(bounds, accumulate(value.counts), strict=True)), value.sum_seconds)


def end_mark(form: Format) -> bytes:
    return _END if form is Format.OPENMETRICS else b""


def _empty_metric(family: Family[Source]) -> Metric:
    match family.kind:
        case Kind.GAUGE:
            return GaugeMetricFamily(family.name, family.help, labels=family.labels, unit=family.unit)
        case Kind.COUNTER:
            return CounterMetricFamily(family.name, family.help, labels=family.labels, unit=family.unit)
        case Kind.HISTOGRAM:
            return HistogramMetricFamily(family.name, family.help, labels=family.labels, unit=family.unit)
        case Kind.INFO:
            return InfoMetricFamily(family.name.removesuffix("_info"), family.help, labels=family.labels)


def _encode(metrics: Sequence[Metric], form: Format, names: Collection[str] | None = None) -> bytes:
    registry = CollectorRegistry(support_collectors_without_names=True)
    registry.register(_Fixed(metrics))
    source = registry if names is None else registry.restricted_registry(names)
    if form is Format.OPENMETRICS:
        text: bytes = encode_openmetrics(source)  # type: ignore[no-untyped-call] # the library has no types there
        return text.removesuffix(_END)
    return encode_text(source)
