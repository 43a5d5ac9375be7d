"""A collector's place in the status: its last look, and when it last succeeded. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from gpumond.model.status import CollectorStatus, HostStatus


def with_collector(status: HostStatus, collector: CollectorStatus, now: datetime) -> HostStatus:
    """`status` with this look in place of the collector's last one; after a failure the last success stays known."""
    by_name = {each.name: each for each in status.collectors}
    old = by_name.get(collector.name)
    last = now if collector.is_successful else old.last_success if old else None
    by_name[collector.name] = replace(collector, last_success=last)
    return replace(status, collectors=tuple(by_name[name] for name in sorted(by_name)))
