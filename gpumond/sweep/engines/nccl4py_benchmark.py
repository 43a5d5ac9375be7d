"""NCCL's collectives through nccl4py, measured and printed as nccl-tests does it: one process for all GPUs.

`python -m gpumond.sweep.engines.nccl4py_benchmark --collective all_reduce -b 67108864 -e 2147483648 -g 8`

Needs the extra nccl-cu12 or nccl-cu13: no compiler, no torch, no MPI. Sizes, data and text are torch_benchmark.py's.
It calls NCCL through nccl4py's bindings, not through its communicator class, which looks at both buffers in every call
(and imports torch, where there is one): that costs more than a small message takes (MEASURED.md). Results are compared on
the GPU, by a kernel that the driver translates from PTX.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpumond.sweep.engines.torch_benchmark import (
    EXIT_FAILED,
    IN_PLACE,
    LAUNCH_BATCHES,
    LAUNCHES_PER_BATCH,
    MEMORY_SHARE,
    METHOD_VERSION,
    OUT_OF_PLACE,
    PERIOD,
    PIECE_BYTES,
    POISON,
    ROOT,
    Device,
    Piece,
    Settings,
    Shape,
    Table,
    measure,
    parse_arguments,
    result_of,
    say_failure,
    values_of,
)

TOOL = "gpumond-nccl4py"

_NCCL_TYPES = {
    "int8": 0,
    "uint8": 1,
    "int32": 2,
    "int64": 4,
    "half": 6,
    "float": 7,
    "double": 8,
    "bfloat16": 9,
}
_NCCL_REDOPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
"""ncclDataType_t and ncclRedOp_t of nccl.h."""

_STRUCT_CODES = {
    "int8": "b",
    "uint8": "B",
    "int32": "i",
    "int64": "q",
    "half": "e",
    "float": "f",
    "double": "d",
}

_ONLY_OUT_OF_PLACE = frozenset(("alltoall", "sendrecv", "gather", "scatter"))
"""nccl-tests times these in place too, but cannot check them."""

_ALLTOALL_SINCE = 22800
"""ncclAlltoAll came with NCCL 2.28; before, nccl-tests groups sends and receives."""

_STREAM_NON_BLOCKING = 1

_KERNEL = b"count_differences"
_BLOCKS, _THREADS = 1024, 256

_PTX = """\
.version 6.0
.target sm_50
.address_size 64

.visible .entry count_differences(
    .param .u64 left, .param .u64 right, .param .u64 elements, .param .u64 result)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<12>;
    .reg .{word} %w<3>;

    ld.param.u64 %rd1, [left];
    ld.param.u64 %rd2, [right];
    ld.param.u64 %rd3, [elements];
    ld.param.u64 %rd4, [result];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    cvta.to.global.u64 %rd4, %rd4;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %nctaid.x;
    mul.wide.u32 %rd5, %r1, %r2;
    cvt.u64.u32 %rd6, %r3;
    add.u64 %rd5, %rd5, %rd6;
    mul.wide.u32 %rd7, %r4, %r2;
    mov.u64 %rd8, 0;
NEXT:
    setp.ge.u64 %p1, %rd5, %rd3;
    @%p1 bra SUM;
    mul.lo.u64 %rd9, %rd5, {width};
    add.u64 %rd10, %rd1, %rd9;
    add.u64 %rd11, %rd2, %rd9;
    ld.global.{load} %w1, [%rd10];
    ld.global.{load} %w2, [%rd11];
    setp.ne.{word} %p2, %w1, %w2;
    @%p2 add.u64 %rd8, %rd8, 1;
    add.u64 %rd5, %rd5, %rd7;
    bra NEXT;
SUM:
    setp.eq.u64 %p3, %rd8, 0;
    @%p3 bra END;
    red.global.add.u64 [%rd4], %rd8;
END:
    ret;
}}
"""
"""result += how many of `elements` differ between left and right. Every later driver translates this version."""


def kernel_text(element_bytes: int) -> bytes:
    """The kernel for elements of this width, as cuModuleLoadData wants it."""
    word = "u64" if element_bytes == 8 else "u32"  # noqa: PLR2004 - the widest type; PTX has no narrower registers than it
    text = _PTX.format(width=element_bytes, load=f"u{8 * element_bytes}", word=word)
    return text.encode() + b"\0"


def packed(values: Sequence[int], datatype: str) -> bytes:
    """The values as they stand in memory."""
    if datatype == "bfloat16":  # the upper half of a float; whole numbers below 256 lose nothing
        floats = struct.pack(f"<{len(values)}f", *values)
        return b"".join(floats[index + 2 : index + 4] for index in range(0, len(floats), 4))
    return struct.pack(f"<{len(values)}{_STRUCT_CODES[datatype]}", *values)


class Cuda:
    """The calls of CUDA that are needed here, each of which raises where it fails."""

    def __init__(self, runtime: Any, driver: Any) -> None:
        self._runtime = runtime
        self._driver = driver

    def call(self, name: str, *arguments: Any) -> Any:
        """A function of the runtime; its only result, all of them where there are several."""
        return _unwrapped(name, getattr(self._runtime, name)(*arguments))

    def copy(self, target: int, source: int, count: int) -> None:
        self.call("cudaMemcpy", target, source, count, self._runtime.cudaMemcpyKind.cudaMemcpyDefault)

    def load_kernel(self, text: bytes) -> Any:
        """On the current device."""
        module = _unwrapped("cuModuleLoadData", self._driver.cuModuleLoadData(text))
        return _unwrapped("cuModuleGetFunction", self._driver.cuModuleGetFunction(module, _KERNEL))

    def launch(self, kernel: Any, arguments: tuple[int, ...]) -> None:
        types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p)
        grid = (_BLOCKS, 1, 1, _THREADS, 1, 1)
        _unwrapped("cuLaunchKernel", self._driver.cuLaunchKernel(kernel, *grid, 0, 0, (arguments, types), 0))


def _unwrapped(name: str, answer: tuple[Any, ...]) -> Any:
    error, *results = answer
    if int(error) != 0:
        raise RuntimeError(f"{name}: {getattr(error, 'name', error)}")
    return results[0] if len(results) == 1 else tuple(results)


@dataclass
class _Buffer:
    """Memory of one GPU that only grows."""

    pointer: int = 0
    size_bytes: int = 0


@dataclass
class _Rank:
    """One GPU with what belongs to it."""

    index: int
    communicator: Any
    stream: int
    started: Any
    ended: Any
    kernel: Any
    differences: int
    """Where the kernel counts."""
    sent: _Buffer = field(default_factory=_Buffer)
    received: _Buffer = field(default_factory=_Buffer)
    tile: _Buffer = field(default_factory=_Buffer)
    tile_of: int | None = -1


class Nccl4pyMachine:
    """All ranks, in this process."""

    def __init__(self, nccl: Any, cuda: Cuda, settings: Settings) -> None:
        self._nccl = nccl
        self._cuda = cuda
        self._settings = settings
        communicators = nccl.comm_init_all(settings.ranks, list(range(settings.ranks)))
        self._of_rank = [self._make_rank(index, each) for index, each in enumerate(communicators)]

    def _make_rank(self, index: int, communicator: Any) -> _Rank:
        call = self._cuda.call
        call("cudaSetDevice", index)
        return _Rank(
            index=index,
            communicator=communicator,
            stream=int(call("cudaStreamCreateWithFlags", _STREAM_NON_BLOCKING)),
            started=call("cudaEventCreate"),
            ended=call("cudaEventCreate"),
            kernel=self._cuda.load_kernel(kernel_text(self._settings.element_bytes)),
            differences=int(call("cudaMalloc", 8)),
        )

    @property
    def ranks(self) -> int:
        return len(self._of_rank)

    @property
    def is_reporter(self) -> bool:
        return True

    def about(self) -> list[str]:
        code = int(self._nccl.get_version())
        path = self._nccl.get_library_path()
        return [
            f"nccl4py {_version_of('nccl4py')}, Python {sys.version.split()[0]}",
            f"NCCL version {code // 10_000}.{code % 10_000 // 100}.{code % 100}",
            f"library {path.decode() if isinstance(path, bytes) else path}",
        ]

    def devices(self) -> list[Device]:
        return [self._device(rank.index) for rank in self._of_rank]

    def _device(self, index: int) -> Device:
        about = self._cuda.call("cudaGetDeviceProperties", index)
        bus = f"{about.pciDomainID:04x}:{about.pciBusID:02x}:{about.pciDeviceID:02x}"
        return Device(index, os.getpid(), index, bus, about.name.rstrip(b"\0").decode())

    def placements(self) -> tuple[str, ...]:
        is_single = self._settings.collective in _ONLY_OUT_OF_PLACE
        return (OUT_OF_PLACE,) if is_single else (OUT_OF_PLACE, IN_PLACE)

    def largest_bytes(self) -> int:
        rooms = []
        for rank in self._of_rank:
            self._cuda.call("cudaSetDevice", rank.index)
            free, _total = self._cuda.call("cudaMemGetInfo")
            rooms.append(int((free - 2 * PIECE_BYTES) * MEMORY_SHARE) // 2)
        return min(rooms)

    def prepare(self, shape: Shape, placement: str) -> Callable[[], None]:
        width = self._settings.element_bytes
        for rank in self._of_rank:
            self._cuda.call("cudaSetDevice", rank.index)
            self._grow(rank.sent, shape.send_count(rank.index) * width)
            self._grow(rank.received, shape.receive_count(rank.index) * width)
            self._cuda.call("cudaMemset", rank.received.pointer, POISON, rank.received.size_bytes)
            pointer, count = self._input(shape, rank, placement)
            self._fill(rank, pointer, count)
            self._cuda.call("cudaDeviceSynchronize")
        return self._operation(shape, placement)

    def count_wrong(self, shape: Shape, placement: str) -> int:
        self._synchronize()
        return sum(self._count_wrong_of(shape, rank, placement) for rank in self._of_rank)

    def time(self, operation: Callable[[], None], iterations: int) -> float:
        self._synchronize()
        for rank in self._of_rank:
            self._cuda.call("cudaSetDevice", rank.index)
            self._cuda.call("cudaEventRecord", rank.started, rank.stream)
        for _ in range(iterations):
            operation()
        for rank in self._of_rank:
            self._cuda.call("cudaSetDevice", rank.index)
            self._cuda.call("cudaEventRecord", rank.ended, rank.stream)
        self._synchronize()
        milliseconds = [
            float(self._cuda.call("cudaEventElapsedTime", rank.started, rank.ended)) for rank in self._of_rank
        ]
        return sum(milliseconds) / self.ranks / 1e3 / iterations

    def launch_seconds(self, operation: Callable[[], None]) -> float:
        batches = []
        for _ in range(LAUNCH_BATCHES):
            self._synchronize()
            begin = time.perf_counter()
            for _ in range(LAUNCHES_PER_BATCH):
                operation()
            batches.append((time.perf_counter() - begin) / LAUNCHES_PER_BATCH)
        self._synchronize()
        return min(batches)

    def close(self) -> None:
        for rank in self._of_rank:
            self._nccl.comm_destroy(rank.communicator)

    def _synchronize(self) -> None:
        for rank in self._of_rank:
            self._cuda.call("cudaSetDevice", rank.index)
            self._cuda.call("cudaStreamSynchronize", rank.stream)

    # --- memory ---

    def _grow(self, buffer: _Buffer, size_bytes: int) -> None:
        if buffer.size_bytes >= size_bytes:
            return
        if buffer.pointer:
            self._cuda.call("cudaFree", buffer.pointer)
        buffer.pointer, buffer.size_bytes = 0, 0
        buffer.pointer, buffer.size_bytes = int(self._cuda.call("cudaMalloc", size_bytes)), size_bytes

    def _input(self, shape: Shape, rank: _Rank, placement: str) -> tuple[int, int]:
        """(where the rank sends from, how many elements)."""
        share = shape.count * self._settings.element_bytes * rank.index
        if placement == OUT_OF_PLACE or self._settings.collective == "reduce_scatter":
            return rank.sent.pointer, shape.send_count(rank.index)
        if self._settings.collective == "all_gather":
            return rank.received.pointer + share, shape.count
        return self._whole(rank), shape.count

    def _output(self, shape: Shape, rank: _Rank, placement: str) -> int:
        if placement == OUT_OF_PLACE or self._settings.collective == "all_gather":
            return rank.received.pointer
        if self._settings.collective == "reduce_scatter":
            return rank.sent.pointer + shape.count * self._settings.element_bytes * rank.index
        return self._whole(rank)

    def _whole(self, rank: _Rank) -> int:
        """The one buffer of an all_reduce, reduce or broadcast in place: the larger, since a root has only one."""
        return max((rank.received, rank.sent), key=lambda buffer: buffer.size_bytes).pointer

    def _fill(self, rank: _Rank, pointer: int, count: int) -> None:
        tile, width = self._tile(rank, rank.index), self._settings.element_bytes
        for start, elements in _stretches(count, width):
            self._cuda.copy(pointer + start * width, tile + start % PERIOD * width, elements * width)

    def _tile(self, rank: _Rank, source: int | None) -> int:
        """Many periods of values on the GPU, from which any stretch can be cut."""
        if rank.tile_of == source and rank.tile.pointer:
            return rank.tile.pointer
        values = values_of(self._settings, source, self.ranks)
        block = packed(values, self._settings.datatype)
        size = PIECE_BYTES + len(block)
        self._grow(rank.tile, size)
        on_host = ctypes.create_string_buffer(block, len(block))
        self._cuda.copy(rank.tile.pointer, ctypes.addressof(on_host), len(block))
        filled = len(block)
        while filled < size:
            count = min(filled, size - filled)
            self._cuda.copy(rank.tile.pointer + filled, rank.tile.pointer, count)
            filled += count
        rank.tile_of = source
        return rank.tile.pointer

    def _count_wrong_of(self, shape: Shape, rank: _Rank, placement: str) -> int:
        self._cuda.call("cudaSetDevice", rank.index)
        self._cuda.call("cudaMemset", rank.differences, 0, 8)
        pointer, width = self._output(shape, rank, placement), self._settings.element_bytes
        for piece in result_of(shape, rank.index):
            self._compare(rank, pointer, piece)
            pointer += piece.count * width
        self._cuda.call("cudaDeviceSynchronize")
        count = ctypes.c_uint64()
        self._cuda.copy(ctypes.addressof(count), rank.differences, 8)
        return count.value

    def _compare(self, rank: _Rank, pointer: int, piece: Piece) -> None:
        tile, width = self._tile(rank, piece.source), self._settings.element_bytes
        for start, elements in _stretches(piece.count, width):
            expected = tile + (piece.offset + start) % PERIOD * width
            self._cuda.launch(rank.kernel, (pointer + start * width, expected, elements, rank.differences))

    # --- collectives ---

    def _operation(self, shape: Shape, placement: str) -> Callable[[], None]:
        """Everything is looked up once: in the loop stand nothing but calls."""
        calls = [call for rank in self._of_rank for call in self._calls(shape, rank, placement)]
        start, end = self._nccl.group_start, self._nccl.group_end

        def operation() -> None:
            start()
            for function, arguments in calls:
                function(*arguments)
            end()

        return operation

    def _calls(self, shape: Shape, rank: _Rank, placement: str) -> list[tuple[Any, tuple[Any, ...]]]:
        nccl, settings, count = self._nccl, self._settings, shape.count
        source = self._input(shape, rank, placement)[0]
        target = self._output(shape, rank, placement)
        kind, redop = _NCCL_TYPES[settings.datatype], _NCCL_REDOPS[settings.redop]
        here = (rank.communicator, rank.stream)
        name = settings.collective
        if name in ("all_reduce", "reduce_scatter"):
            return [(getattr(nccl, name), (source, target, count, kind, redop, *here))]
        if name == "reduce":
            return [(nccl.reduce, (source, target, count, kind, redop, ROOT, *here))]
        if name == "broadcast":
            return [(nccl.broadcast, (source, target, count, kind, ROOT, *here))]
        if name == "all_gather":
            return [(nccl.all_gather, (source, target, count, kind, *here))]
        if name == "alltoall" and int(nccl.get_version()) >= _ALLTOALL_SINCE:
            return [(nccl.allto_all, (source, target, count, kind, *here))]
        return self._messages(shape, rank, source, target)

    def _messages(
        self, shape: Shape, rank: _Rank, source: int, target: int
    ) -> list[tuple[Any, tuple[Any, ...]]]:
        """What nccl-tests makes of sends and receives."""
        name, mine, ranks = self._settings.collective, rank.index, range(self.ranks)
        sends, receives = {
            "sendrecv": ([(mine + 1) % self.ranks], [(mine - 1) % self.ranks]),
            "alltoall": (list(ranks), list(ranks)),
            "gather": ([ROOT], list(ranks) if mine == ROOT else []),
            "scatter": (list(ranks) if mine == ROOT else [], [ROOT]),
        }[name]
        kind = _NCCL_TYPES[self._settings.datatype]
        step = shape.count * self._settings.element_bytes
        here = (rank.communicator, rank.stream)
        return [
            *(
                (self._nccl.send, (source + step * place, shape.count, kind, peer, *here))
                for place, peer in enumerate(sends)
            ),
            *(
                (self._nccl.recv, (target + step * place, shape.count, kind, peer, *here))
                for place, peer in enumerate(receives)
            ),
        ]


def _stretches(count: int, element_bytes: int) -> Iterator[tuple[int, int]]:
    """(start, elements) of the pieces that a tile is long enough for."""
    length = PIECE_BYTES // element_bytes
    for start in range(0, count, length):
        yield start, min(length, count - start)


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def load_libraries() -> tuple[Any, Cuda]:
    from cuda.bindings import driver, runtime  # noqa: PLC0415 - a program's import, which may fail with a sentence
    from nccl.bindings import nccl  # noqa: PLC0415

    return nccl, Cuda(runtime, driver)


def main(arguments: Sequence[str]) -> int:
    settings = parse_arguments(arguments, program="nccl4py_benchmark", backends=("nccl",))
    try:
        nccl, cuda = load_libraries()
        visible = cuda.call("cudaGetDeviceCount")
        if visible < settings.ranks:
            raise RuntimeError(f"{settings.ranks} GPUs are wanted, {visible} are visible")  # noqa: TRY301 - one line for all
        machine = Nccl4pyMachine(nccl, cuda, settings)
        status = measure(settings, machine, Table(TOOL, f"{METHOD_VERSION}/nccl4py-{_version_of('nccl4py')}"))
        machine.close()
    except Exception as error:  # noqa: BLE001 - whatever it is, one line must say so
        say_failure(TOOL, f"{type(error).__name__}: {error}")
        return EXIT_FAILED
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
