"""When a difference is believed and when its end is: after equal readings in a row, whatever came before."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.model.change import Change, ChangeKind, Level, Subject, SubjectKind
from gpumond.topology.debounce import Beliefs, believing, observe

GPU = Subject(SubjectKind.GPU, ("GPU-a",))
LINK = Change(ChangeKind.NVLINK_DOWN, Level.CRITICAL, GPU, "NVLink 3 is down", "18", "17")
WORSE = replace(LINK, sentence="NVLinks 3 and 4 are down", after="16")
NIC = Change(ChangeKind.NIC_GONE, Level.WARNING, Subject(SubjectKind.NIC, ("a:b",)), "gone", "mlx5_0", "")


def believed_after(*readings, beliefs=None, needed=2):
    """What is believed after each reading."""
    beliefs = beliefs or Beliefs()
    found = []
    for reading in readings:
        beliefs = observe(beliefs, reading, readings_to_believe=needed)
        found.append(set(beliefs.believed.values()))
    return found


def test_one_reading_is_no_news():
    assert believed_after([LINK], [], [LINK], []) == [set()] * 4


def test_two_readings_are():
    assert believed_after([LINK], [LINK]) == [set(), {LINK}]


def test_the_end_needs_as_many():
    assert believed_after([LINK], [LINK], [], [LINK], [], []) == [
        set(),
        {LINK},
        {LINK},
        {LINK},
        {LINK},
        set(),
    ]


def test_a_link_that_flaps_between_two_counts_is_down_all_the_same():
    assert believed_after([LINK], [WORSE])[-1] == {WORSE}


def test_other_evidence_of_what_is_believed_needs_two_equal_readings():
    begun = believing([LINK])
    assert believed_after([WORSE], [LINK], [WORSE], [WORSE], beliefs=begun) == [
        {LINK},
        {LINK},
        {LINK},
        {WORSE},
    ]


def test_changes_are_followed_apart():
    assert believed_after([LINK], [LINK, NIC], [NIC], [NIC]) == [set(), {LINK}, {LINK, NIC}, {NIC}]


def test_what_was_believed_before_a_restart_is_believed_until_it_is_gone_twice():
    assert believed_after([LINK], [], [], beliefs=believing([LINK])) == [{LINK}, {LINK}, set()]


@pytest.mark.parametrize("needed", [1, 3])
def test_the_number_is_a_parameter(needed):
    states = believed_after(*[[LINK]] * 4, needed=needed)
    assert states.index({LINK}) == needed - 1


READINGS = st.lists(st.sets(st.sampled_from([LINK, NIC])), max_size=12)


@given(READINGS, st.integers(1, 4))
def test_a_change_is_believed_exactly_from_the_nth_reading_in_a_row(readings, needed):
    states = believed_after(*readings, needed=needed)
    for at, state in enumerate(states):
        last = [LINK in reading for reading in readings[max(0, at + 1 - needed) : at + 1]]
        if len(last) == needed and len(set(last)) == 1:
            assert (LINK in state) == last[0]
    for (before, after), reading in zip(pairwise([set(), *states]), readings, strict=True):
        assert (before ^ after) <= (before ^ reading)


@given(READINGS)
def test_nothing_is_doubted_that_agrees_with_what_is_believed(readings):
    beliefs = Beliefs()
    for reading in readings:
        beliefs = observe(beliefs, reading)
        assert all(doubt.reading != beliefs.believed.get(key) for key, doubt in beliefs.doubts.items())
