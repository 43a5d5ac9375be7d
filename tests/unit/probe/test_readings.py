from __future__ import annotations

from gpumond.model.reading import NotSupported, Unreadable, UnreadableReason, Value
from gpumond.probe.readings import mapped, or_else, then

LOST = Unreadable(UnreadableReason.GPU_LOST)


def test_a_fallback_never_hides_a_value_or_a_cause_without_having_one():
    lost = Unreadable(UnreadableReason.GPU_LOST)
    assert or_else(Value(1), Value(2)) == Value(1)
    assert or_else(lost, Value(2)) == Value(2)
    assert or_else(lost, NotSupported()) == lost


def test_what_is_no_value_stays_what_it_is():
    for reading in (LOST, NotSupported()):
        assert mapped(reading, str) is reading
        assert then(reading, Value) is reading
    assert mapped(Value(1), str) == Value("1")
    assert then(Value(1), lambda _: LOST) == LOST
