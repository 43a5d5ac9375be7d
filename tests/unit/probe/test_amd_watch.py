"""Two lists of processes made one, and what holds the clocks of AMD's GPUs back in NVML's words."""

import os

import pytest

from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import GpuProcess
from gpumond.model.watch import event_reasons as words_of
from gpumond.probe.amd_codes import event_reasons, residencies
from gpumond.probe.amd_watch import merged

GONE = 4_194_304 + 1
"""Greater than any pid."""
HERE = os.getpid()
BROKEN = Unreadable(UnreadableReason.ERROR, "amdsmi_get_gpu_process_list: BUSY (30)")


def processes(*pids, used=1):
    return Value(tuple(GpuProcess(pid, "compute", used) for pid in pids))


@pytest.mark.parametrize(
    ("told", "listed", "expected"),
    [
        (processes(), processes(), processes()),
        (processes(HERE), processes(), processes(HERE)),  # video, which KFD does not know
        (processes(), processes(HERE), processes(HERE)),
        (processes(GONE), processes(), processes()),  # amdsmi tells of the dead
        (processes(GONE), processes(GONE), processes(GONE)),  # and the kernel is not done with it
        (processes(HERE, used=7), processes(HERE, used=1), processes(HERE, used=7)),
        (processes(1), processes(HERE), processes(1, HERE)),
        (BROKEN, processes(HERE), processes(HERE)),
        (NOT_SUPPORTED, processes(), processes()),
        (processes(GONE), NOT_SUPPORTED, processes(GONE)),  # nobody contradicts it
        (BROKEN, NOT_SUPPORTED, BROKEN),
        (NOT_SUPPORTED, NOT_SUPPORTED, NOT_SUPPORTED),
    ],
)
def test_whoever_is_in_either_list_is_there(told, listed, expected):
    assert merged(told, listed) == expected


def metrics(**counters):
    names = ("ppt", "prochot", "socket_thm", "vr_thm", "hbm_thm")
    return {f"{name}_residency_acc": counters.get(name, 5) for name in names} | {"temperature_hotspot": 40}


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ({}, ""),
        ({"ppt": 6}, "power cap"),
        ({"prochot": 6}, "hardware slowdown"),
        ({"hbm_thm": 6}, "hardware thermal"),
        ({"vr_thm": 6, "socket_thm": 9, "ppt": 6}, "power cap, hardware thermal"),
        ({"ppt": 1}, ""),  # the driver was loaded again
        ({"ppt": "N/A"}, ""),
    ],
)
def test_a_counter_that_grows_is_a_reason(now, words):
    reading = event_reasons(residencies(metrics()), residencies(metrics(**now)))
    assert words_of(reading.value) == words


def test_a_gpu_without_these_counters_says_nothing():
    none = residencies({"throttle_status": False, "ppt_residency_acc": "N/A"})
    assert none == {}
    assert event_reasons(none, none) == NOT_SUPPORTED
    assert event_reasons({}, residencies(metrics())) == NOT_SUPPORTED
