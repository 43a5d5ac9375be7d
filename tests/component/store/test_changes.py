"""Topology changes in the history: opened once, counted once, ended with a reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from history_values import NIGHT

from gpumond.model.change import Change, ChangeKind, Level, OpenChange, Subject, SubjectKind
from gpumond.store.records import TOPOLOGY_CHANGES, ChangeEnding
from gpumond.store.retention import RetentionPolicy

GPU = Subject(SubjectKind.GPU, ("GPU-a",))
LINK = Change(ChangeKind.NVLINK_DOWN, Level.CRITICAL, GPU, "NVLink 3 is down", "18", "17")
WORSE = replace(LINK, sentence="NVLinks 3 and 4 are down", after="16")
NIC = Change(ChangeKind.NIC_GONE, Level.WARNING, Subject(SubjectKind.NIC, ("a:b",)), "gone", "mlx5_0", "")


@pytest.fixture
def record(store, clock):
    """`record(LINK, NIC)`: these are open now, an hour after the last time."""

    def call(*changes, ending=ChangeEnding.GONE):
        known = {item.change: item for item in store.open_changes()}
        store.record_changes(
            [known.get(change, OpenChange(change, clock.now())) for change in changes], ending=ending
        )
        clock.step(hours=1)

    return call


def counts(store):
    return {tuple(sorted(c.labels.items())): c.value for c in store.counters(TOPOLOGY_CHANGES)}


LINKS_COUNTED = (("kind", "nvlink_down"), ("level", "critical"))
NICS_COUNTED = (("kind", "nic_gone"), ("level", "warning"))


def test_a_change_is_opened_and_counted_once(store, record):
    for _ in range(3):
        record(LINK)
    assert store.open_changes() == (OpenChange(LINK, NIGHT),)
    assert counts(store) == {LINKS_COUNTED: 1}
    assert store.last_change_at() == NIGHT


def test_what_is_no_longer_open_has_ended(store, record):
    record(LINK, NIC)
    record(NIC)
    assert [item.change for item in store.open_changes()] == [NIC]
    ended = {item.change: item for item in store.changes(limit=9)}[LINK]
    assert (ended.opened_at, ended.closed_at, ended.ending) == (NIGHT, NIGHT + timedelta(hours=1), "gone")
    assert store.last_change_at() == NIGHT + timedelta(hours=1)


def test_other_evidence_ends_the_change_and_opens_it_anew(store, record):
    record(LINK, NIC)
    record(WORSE, ending=ChangeEnding.ACCEPTED)
    assert [(item.change, item.ending) for item in store.changes(limit=9)] == [
        (WORSE, None),
        (NIC, "accepted"),
        (LINK, "revised"),
    ]
    assert counts(store) == {LINKS_COUNTED: 2, NICS_COUNTED: 1}


def test_the_same_change_may_come_back(store, record):
    for open_now in ([LINK], [], [LINK]):
        record(*open_now)
    assert counts(store) == {LINKS_COUNTED: 2}
    assert len(store.changes(limit=9)) == 2


def test_nothing_has_ever_changed(store):
    assert store.last_change_at() is None
    assert store.changes(limit=9) == store.open_changes() == ()


def test_retention_deletes_what_ended_long_ago_and_nothing_that_is_open(store, record, clock):
    record(LINK, NIC)
    record(NIC)
    year = timedelta(days=365)
    report = store.apply_retention(clock.now() + year, RetentionPolicy(year, year, results=year / 2))
    assert report.changes == 1
    assert [item.change for item in store.changes(limit=9)] == [NIC]
    assert counts(store) == {LINKS_COUNTED: 1, NICS_COUNTED: 1}
