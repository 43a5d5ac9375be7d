"""The one kernel that is ever launched, done by the host: differences are counted at the width that its text names."""

from __future__ import annotations

import ctypes
import re

_WIDTHS = {"8": ctypes.c_uint8, "16": ctypes.c_uint16, "32": ctypes.c_uint32, "64": ctypes.c_uint64}


def cuModuleLoadData(text):  # noqa: N802
    assert text.endswith(b"\0")
    return 0, text.decode()


def cuModuleGetFunction(module, name):  # noqa: N802
    assert f".entry {name.decode()}(" in module
    return 0, re.search(r"ld\.global\.u(\d+)", module)[1]


def cuLaunchKernel(kernel, *rest):  # noqa: N802
    (left, right, elements, result), types = rest[-2]
    assert len(types) == 4
    kind = _WIDTHS[kernel] * elements
    pairs = zip(kind.from_address(left), kind.from_address(right), strict=True)
    ctypes.c_uint64.from_address(result).value += sum(one != other for one, other in pairs)
    return (0,)
