"""Whether the host matches what was accepted, as numbers: 1, 0, or no sample where nobody can tell."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
import status as fakes

from gpumond.exporter.changes import (
    topology_changes,
    topology_last_change_timestamp,
    topology_matches_accepted,
    topology_open_changes,
)
from gpumond.model.change import Change, ChangeCount, ChangeKind, Level, OpenChange, Subject, SubjectKind
from gpumond.model.status import HostStatus


def opened(kind, level=Level.CRITICAL, gpu="GPU-a"):
    change = Change(kind, level, Subject(SubjectKind.GPU, (gpu,)), "what happened", "before", "after")
    return OpenChange(change, fakes.NOW)


BLIND = opened(ChangeKind.VISIBILITY_LOST, Level.INFO)
DOWN = opened(ChangeKind.NVLINK_DOWN)


def status(*changes, **more):
    return replace(
        fakes.two_gpu_status(), **({"changes": changes, "change_counts": (), "last_change_at": None} | more)
    )


@pytest.mark.parametrize(
    ("changes", "samples"),
    [
        ((), [((), 1)]),
        ((DOWN,), [((), 0)]),
        ((opened(ChangeKind.DRIVER, Level.INFO),), [((), 0)]),
        ((BLIND,), []),  # could-not-read is never a change and never green
        ((BLIND, DOWN), [((), 0)]),
    ],
)
def test_matches_accepted(changes, samples):
    assert list(topology_matches_accepted(status(*changes))) == samples


@pytest.mark.parametrize("missing", ["accepted_at", "snapshot"])
def test_before_anything_was_accepted_or_seen_nothing_matches_and_nothing_differs(missing):
    assert list(topology_matches_accepted(status(**{missing: None}))) == []


def test_open_changes_are_counted_by_kind_and_level():
    changes = (DOWN, opened(ChangeKind.NVLINK_DOWN, gpu="GPU-b"), BLIND)
    assert dict(topology_open_changes(status(*changes))) == {
        ("nvlink_down", "critical"): 2,
        ("visibility_lost", "info"): 1,
    }


def test_a_kind_that_was_open_before_stays_at_zero():
    counts = (ChangeCount(ChangeKind.NIC_GONE, Level.WARNING, 3),)
    known = status(DOWN, change_counts=counts, last_change_at=fakes.NOW - timedelta(hours=1))
    assert dict(topology_open_changes(known)) == {("nic_gone", "warning"): 0, ("nvlink_down", "critical"): 1}
    counters = dict(topology_changes(known))
    assert {labels: count for labels, count in counters.items() if count} == {("nic_gone", "warning"): 3}
    assert list(topology_last_change_timestamp(known)) == [((), fakes.NOW.timestamp() - 3600)]


def test_a_daemon_that_has_seen_nothing_says_nothing_but_its_counters_have_begun():
    bare = HostStatus(version="0.1.0", started_at=fakes.NOW)
    for family in (topology_matches_accepted, topology_open_changes, topology_last_change_timestamp):
        assert list(family(bare)) == []
    counters = dict(topology_changes(bare))
    assert {kind for kind, _ in counters} == {kind.value for kind in ChangeKind}
    assert set(counters.values()) == {0}
    assert ("nvlink_down", "critical") in counters
