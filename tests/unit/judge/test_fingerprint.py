"""What counts as a change of the inputs, how bad a change is, and what could not be read."""

from datetime import UTC, datetime, timedelta

import pytest

from gpumond.judge.attribution import NOTHING_CHANGED, blamed, cause_of, sentence_of
from gpumond.judge.fingerprint import (
    InputGroup,
    carried,
    changed_keys,
    changes_between,
    group_of,
    is_other_host,
    needs_person,
)
from gpumond.model.baseline import InputChange

AT = datetime(2026, 3, 10, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("key", "group"),
    [
        ("driver", InputGroup.DRIVER),
        ("driver_version", InputGroup.DRIVER),
        ("fabric_manager", InputGroup.DRIVER),
        ("nccl", InputGroup.LIBRARY),
        ("nccl_version", InputGroup.LIBRARY),
        ("env.NCCL_ALGO", InputGroup.LIBRARY),
        ("NCCL_P2P_DISABLE", InputGroup.LIBRARY),
        ("rccl", InputGroup.LIBRARY),
        ("nccl_conf_sha256", InputGroup.LIBRARY),
        ("nccl-tests", InputGroup.BENCHMARK),
        ("benchmark_sha256", InputGroup.BENCHMARK),
        ("kernel", InputGroup.SYSTEM),
        ("cmdline", InputGroup.SYSTEM),
        ("cuda", InputGroup.SYSTEM),
        ("gpu_uuids", InputGroup.HARDWARE),
        ("vbios", InputGroup.HARDWARE),
        ("topology_hash", InputGroup.HARDWARE),
        ("topology.links", InputGroup.HARDWARE),
        ("mig_mode", InputGroup.HARDWARE),
        ("compute_partition", InputGroup.HARDWARE),
        ("power_limit", InputGroup.SETTING),
        ("clock_limit", InputGroup.SETTING),
        ("ecc_mode", InputGroup.SETTING),
        ("machine_id", InputGroup.HOST),
        ("something_new", InputGroup.SYSTEM),
    ],
)
def test_groups(key, group):
    assert group_of(key) is group


def test_only_what_both_know_can_change():
    assert changed_keys({"a": "1", "driver": "1"}, {"driver": "2", "b": "1"}) == ("driver",)
    assert changed_keys({"a": "1"}, {"a": "1"}) == ()


@pytest.mark.parametrize(
    "key", ["NCCL_ALGO", "env.NCCL_ALGO", "env.RCCL_MSCCL_ENABLE", "HSA_NO_SCRATCH_RECLAIM"]
)
def test_a_variable_that_is_not_there_is_not_set(key):
    """What is most often set by hand, and then forgotten."""
    without, with_it = {"driver": "580"}, {"driver": "580", key: "1"}
    (is_set,) = changes_between(without, carried(without, with_it), AT)
    assert str(is_set) == f"{key} none -> 1"
    (is_unset,) = changes_between(with_it, carried(with_it, without), AT)
    assert str(is_unset) == f"{key} 1 -> none"


@pytest.mark.parametrize("key", ["nccl", "nccl_version", "NCCL_VERSION", "power_limit"])
def test_any_other_key_that_is_not_there_was_not_recorded(key):
    without, with_it = {"driver": "580"}, {"driver": "580", key: "1"}
    assert changes_between(without, carried(without, with_it), AT) == ()
    assert carried(with_it, without) == with_it


def test_a_fingerprint_without_any_key_was_not_recorded():
    known = {"driver": "580", "env.NCCL_ALGO": "Ring"}
    assert carried(known, {}) == known
    assert changed_keys({}, known) == ()


@pytest.mark.parametrize("text", ["", " ", "unreadable", "Unknown", "N/A", "?"])
def test_what_cannot_be_read_keeps_its_last_value(text):
    assert carried({"driver": "580"}, {"driver": text}) == {"driver": "580"}


def test_changes_are_ranked_by_what_they_are():
    before = dict.fromkeys(("kernel", "driver", "nccl", "topology_hash", "power_limit"), "1")
    after = dict.fromkeys(before, "2")
    assert changed_keys(before, after) == ("topology_hash", "nccl", "driver", "kernel", "power_limit")


def test_hardware_needs_a_person_and_software_does_not():
    assert needs_person(changes_between({"vbios": "1"}, {"vbios": "2"}, AT))
    assert not needs_person(changes_between({"driver": "1"}, {"driver": "2"}, AT))


@pytest.mark.parametrize(
    ("before", "after", "is_other"),
    [
        ({"gpu_uuids": "GPU-a,GPU-b"}, {"gpu_uuids": "GPU-c,GPU-d"}, True),
        ({"gpu_uuids": "GPU-a,GPU-b"}, {"gpu_uuids": "GPU-a,GPU-d"}, False),  # one was replaced
        ({"gpu0_uuid": "GPU-a", "gpu1_uuid": "GPU-b"}, {"gpu0_uuid": "GPU-c", "gpu1_uuid": "GPU-b"}, False),
        ({"machine_id": "1"}, {"machine_id": "2"}, True),
        ({"driver": "1"}, {"driver": "2"}, False),
        ({}, {"gpu_uuids": "GPU-a,GPU-b"}, False),
    ],
)
def test_another_host(before, after, is_other):
    assert is_other_host(before, after) is is_other


def change(key, day):
    return InputChange(AT.replace(day=day), key, "1", "2")


def test_the_coincidence_ranks_before_the_kind():
    changes = (change("topology_hash", 8), change("kernel", 10))
    assert [item.key for item in blamed(changes, onset=AT, until=AT.replace(day=11))] == [
        "kernel",
        "topology_hash",
    ]


def test_what_changed_long_before_or_after_is_not_blamed():
    changes = (change("nccl", 1), change("driver", 20))
    found = blamed(changes, onset=AT, until=AT.replace(day=11))
    assert found == ()
    assert sentence_of(found) == NOTHING_CHANGED


CHANGES = [
    InputChange(AT + timedelta(days=day), key, "1", "2") for day, key in ((-9, "kernel"), (-3, "driver"))
]


@pytest.mark.parametrize(
    ("last_good", "expected"),
    [
        (None, ("driver",)),  # not known: what changed within three and a half days
        (-4, ("driver",)),
        (-3, ()),  # the night with the new driver was a good one
        (-10, ("driver", "kernel")),  # after a gap everything since then
    ],
)
def test_only_what_changed_after_the_last_good_night_is_blamed(last_good, expected):
    since = None if last_good is None else AT + timedelta(days=last_good)
    found = blamed(CHANGES, onset=AT, until=AT, last_good_at=since)
    assert tuple(change.key for change in found) == expected


def test_what_a_history_says_beside_its_fingerprint_is_named_where_that_is_silent():
    beside, hashed = InputChange(AT, "topology.links", "18", "17"), InputChange(AT, "topology_hash", "a", "b")
    assert cause_of([beside]) == ("topology.links",)
    assert cause_of([beside, hashed]) == ("topology_hash",)
    assert (
        sentence_of([beside], ["CPU load 0.9 a core"])
        == "changed: topology.links 18 -> 17, CPU load 0.9 a core"
    )
