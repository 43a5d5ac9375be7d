"""CUDA's runtime with host memory in the place of GPUs, and a clock that only moves while a collective "runs".

The signatures are cuda-bindings 13's: every call answers a tuple that begins with its error.
"""

from __future__ import annotations

import ctypes
import os
from enum import IntEnum
from types import SimpleNamespace

GPUS = int(os.environ.get("FAKE_GPUS", "2"))
FREE_BYTES = int(os.environ.get("FAKE_FREE_BYTES", str(8 << 30)))


class cudaError_t(IntEnum):  # noqa: N801 - its name there
    cudaSuccess = 0  # noqa: N815
    cudaErrorInvalidValue = 1  # noqa: N815


class cudaMemcpyKind(IntEnum):  # noqa: N801 - its name there
    cudaMemcpyDefault = 4  # noqa: N815


class Clock:
    seconds = 0.0


_memory: dict[int, ctypes.Array[ctypes.c_char]] = {}
_streams = iter(range(1, 1000))
_OK = cudaError_t.cudaSuccess


class Event:
    at = 0.0


def cudaGetDeviceCount():  # noqa: N802
    return _OK, GPUS


def cudaSetDevice(index):  # noqa: N802
    return (_OK if 0 <= index < GPUS else cudaError_t.cudaErrorInvalidValue,)


def cudaDeviceSynchronize():  # noqa: N802
    return (_OK,)


def cudaStreamSynchronize(_stream):  # noqa: N802
    return (_OK,)


def cudaStreamCreateWithFlags(_flags):  # noqa: N802
    return _OK, next(_streams)


def cudaEventCreate():  # noqa: N802
    return _OK, Event()


def cudaEventRecord(event, _stream):  # noqa: N802
    event.at = Clock.seconds
    return (_OK,)


def cudaEventElapsedTime(start, end):  # noqa: N802
    return _OK, (end.at - start.at) * 1e3


def cudaMemGetInfo():  # noqa: N802
    return _OK, FREE_BYTES, FREE_BYTES


def cudaMalloc(size):  # noqa: N802
    block = ctypes.create_string_buffer(max(1, size))
    _memory[ctypes.addressof(block)] = block
    return _OK, ctypes.addressof(block)


def cudaFree(pointer):  # noqa: N802
    del _memory[pointer]
    return (_OK,)


def cudaMemcpy(target, source, count, kind):  # noqa: N802
    assert kind is cudaMemcpyKind.cudaMemcpyDefault
    ctypes.memmove(target, source, count)
    return (_OK,)


def cudaMemset(target, value, count):  # noqa: N802
    if count:
        ctypes.memset(target, value, count)
    return (_OK,)


def cudaGetDeviceProperties(index):  # noqa: N802
    return _OK, SimpleNamespace(pciDomainID=0, pciBusID=6 + index, pciDeviceID=0, name=b"Fake GPU\0\0")
