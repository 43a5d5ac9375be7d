"""The NVML symbols that the fake library has, and since which driver branch the real one has them.

The branches are those of the header's change notes where they say it, else of the first header seen with the symbol:
good enough for old hosts on which newer calls are absent, not a reference.
"""

from __future__ import annotations

import re

_ALWAYS = (
    "nvmlDeviceGetApplicationsClock",
    "nvmlDeviceGetBoardPartNumber",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetCpuAffinity",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetInforomImageVersion",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName",
    "nvmlDeviceGetNvLinkCapability",
    "nvmlDeviceGetNvLinkErrorCounter",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkVersion",
    "nvmlDeviceGetP2PStatus",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetPcieReplayCounter",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTopologyCommonAncestor",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetVbiosVersion",
    "nvmlDeviceGetVirtualizationMode",
    "nvmlErrorString",
    "nvmlInitWithFlags",
    "nvmlInit_v2",
    "nvmlShutdown",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
)

_SINCE = {
    "nvmlDeviceGetArchitecture": 450,
    "nvmlDeviceGetComputeRunningProcesses_v2": 450,
    "nvmlDeviceGetComputeRunningProcesses_v3": 510,
    "nvmlDeviceGetConfComputeProtectedMemoryUsage": 535,
    "nvmlDeviceGetCpuAffinityWithinScope": 450,
    "nvmlDeviceGetCurrentClocksEventReasons": 535,
    "nvmlDeviceGetGpuFabricInfo": 525,
    "nvmlDeviceGetGpuFabricInfoV": 535,
    "nvmlDeviceGetGpuMaxPcieLinkGeneration": 510,
    "nvmlDeviceGetGraphicsRunningProcesses_v2": 450,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": 510,
    "nvmlDeviceGetMPSComputeRunningProcesses_v2": 450,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": 510,
    "nvmlDeviceGetMemoryAffinity": 450,
    "nvmlDeviceGetMemoryInfo_v2": 510,
    "nvmlDeviceGetMigMode": 450,
    "nvmlDeviceGetModuleId": 535,
    "nvmlDeviceGetNumaNodeId": 545,
    "nvmlDeviceGetNvLinkRemoteDeviceType": 470,
    "nvmlDeviceGetPciInfoExt": 545,
    "nvmlDeviceGetPcieLinkMaxSpeed": 470,
    "nvmlDeviceGetPcieSpeed": 470,
    "nvmlDeviceGetRemappedRows": 450,
    "nvmlGetExcludedDeviceCount": 460,
}

CALLS: dict[str, int] = dict.fromkeys(_ALWAYS, 0) | _SINCE
"""Symbol to the driver branch that brought it; 0 for those older than any driver of interest."""

INIT_CALLS = ("nvmlInitWithFlags", "nvmlInit_v2")
HANDLE_CALLS = (
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetHandleByUUID",
)

_VERSION = re.compile(r"_v\d+$")


def unversioned(symbol: str) -> str:
    """`nvmlDeviceGetCount_v2` as people call it: `nvmlDeviceGetCount`."""
    return _VERSION.sub("", symbol)


def symbols_of(call: str) -> tuple[str, ...]:
    """The symbols that a fault on `call` strikes: that one, or every version of it."""
    return tuple(symbol for symbol in CALLS if call in (symbol, unversioned(symbol)))


def branch_of(driver_version: str) -> int:
    """580.159.04 belongs to branch 580."""
    return int(driver_version.partition(".")[0])


def absent_symbols(driver_version: str) -> tuple[str, ...]:
    """What a library of this driver does not have."""
    branch = branch_of(driver_version)
    return tuple(sorted(symbol for symbol, since in CALLS.items() if since > branch))
