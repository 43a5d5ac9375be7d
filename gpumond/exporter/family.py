"""What a metric family is: its name, its meaning, who reads it, how fresh it is, and the function that makes its samples.

Nothing here knows prometheus_client or a particular metric. Two kinds of input exist, and a family is bound to one of
them by its type: the status without what changes all the time (rendered when it changes), and one scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from gpumond.model.status import DurationCounts, HostStatus

PREFIX = "gpumond_"

Source = TypeVar("Source")
Sample: TypeAlias = tuple[tuple[str, ...], float | DurationCounts]
"""Label values, in the order of the family's label names, and the value; counts where the family is a histogram."""


class Kind(StrEnum):
    """OpenMetrics types in use. An info metric is a gauge in the older text format."""

    GAUGE = "gauge"
    COUNTER = "counter"
    INFO = "info"
    HISTOGRAM = "histogram"


class Section(StrEnum):
    """The headings of docs/metrics.md, in its order."""

    HOST = "Host and daemon"
    GPUS = "GPUs"
    TOPOLOGY = "Topology and links"
    NICS = "Network interfaces"
    RESULTS = "Benchmark results"
    SWEEPS = "Sweeps"
    COLLECTORS = "Collectors"


class Freshness(StrEnum):
    """How old a value may be; ends every HELP text."""

    START = "Fixed since the daemon started."
    SNAPSHOT = "As of the last snapshot."
    ACCEPTED = "As of the last accepted inventory."
    CONFIGURATION = "As of the last configuration that was loaded."
    MEASURED = "Held from the last measurement until the next one, across restarts."
    SWEEP = "As of the last sweep, across restarts."
    EVENT = "As of the last time that it happened."
    SCRAPE = "Read at the moment of the scrape."


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape: the newest status, the wall time, and whether all other families could be made."""

    status: HostStatus
    at: datetime
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Family(Generic[Source]):
    """`name` is the name of the samples: with `_total` on a counter, with `_info` on an info metric."""

    name: str
    kind: Kind
    section: Section
    labels: tuple[str, ...]
    unit: str
    """OpenMetrics unit: the suffix of the name, or empty."""
    text: str
    freshness: Freshness
    read_by: str
    """The module that reads the value where it arises."""
    samples: Callable[[Source], Iterable[Sample]]

    @property
    def sample_names(self) -> tuple[str, ...]:
        if self.kind is Kind.HISTOGRAM:
            return tuple(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return (self.name,)

    @property
    def help(self) -> str:
        return f"{self.text} {self.freshness.value}"


def steady(status: HostStatus) -> HostStatus:
    """`status` without what only scrape families show: two equal ones render alike, whatever the heartbeat does."""
    return replace(
        status,
        heartbeat_at=None,
        unkillable_pids=(),
        sweeps=tuple(replace(sweep, running_since=None) for sweep in status.sweeps),
    )
