"""The fake NVML by itself, through NVIDIA's binding: life cycle, struct versions, sizes, handles, faults.

Each test runs a script in a child, because ctypes keeps a library for the life of a process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpumond.simulate.faults import parse_fault
from gpumond.simulate.nvml_calls import CALLS, absent_symbols
from gpumond.simulate.scenario import load_scenario, with_faults

UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 1, 2, 3, 4, 6
INSUFFICIENT_SIZE, DRIVER_NOT_LOADED, FUNCTION_NOT_FOUND, GPU_IS_LOST = 7, 9, 13, 15
LIBRARY_MISMATCH, VERSION_MISMATCH = 18, 25

PRELUDE = """
import ctypes, json
from pynvml import *

def show(*values):
    print(json.dumps(values), flush=True)

def code(function, *arguments):
    try:
        function(*arguments)
    except NVMLError as error:
        return error.value
    return 0
"""
OPEN = """
nvmlInit()
gpu, peer = nvmlDeviceGetHandleByIndex(0), nvmlDeviceGetHandleByIndex(1)
library = ctypes.CDLL("libnvidia-ml.so.1")
"""


def start(fake_nvml, scenario, script):
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script],
        env=os.environ | fake_nvml.environment(scenario),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def shown(fake_nvml, script, scenario=None):
    """What the script shows, one list a line."""
    child = start(fake_nvml, scenario or load_scenario("h200-2-vm"), script)
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    return [json.loads(line) for line in output.splitlines()]


def faulty(*faults):
    return with_faults(load_scenario("h200-2-vm"), [parse_fault(fault) for fault in faults])


def test_nothing_answers_before_the_first_init_or_after_the_last_shutdown(fake_nvml):
    script = """
library = ctypes.CDLL("libnvidia-ml.so.1")
show(library.nvmlDeviceGetCount_v2(ctypes.byref(ctypes.c_uint())), library.nvmlShutdown())
nvmlInit()
nvmlInit()
gpu = nvmlDeviceGetHandleByIndex(0)
nvmlShutdown()
show(code(nvmlDeviceGetName, gpu))
nvmlShutdown()
show(code(nvmlDeviceGetName, gpu), code(nvmlDeviceGetCount), code(nvmlShutdown))
nvmlInit()
show(nvmlDeviceGetName(nvmlDeviceGetHandleByIndex(0)))
"""
    assert shown(fake_nvml, script) == [
        [UNINITIALIZED, UNINITIALIZED],
        [0],
        [UNINITIALIZED, UNINITIALIZED, UNINITIALIZED],
        ["NVIDIA H200"],
    ]


def test_handles(fake_nvml):
    script = f"""{OPEN}
same = [
    nvmlDeviceGetHandleByPciBusId("00000000:00:07.0"), nvmlDeviceGetHandleByPciBusId("0000:00:07.0"),
    nvmlDeviceGetHandleByPciBusId("00:07.0"), nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(peer)),
]
show(*[nvmlDeviceGetIndex(handle) for handle in same])
stranger = ctypes.cast(ctypes.c_void_p(4096), type(gpu))
show(code(nvmlDeviceGetHandleByIndex, 2), code(nvmlDeviceGetHandleByPciBusId, "0000:00:08.0"),
     code(nvmlDeviceGetHandleByPciBusId, "nonsense"), code(nvmlDeviceGetHandleByUUID, "GPU-none"),
     code(nvmlDeviceGetName, stranger), code(nvmlDeviceGetName, None))
"""
    assert shown(fake_nvml, script) == [
        [1, 1, 1, 1],
        [INVALID_ARGUMENT, NOT_FOUND, INVALID_ARGUMENT, NOT_FOUND, INVALID_ARGUMENT, INVALID_ARGUMENT],
    ]


def test_struct_versions(fake_nvml):
    script = f"""{OPEN}
memory = nvmlDeviceGetMemoryInfo(gpu, nvmlMemory_v2)
show(memory.version, memory.total, memory.reserved + memory.free + memory.used)
show(code(nvmlDeviceGetMemoryInfo, gpu, nvmlMemory_v2 + 1))
ext = nvmlPciInfoExt_v1_t()
show(code(nvmlDeviceGetPciInfoExt, gpu, ctypes.byref(ext)))
ext.version = nvmlPciInfoExt_v1
nvmlDeviceGetPciInfoExt(gpu, ctypes.byref(ext))
show(ext.device, ext.baseClass, ext.busId.decode() if isinstance(ext.busId, bytes) else ext.busId)
for struct in (c_nvmlGpuFabricInfo_v2_t, c_nvmlGpuFabricInfo_v3_t):
    info = struct()
    ctypes.memset(ctypes.byref(info, 4), 0xFF, ctypes.sizeof(info) - 4)
    nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(info))
    show(info.version, info.state & 0xFF, info.healthMask, getattr(info, "healthSummary", None))
info.version = 0x04000000
show(code(nvmlDeviceGetGpuFabricInfoV, gpu, ctypes.byref(info)))
"""
    assert shown(fake_nvml, script) == [
        [0x02000028, 150754820096, 150754820096],
        [VERSION_MISMATCH],
        [VERSION_MISMATCH],
        [6, 3, "00000000:00:06.0"],
        [0x02000024, 3, 0, None],
        [0x03000028, 3, 0, 0],
        [VERSION_MISMATCH],
    ]


def test_buffers_that_are_too_small(fake_nvml):
    script = f"""{OPEN}
name = ctypes.create_string_buffer(96)
show(library.nvmlDeviceGetName(gpu, name, 11), library.nvmlDeviceGetName(gpu, name, 12), name.value.decode())
count = ctypes.c_uint(0)
show(library.nvmlDeviceGetComputeRunningProcesses_v3(gpu, ctypes.byref(count), None), count.value)
room = (c_nvmlProcessInfo_v3_t * 3)()
count.value = 3
show(library.nvmlDeviceGetComputeRunningProcesses_v3(gpu, ctypes.byref(count), ctypes.byref(room)), count.value,
     room[0].pid, room[0].usedGpuMemory, room[0].gpuInstanceId, room[1].pid)
show([process.pid for process in nvmlDeviceGetComputeRunningProcesses(gpu)],
     [process.pid for process in nvmlDeviceGetComputeRunningProcesses_v2(gpu)],
     nvmlDeviceGetGraphicsRunningProcesses_v3(gpu))
"""
    assert shown(fake_nvml, script, faulty("gpu_busy,gpu=0,pid=4711")) == [
        [INSUFFICIENT_SIZE, 0, "NVIDIA H200"],
        [INSUFFICIENT_SIZE, 1],
        [0, 1, 4711, 925_696_000, 0xFFFFFFFF, 0],
        [[4711], [4711], []],
    ]


def test_affinity_masks_are_as_long_as_the_highest_cpu_needs(fake_nvml):
    script = f"""{OPEN}
far = nvmlDeviceGetHandleByIndex(7)
show(list(nvmlDeviceGetCpuAffinity(gpu, 2)), list(nvmlDeviceGetCpuAffinityWithinScope(far, 3, 1)))
show(list(nvmlDeviceGetMemoryAffinity(far, 1, 0)))
show(code(nvmlDeviceGetCpuAffinity, gpu, 1), code(nvmlDeviceGetCpuAffinity, gpu, 0),
     code(nvmlDeviceGetMemoryAffinity, gpu, 1, 2))
"""
    low, high = 0x00000000FFFFFFFF, 0xFFFFFFFF00000000
    assert shown(fake_nvml, script, load_scenario("hgx-h200-8")) == [
        [[low, low], [high, high, 0]],
        [[2]],
        [INSUFFICIENT_SIZE, INVALID_ARGUMENT, INVALID_ARGUMENT],
    ]


def test_links_and_pairs_that_do_not_exist(fake_nvml):
    script = f"""{OPEN}
show([code(nvmlDeviceGetNvLinkState, gpu, link) for link in (5, 6, 17, 18)])
show(code(nvmlDeviceGetTopologyCommonAncestor, gpu, gpu), code(nvmlDeviceGetP2PStatus, gpu, peer, 6))
show(nvmlDeviceGetNvLinkRemotePciInfo(gpu, 0).busId, nvmlDeviceGetNvLinkRemoteDeviceType(gpu, 0))
"""
    scenario = load_scenario("dgx1-v100-cube-mesh")
    links, pairs, remote = shown(fake_nvml, script, scenario)
    assert links == [[0, NOT_SUPPORTED, NOT_SUPPORTED, INVALID_ARGUMENT]]
    assert pairs == [INVALID_ARGUMENT, INVALID_ARGUMENT]
    assert remote == [f"0000{scenario.gpus[1].pci_bus_id}".upper(), 0]


def test_field_values_each_with_an_answer_of_its_own(fake_nvml):
    script = f"""{OPEN}
for entry in nvmlDeviceGetFieldValues(gpu, [91, (164, 17), (164, 18), 230, 90, 289]):
    show(entry.fieldId, entry.nvmlReturn, entry.value.uiVal, entry.timestamp > 10**15)
show(code(nvmlDeviceGetFieldValues, gpu, []))
"""
    assert shown(fake_nvml, script) == [
        [91, 0, 18, True],
        [164, 0, 26562, True],
        [164, NOT_SUPPORTED, 0, True],
        [230, 0, 0, True],
        [90, NOT_SUPPORTED, 0, True],
        [289, INVALID_ARGUMENT, 0, True],
        [INVALID_ARGUMENT],
    ]


def test_a_lost_gpu_is_counted_and_takes_nobody_with_it(fake_nvml):
    script = """
nvmlInit()
show(nvmlDeviceGetCount(), code(nvmlDeviceGetHandleByIndex, 1), code(nvmlDeviceGetHandleByPciBusId, "0000:00:07.0"))
show(nvmlDeviceGetName(nvmlDeviceGetHandleByIndex(0)))
"""
    assert shown(fake_nvml, script, faulty("gpu_lost,gpu=1")) == [
        [2, GPU_IS_LOST, GPU_IS_LOST],
        ["NVIDIA H200"],
    ]


@pytest.mark.parametrize(
    ("fault", "status"),
    [("driver_mismatch", LIBRARY_MISMATCH), ("driver_not_loaded", DRIVER_NOT_LOADED)],
)
def test_a_driver_that_does_not_start(fake_nvml, fault, status):
    script = 'show(code(nvmlInit), ctypes.CDLL("libnvidia-ml.so.1").nvmlInit_v2(), code(nvmlDeviceGetCount))'
    assert shown(fake_nvml, script, faulty(fault)) == [[status, status, UNINITIALIZED]]


def test_calls_that_fail(fake_nvml):
    script = """
nvmlInit()
show(code(nvmlDeviceGetHandleByIndex, 1))
gpu = nvmlDeviceGetHandleByIndex(0)
show(code(nvmlDeviceGetMigMode, gpu), code(nvmlDeviceGetNvLinkState, gpu, 3), code(nvmlDeviceGetName, gpu))
try:
    nvmlDeviceGetNvLinkState(gpu, 3)
except NVMLError as error:
    show(str(error))
"""
    scenario = faulty(
        "no_permission,gpu=1",
        "not_supported,call=nvmlDeviceGetMigMode",
        "call_fails,call=nvmlDeviceGetNvLinkState,status=19,gpu=0",
    )
    assert shown(fake_nvml, script, scenario) == [
        [NO_PERMISSION],
        [NOT_SUPPORTED, 19, 0],
        ["In use by another client"],
    ]


def test_a_call_that_hangs_ends_by_sigkill_only(fake_nvml):
    script = f'{OPEN}\nshow("asks")\nnvmlDeviceGetName(peer)\nshow("came back")'
    child = start(fake_nvml, faulty("call_hangs,call=nvmlDeviceGetName,gpu=1"), script)
    try:
        assert child.stdout.readline() == '["asks"]\n'
        wait_until_it_hangs(child.pid)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            child.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=0.5)
    finally:
        child.kill()
        output, _ = child.communicate(timeout=10)
    assert (child.returncode, output) == (-signal.SIGKILL, "")


def wait_until_it_hangs(pid):
    """Until every signal is ignored: the library's first act when it hangs."""
    sigterm_bit = 1 << (signal.SIGTERM - 1)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
        ignored = next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn:"))
        if ignored & sigterm_bit:
            return
        time.sleep(0.01)
    raise AssertionError("the call does not hang")


def test_a_call_that_crashes(fake_nvml):
    child = start(
        fake_nvml, faulty("call_crashes,call=nvmlDeviceGetName,gpu=1"), f"{OPEN}\nnvmlDeviceGetName(peer)"
    )
    child.communicate(timeout=60)
    assert child.returncode == -signal.SIGSEGV


def test_an_old_library_does_not_have_newer_symbols(fake_nvml):
    scenario = load_scenario("dgx1-v100-cube-mesh")
    script = f"""{OPEN}
show(code(nvmlDeviceGetGpuFabricInfoV, gpu, None), code(nvmlDeviceGetNumaNodeId, gpu), code(nvmlDeviceGetName, gpu))
show([symbol for symbol in {sorted(CALLS)!r} if not hasattr(library, symbol)])
"""
    assert shown(fake_nvml, script, scenario) == [
        [FUNCTION_NOT_FOUND, FUNCTION_NOT_FOUND, 0],
        [list(absent_symbols("470.256.02"))],
    ]
    assert "nvmlDeviceGetGpuFabricInfoV" in absent_symbols("470.256.02")
    assert absent_symbols("580.159.04") == ()


def test_without_answers_the_library_says_so(fake_nvml):
    environment = os.environ | fake_nvml.environment(load_scenario("h200-2-vm"))
    environment["GPUMOND_FAKE_NVML_ANSWERS"] = "/nowhere"
    child = subprocess.run(
        [sys.executable, "-c", f"{PRELUDE}\nshow(code(nvmlInit))"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(child.stdout) == [999]
    assert "cannot read the answers" in child.stderr
