"""The door to NVML, against a binding that fails in every way in which pynvml has been seen to fail."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest

import gpumond
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.probe import nvml
from gpumond.probe.nvml import NvmlLibrary

# reference/topology.md 1.2: what changes something, most of it without asking for root.
WRITING_CALLS = re.compile(
    r"nvml\w*(Set|Clear|Reset|Modify|Remove|Discover|Activate|Deactivate|Create|Destroy|Freeze|Register|Inject)\w*"
)


def binding(**functions):
    return SimpleNamespace(
        NVMLError=pynvml.NVMLError, NVMLLibraryMismatchError=pynvml.NVMLLibraryMismatchError, **functions
    )


def raising(error):
    def call(*_):
        raise error

    return call


def field_entry(status=0, value_type=1, **members):
    return SimpleNamespace(
        fieldId=91, nvmlReturn=status, valueType=value_type, value=SimpleNamespace(**members)
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (pynvml.NVMLError(15), UnreadableReason.GPU_LOST),
        (pynvml.NVMLError(4), UnreadableReason.NO_PERMISSION),
        (pynvml.NVMLError(999), UnreadableReason.ERROR),
        (ctypes.ArgumentError("argument 3"), UnreadableReason.MALFORMED),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), UnreadableReason.MALFORMED),
    ],
)
def test_whatever_a_call_raises_is_a_reading_with_the_name_of_the_call(error, reason):
    library = NvmlLibrary(binding(nvmlDeviceGetName=raising(error)))
    reading = library.ask("nvmlDeviceGetName", object(), convert=str)
    assert isinstance(reading, Unreadable)
    assert reading.reason is reason
    assert "nvmlDeviceGetName" in reading.detail


@pytest.mark.parametrize(
    "error", [pynvml.NVMLError(3), pynvml.NVMLError(13), pynvml.NVMLLibraryMismatchError("old")]
)
def test_a_call_that_the_driver_does_not_have_is_not_supported(error):
    library = NvmlLibrary(binding(nvmlDeviceGetName=raising(error)))
    assert library.ask("nvmlDeviceGetName", object(), convert=str) == NOT_SUPPORTED


def test_a_call_that_the_binding_does_not_have_is_not_supported():
    assert NvmlLibrary(binding()).ask("nvmlDeviceGetName", object(), convert=str) == NOT_SUPPORTED


def test_an_answer_that_cannot_be_converted_is_malformed():
    library = NvmlLibrary(binding(nvmlDeviceGetIndex=lambda _: "two"))
    reading = library.ask("nvmlDeviceGetIndex", object(), convert=int)
    assert isinstance(reading, Unreadable)
    assert reading.reason is UnreadableReason.MALFORMED


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceSetPersistenceMode",
        "nvmlDeviceClearEccErrorCounts",
        "nvmlDeviceResetNvLinkErrorCounters",
        "nvmlInit",
    ],
)
def test_the_door_does_not_open_for_calls_that_change_something(call):
    with pytest.raises(ValueError, match="not a reading call"):
        NvmlLibrary(pynvml).ask(call, object(), convert=str)


def test_no_source_file_names_a_call_that_changes_something():
    sources = [path for path in Path(gpumond.__file__).parent.rglob("*.py") if "simulate" not in path.parts]
    found = {path.name: WRITING_CALLS.findall(path.read_text()) for path in sources}
    assert {name: names for name, names in found.items() if names} == {}
    assert WRITING_CALLS.search("nvmlDeviceClearCpuAffinity")


def test_every_field_of_one_call_has_an_answer_of_its_own():
    answers = [
        field_entry(uiVal=18),
        field_entry(value_type=3, ullVal=2**40),
        field_entry(status=3),
        field_entry(status=15),
        field_entry(value_type=42),
    ]
    library = NvmlLibrary(binding(nvmlDeviceGetFieldValues=lambda _, ids: answers[: len(ids)]))
    readings = list(library.fields(object(), [(91, link) for link in range(5)]).values())
    assert readings[:3] == [Value(18), Value(2**40), NOT_SUPPORTED]
    assert [reading.reason for reading in readings[3:]] == [
        UnreadableReason.GPU_LOST,
        UnreadableReason.MALFORMED,
    ]


def test_fields_of_a_call_that_fails_as_a_whole_share_its_cause():
    library = NvmlLibrary(binding(nvmlDeviceGetFieldValues=raising(pynvml.NVMLError(15))))
    readings = library.fields(object(), [(91, 0), (230, 0)])
    assert {reading.reason for reading in readings.values()} == {UnreadableReason.GPU_LOST}


def processes(*pids):
    return lambda _: [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in pids]


def test_processes_of_every_kind_are_listed():
    library = NvmlLibrary(
        binding(
            nvmlDeviceGetComputeRunningProcesses_v3=processes(10),
            nvmlDeviceGetGraphicsRunningProcesses_v3=processes(11),
            nvmlDeviceGetMPSComputeRunningProcesses_v3=raising(pynvml.NVMLError(3)),
        )
    )
    reading = library.processes(object())
    assert isinstance(reading, Value)
    assert [(it.pid, it.kind) for it in reading.value] == [(10, "compute"), (11, "graphics")]


def test_an_older_driver_is_asked_in_its_own_version():
    library = NvmlLibrary(
        binding(
            nvmlDeviceGetComputeRunningProcesses_v3=raising(pynvml.NVMLError(13)),
            nvmlDeviceGetComputeRunningProcesses_v2=processes(10),
        )
    )
    assert [it.pid for it in library.processes(object()).value] == [10]


@pytest.mark.parametrize("kind", ["Compute", "Graphics", "MPSCompute"])
def test_one_list_that_cannot_be_read_is_not_an_idle_gpu(kind):
    calls = {
        f"nvmlDeviceGet{name}RunningProcesses_v3": processes()
        for name in ("Compute", "Graphics", "MPSCompute")
    }
    calls[f"nvmlDeviceGet{kind}RunningProcesses_v3"] = raising(pynvml.NVMLError(4))
    assert isinstance(NvmlLibrary(binding(**calls)).processes(object()), Unreadable)


def test_the_library_is_closed_also_when_the_reader_fails():
    closed = []
    fake = binding(nvmlInit=lambda: None, nvmlShutdown=lambda: closed.append(True))
    with pytest.raises(RuntimeError), nvml.opened(fake):
        raise RuntimeError
    assert closed == [True]


def test_a_library_that_cannot_close_does_not_spoil_the_snapshot():
    fake = binding(nvmlInit=lambda: None, nvmlShutdown=raising(pynvml.NVMLError(999)))
    with nvml.opened(fake) as library:
        assert isinstance(library, NvmlLibrary)


def test_a_driver_that_does_not_start_is_one_answer():
    with nvml.opened(binding(nvmlInit=raising(pynvml.NVMLError(18)))) as library:
        assert isinstance(library, Unreadable)
        assert library.reason is UnreadableReason.DRIVER_MISMATCH
