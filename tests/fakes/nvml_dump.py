"""Run as a child on the fake NVML: makes every call that a capture records, prints what they answered as JSON.

The shape is the capture's, without the milliseconds. Which calls, and with which arguments, is read from the capture.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

import pynvml

NUMBERED = {"cpu_aff": "nvmlDeviceGetCpuAffinity", "mem_aff": "nvmlDeviceGetMemoryAffinity"}
EXTRA_ARGUMENTS = {"nvmlDeviceGetTemperature": (0,), "nvmlDeviceGetMemoryAffinity": (0,)}
LINK_CALLS = {"err": "nvmlDeviceGetNvLinkErrorCounter", "cap": "nvmlDeviceGetNvLinkCapability"}


def answer(call, *arguments):
    try:
        return plain(getattr(pynvml, call)(*arguments))
    except pynvml.NVMLError as error:
        return {"error": type(error).__name__}


def plain(value):
    if isinstance(value, ctypes.Structure):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [plain(it) for it in value]
    return value.decode() if isinstance(value, bytes) else value


def device(handle, recorded):
    found = {}
    for key in recorded:
        if key.startswith("nvmlDeviceGetGpuFabricInfo"):
            found[key] = fabric(handle, key)
        elif key[:7] in NUMBERED:
            call = NUMBERED[key[:7]]
            found[key] = answer(call, handle, int(key[8:]), *EXTRA_ARGUMENTS.get(call, ()))
        elif key.startswith("nvml"):
            found[key] = (
                answer(key, handle, *EXTRA_ARGUMENTS.get(key, ()))
                if key != "nvmlDeviceGetPciInfoExt"
                else None
            )
    found["links"] = [link(handle, number, it) for number, it in enumerate(recorded["links"])]
    found["fields"] = fields(handle, list(recorded["fields"]))
    found["pairs"] = {peer: pair(handle, int(peer), calls) for peer, calls in recorded["pairs"].items()}
    return found


def fabric(handle, key):
    call, _, struct = key.partition(":")
    info = getattr(pynvml, struct)()
    result = answer(call, handle, ctypes.byref(info))
    return result if isinstance(result, dict) else plain(info)


def link(handle, number, recorded):
    calls = {key: (LINK_CALLS[key[:3]], int(key[3:])) for key in recorded if key[:3] in LINK_CALLS}
    return {
        key: answer(calls[key][0], handle, number, calls[key][1])
        if key in calls
        else answer(key, handle, number)
        for key in recorded
    }


def fields(handle, names):
    values = pynvml.nvmlDeviceGetFieldValues(handle, [getattr(pynvml, name) for name in names])
    return {
        name: {"ret": it.nvmlReturn, "type": it.valueType, "ull": it.value.ullVal}
        for name, it in zip(names, values, strict=True)
    }


def pair(handle, peer, recorded):
    other = pynvml.nvmlDeviceGetHandleByIndex(peer)
    found = {
        "nvmlDeviceGetTopologyCommonAncestor": answer("nvmlDeviceGetTopologyCommonAncestor", handle, other)
    }
    for key in recorded:
        if key.startswith("NVML_P2P_CAPS") and key != "NVML_P2P_CAPS_INDEX_READ":
            found[key] = answer("nvmlDeviceGetP2PStatus", handle, other, getattr(pynvml, key))
    return found


def main(capture):
    pynvml.nvmlInit()
    found = {key: answer(key) for key in capture if key.startswith("nvml")}
    found["devices"] = [
        device(pynvml.nvmlDeviceGetHandleByIndex(index), recorded)
        for index, recorded in enumerate(capture["devices"])
    ]
    pynvml.nvmlShutdown()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
