"""Collectives of torch.distributed, measured and printed as nccl-tests does it: one process a GPU.

    PYTHON torch_benchmark.py --collective all_reduce -b 67108864 -e 2147483648 -f 2 -g 8

One file, and nothing but torch and the standard library: it runs in the users' own environment, where there is no
gpumond, and it can be copied into a container. Without RANK in the environment it starts the `-g` processes itself;
with it, it is one of them, so that torchrun and srun can start it too. Everything but `TorchMachine` and the launcher
serves nccl4py_benchmark.py as well.

Size, algbw and busbw are nccl-tests' (doc/PERFORMANCE.md). Data are checked before they are timed. A size is printed
only where one iteration takes at least LAUNCH_FACTOR times what its launch costs: below that, Python is measured.
Python 3.9 is the oldest that must run this.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

METHOD_VERSION = "1"
"""Changes when numbers of two versions must not be compared."""

LAUNCH_FACTOR = 10
LAUNCH_BATCHES = 5
LAUNCHES_PER_BATCH = 20

ROOT = 0

PERIOD = 8191
"""Elements until the test data repeat. Prime, so that a block in the wrong place shows."""

PRODUCT_RANKS_MAX = 15
"""Ranks that may send a 2: half holds no 2 to the power of 16."""

ALIGNMENT_BYTES = 16
MEMORY_SHARE = 0.9
"""Of the free memory; NCCL takes its own buffers from the rest."""

POISON = 101
"""What stands in a receive buffer before: the right data of the last size must not pass for those of this one."""

PIECE_BYTES = 64 << 20
"""Elements are compared in pieces of this size, so that the comparison needs little memory."""

ELEMENT_BYTES = {
    "int8": 1,
    "uint8": 1,
    "half": 2,
    "bfloat16": 2,
    "int32": 4,
    "float": 4,
    "int64": 8,
    "double": 8,
}
REDOPS = ("sum", "prod", "min", "max", "avg")

IN_PLACE, OUT_OF_PLACE = "in-place", "out-of-place"

EXIT_FAILED = 3
EXIT_USAGE = 2
EXIT_WRONG = 7
"""As nccl-tests ends."""

_PR_SET_PDEATHSIG = 1


# --- what is measured ---


@dataclass(frozen=True)
class Traits:
    """One collective: busbw / algbw for n ranks, whether its size counts the shares of all ranks, whether it reduces."""

    busbw_factor: Callable[[int], float]
    counts_every_rank: bool = False
    reduces: bool = False
    has_root: bool = False


def _one(_ranks: int) -> float:
    return 1.0


def _others(ranks: int) -> float:
    return (ranks - 1) / ranks


def _twice_others(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


COLLECTIVES = {
    "all_reduce": Traits(_twice_others, reduces=True),
    "all_gather": Traits(_others, counts_every_rank=True),
    "reduce_scatter": Traits(_others, counts_every_rank=True, reduces=True),
    "alltoall": Traits(_others, counts_every_rank=True),
    "broadcast": Traits(_one, has_root=True),
    "reduce": Traits(_one, reduces=True, has_root=True),
    "sendrecv": Traits(_one),
    "gather": Traits(_others, counts_every_rank=True, has_root=True),
    "scatter": Traits(_others, counts_every_rank=True, has_root=True),
}


@dataclass(frozen=True)
class Settings:
    """The command line."""

    collective: str
    datatype: str
    redop: str
    min_bytes: int
    max_bytes: int
    step_factor: int
    warmup_iterations: int
    iterations: int
    is_checked: bool
    is_sanity: bool
    ranks: int
    backend: str

    @property
    def traits(self) -> Traits:
        return COLLECTIVES[self.collective]

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[self.datatype]


@dataclass(frozen=True)
class Shape:
    """One row: `count` elements as nccl-tests counts them, a share where the size is that of all shares together."""

    settings: Settings
    count: int
    ranks: int

    @property
    def size_bytes(self) -> int:
        shares = self.ranks if self.settings.traits.counts_every_rank else 1
        return self.count * shares * self.settings.element_bytes

    def send_count(self, rank: int) -> int:
        """Elements of the buffer that `rank` sends from."""
        name = self.settings.collective
        if name in ("reduce_scatter", "alltoall"):
            return self.count * self.ranks
        if name == "scatter":
            return self.count * self.ranks if rank == ROOT else 0
        if name == "broadcast":
            return self.count if rank == ROOT else 0
        return self.count

    def receive_count(self, rank: int) -> int:
        """Elements of the buffer that `rank` receives into."""
        name = self.settings.collective
        if name in ("all_gather", "alltoall"):
            return self.count * self.ranks
        if name == "gather":
            return self.count * self.ranks if rank == ROOT else 0
        if name == "reduce":
            return self.count if rank == ROOT else 0
        return self.count


def shape_of(settings: Settings, ranks: int, size_bytes: int) -> Shape:
    """The row that nccl-tests makes of a requested size: shares are whole multiples of 16 bytes."""
    if settings.traits.counts_every_rank:
        share = size_bytes // ranks // ALIGNMENT_BYTES * ALIGNMENT_BYTES
        return Shape(settings, share // settings.element_bytes, ranks)
    return Shape(settings, size_bytes // settings.element_bytes, ranks)


def shapes_of(settings: Settings, ranks: int, largest_bytes: int) -> Iterator[Shape]:
    """From min_bytes to max_bytes, as far as `largest_bytes` reach."""
    size = settings.min_bytes
    while size <= min(settings.max_bytes, largest_bytes):
        shape = shape_of(settings, ranks, size)
        if shape.count:
            yield shape
        if settings.step_factor < 2:  # noqa: PLR2004 - would never end
            return
        size *= settings.step_factor


# --- test data ---


@dataclass(frozen=True)
class Piece:
    """`count` elements of a result: those that `source` sends from `offset` on, or, where it is None, what the
    reduction makes of every rank's elements there."""

    source: int | None
    offset: int
    count: int


def result_of(shape: Shape, rank: int) -> list[Piece]:
    """What `rank` must have received, in order; empty where it receives nothing."""
    name, count, ranks = shape.settings.collective, shape.count, shape.ranks
    if name in ("gather", "reduce") and rank != ROOT:
        return []
    if name in ("all_gather", "gather"):
        return [Piece(source, 0, count) for source in range(ranks)]
    if name == "alltoall":
        return [Piece(source, rank * count, count) for source in range(ranks)]
    source = {"sendrecv": (rank - 1) % ranks, "broadcast": ROOT, "scatter": ROOT}.get(name)
    return [Piece(source, rank * count if name in ("reduce_scatter", "scatter") else 0, count)]


def sent_values(settings: Settings, rank: int, ranks: int) -> list[int]:
    """One period of what `rank` sends: whole numbers so small that no type rounds a sum of them."""
    if settings.is_sanity:
        return [rank] * PERIOD
    spread = max(2, min(8, 127 // ranks))
    lowest = 0
    if settings.redop == "prod":
        spread, lowest = (2 if rank < PRODUCT_RANKS_MAX else 1), 1
    # Neighbouring blocks must differ, and ranks; the same numbers in every process.
    return random.Random(rank).choices(range(lowest, lowest + spread), k=PERIOD)  # noqa: S311 - no secret


def reduced_values(settings: Settings, ranks: int) -> list[int]:
    """One period of what the reduction makes of every rank's values."""
    reduced = sent_values(settings, 0, ranks)
    for rank in range(1, ranks):
        others = sent_values(settings, rank, ranks)
        reduced = [_reduce(settings.redop, one, other) for one, other in zip(reduced, others)]  # noqa: B905 - Python 3.9
    return reduced


def _reduce(redop: str, one: int, other: int) -> int:
    if redop == "prod":
        return one * other
    if redop == "min":
        return min(one, other)
    return max(one, other) if redop == "max" else one + other


def values_of(settings: Settings, source: int | None, ranks: int) -> list[int]:
    """One period of a `Piece`; whole numbers wrap where the type does."""
    values = reduced_values(settings, ranks) if source is None else sent_values(settings, source, ranks)
    if settings.datatype in ("int8", "uint8"):
        low = 128 if settings.datatype == "int8" else 0
        return [(value + low) % 256 - low for value in values]
    return values


# --- what runs it ---


@dataclass(frozen=True)
class Device:
    """The GPU of one rank, or what stands for it."""

    rank: int
    pid: int
    index: int
    pci_bus_id: str
    name: str


class Machine(Protocol):
    """The ranks, their buffers and their clock. Every rank's process makes the same calls in the same order."""

    @property
    def ranks(self) -> int: ...

    @property
    def is_reporter(self) -> bool:
        """Whether this process prints."""
        ...

    def about(self) -> list[str]:
        """What was loaded, from where: lines without their mark."""
        ...

    def devices(self) -> list[Device]: ...

    def placements(self) -> tuple[str, ...]:
        """What this library has of the collective; not every one has both."""
        ...

    def largest_bytes(self) -> int:
        """The largest size that every rank has memory for."""
        ...

    def prepare(self, shape: Shape, placement: str) -> Callable[[], None]:
        """Fill the buffers of every rank here. Returns what starts the collective once."""
        ...

    def count_wrong(self, shape: Shape, placement: str) -> int:
        """Elements on all ranks that are not what they must be."""
        ...

    def time(self, operation: Callable[[], None], iterations: int) -> float:
        """Seconds of one iteration, the average of all ranks."""
        ...

    def launch_seconds(self, operation: Callable[[], None]) -> float:
        """What one call costs the process that makes it; that of the slowest rank."""
        ...


def measure(settings: Settings, machine: Machine, table: Table) -> int:
    """Measure every size and print it. Returns the exit status."""
    table.open(settings, machine)
    largest = machine.largest_bytes()
    if largest < settings.max_bytes:
        table.note(f"Reducing maxBytes to {largest} due to memory limitation")
    table.head()
    launch = _launch_seconds(settings, machine)
    for shape in shapes_of(settings, machine.ranks, largest):
        cells = [_measure_placement(shape, machine, placement) for placement in machine.placements()]
        shortest = min(cell.seconds for cell in cells)
        if (
            shortest < launch * LAUNCH_FACTOR
            and not settings.is_sanity
            and not any(cell.wrong for cell in cells)
        ):
            table.note(
                f"size {shape.size_bytes}: left out, an iteration takes {shortest * 1e6:.1f} us and its launch "
                f"{launch * 1e6:.1f} us"
            )
        else:
            table.row(shape, cells)
    return table.close()


def _launch_seconds(settings: Settings, machine: Machine) -> float:
    shape = shape_of(settings, machine.ranks, ALIGNMENT_BYTES * machine.ranks)
    operation = machine.prepare(shape, machine.placements()[0])
    machine.time(operation, LAUNCHES_PER_BATCH)  # the first ones connect, which takes long
    return machine.launch_seconds(operation)


def _measure_placement(shape: Shape, machine: Machine, placement: str) -> Cell:
    settings = shape.settings
    operation = machine.prepare(shape, placement)
    wrong = None
    if settings.is_checked and settings.redop != "avg":
        operation()
        wrong = machine.count_wrong(shape, placement)
    if settings.warmup_iterations:
        machine.time(operation, settings.warmup_iterations)
    return Cell(machine.time(operation, settings.iterations), wrong)


# --- nccl-tests' text ---


@dataclass(frozen=True)
class Cell:
    """One placement of one row; `wrong` is None where it was not checked."""

    seconds: float
    wrong: int | None


class Table:
    """Prints a run as nccl-tests prints one, on the one process that reports."""

    def __init__(self, tool: str, tool_version: str, *, is_silent: bool = False) -> None:
        self._tool = tool
        self._tool_version = tool_version
        self._is_silent = is_silent
        self._placements: tuple[str, ...] = ()
        self._program = ""
        self._busbw: list[float] = []
        self._wrong_cells = 0

    def open(self, settings: Settings, machine: Machine) -> None:
        self._placements = machine.placements()
        self._program = f"{settings.collective}_perf"
        self.note(f"{self._tool} version {self._tool_version}")
        for line in machine.about():
            self.note(line)
        self.note(f"Collective test starting: {self._program}")
        self.note(
            f"nThread 1 nGpus {machine.ranks} minBytes {settings.min_bytes} maxBytes {settings.max_bytes} "
            f"step: {settings.step_factor}(factor) warmup iters: {settings.warmup_iterations} "
            f"iters: {settings.iterations} agg iters: 1 validation: {int(settings.is_checked)} graph: 0"
        )
        self.note("")
        self.note("Using devices")
        host = socket.gethostname().partition(".")[0]
        for device in machine.devices():
            self.note(
                f" Rank {device.rank:2} Group  0 Pid {device.pid:6} on {host:>10} device {device.index:2} "
                f"[{device.pci_bus_id}] {device.name}"
            )

    def head(self) -> None:
        self.note("")
        self.note(f"{'':50}" + "".join(f"{placement:>38}" for placement in self._placements))
        each = (("time", 7), ("algbw", 6), ("busbw", 6), ("#wrong", 6)) * len(self._placements)
        left = (("size", 10), ("count", 12), ("type", 8), ("redop", 6), ("root", 6))
        self.note(" " + "  ".join(f"{name:>{width}}" for name, width in (*left, *each)))
        units = (("(us)", 7), ("(GB/s)", 6), ("(GB/s)", 6), ("", 6)) * len(self._placements)
        left = (("(B)", 10), ("(elements)", 12), ("", 8), ("", 6), ("", 6))
        self.note(" " + "  ".join(f"{name:>{width}}" for name, width in (*left, *units)))

    def row(self, shape: Shape, cells: Sequence[Cell]) -> None:
        settings = shape.settings
        redop = settings.redop if settings.traits.reduces else "none"
        root = ROOT if settings.traits.has_root else -1
        line = f"{shape.size_bytes:12}  {shape.count:12}  {settings.datatype:>8}  {redop:>6}  {root:>6}"
        for cell in cells:
            algbw = shape.size_bytes / cell.seconds / 1e9
            busbw = algbw * settings.traits.busbw_factor(shape.ranks)
            self._busbw.append(busbw)
            self._wrong_cells += bool(cell.wrong)
            wrong = "N/A" if cell.wrong is None else f"{float(cell.wrong):g}"
            line += (
                f"  {_fitted(cell.seconds * 1e6, 7)}  {_fitted(algbw, 6)}  {_fitted(busbw, 6)}  {wrong:>6}"
            )
        self._print(line)

    def close(self) -> int:
        """The last lines; returns the exit status that they mean."""
        average = sum(self._busbw) / len(self._busbw) if self._busbw else 0.0
        self.note(f"Out of bounds values : {self._wrong_cells} {'FAILED' if self._wrong_cells else 'OK'}")
        self.note(f"Avg bus bandwidth    : {average:g} ")
        self.note("")
        self.note(f"Collective test concluded: {self._program}")
        return EXIT_WRONG if self._wrong_cells else 0

    def note(self, text: str) -> None:
        self._print(f"# {text}".rstrip())

    def _print(self, line: str) -> None:
        if not self._is_silent:
            say(line)


def _fitted(value: float, width: int) -> str:
    """As many decimals as fit, two at most; an exponent where not even the digits do."""
    for decimals in (2, 1, 0):
        text = f"{value:.{decimals}f}"
        if len(text) <= width:
            return text.rjust(width)
    return f"{value:.1e}".rjust(width)


def say(line: str) -> None:
    """Print a line now: whoever reads follows the run."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def say_failure(tool: str, what: str) -> None:
    """The line by which the parser knows that a run ended before its time; one line, whatever an exception says."""
    say(f"# {tool} failed: {' '.join(what.split())[:300]}")


# --- the command line ---


def parse_arguments(arguments: Sequence[str], *, program: str, backends: Sequence[str]) -> Settings:
    parser = argparse.ArgumentParser(prog=program, allow_abbrev=False)
    parser.add_argument("--collective", required=True, choices=sorted(COLLECTIVES))
    parser.add_argument("--backend", default=backends[0], choices=backends)
    parser.add_argument(
        "--sanity",
        dest="is_sanity",
        action="store_true",
        help="every rank sends its number, and must see the sum of all",
    )
    parser.add_argument("-b", dest="min_bytes", type=_at_least(1), default=64 << 20, metavar="BYTES")
    parser.add_argument("-e", dest="max_bytes", type=_at_least(1), default=2 << 30, metavar="BYTES")
    parser.add_argument("-f", dest="step_factor", type=_at_least(1), default=2, metavar="TIMES")
    parser.add_argument("-g", dest="ranks", type=_at_least(1), default=1, metavar="GPUS")
    parser.add_argument("-w", dest="warmup_iterations", type=_at_least(0), default=5, metavar="N")
    parser.add_argument("-n", dest="iterations", type=_at_least(1), default=20, metavar="N")
    parser.add_argument("-c", dest="is_checked", type=int, choices=(0, 1), default=1)
    parser.add_argument("-d", dest="datatype", choices=ELEMENT_BYTES, default="float")
    parser.add_argument("-o", dest="redop", choices=REDOPS, default="sum")
    known = parser.parse_args(arguments)
    if known.min_bytes > known.max_bytes:
        parser.error(f"-b {known.min_bytes} is more than -e {known.max_bytes}")
    if known.is_sanity and (known.collective, known.redop) != ("all_reduce", "sum"):
        parser.error("--sanity is an all_reduce with sum")
    return Settings(**{**vars(known), "is_checked": bool(known.is_checked)})


def _at_least(lowest: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if value < lowest:
            raise argparse.ArgumentTypeError(f"{value} is less than {lowest}")
        return value

    return number


# --- torch ---

TOOL = "gpumond-torch"

_TORCH_TYPES = {
    "int8": "int8",
    "uint8": "uint8",
    "half": "float16",
    "bfloat16": "bfloat16",
    "int32": "int32",
    "float": "float32",
    "int64": "int64",
    "double": "float64",
}
_TORCH_REDOPS = {"sum": "SUM", "prod": "PRODUCT", "min": "MIN", "max": "MAX", "avg": "AVG"}

_ONLY_IN_PLACE = frozenset(("all_reduce", "broadcast", "reduce"))
"""torch has no other form of these."""


class TorchMachine:
    """This process's rank of a torch.distributed world."""

    def __init__(self, torch: Any, settings: Settings) -> None:
        self._torch = torch
        self._dist = torch.distributed
        self._settings = settings
        self._rank = self._dist.get_rank()
        self._ranks = self._dist.get_world_size()
        self._is_cuda = settings.backend == "nccl"
        self._device = (
            torch.device("cuda", torch.cuda.current_device()) if self._is_cuda else torch.device("cpu")
        )
        self._type = getattr(torch, _TORCH_TYPES[settings.datatype])
        self._redop = getattr(self._dist.ReduceOp, _TORCH_REDOPS[settings.redop])
        self._buffers: dict[str, Any] = {}
        self._tiles: dict[int | None, Any] = {}

    @property
    def ranks(self) -> int:
        return int(self._ranks)

    @property
    def is_reporter(self) -> bool:
        return bool(self._rank == 0)

    def about(self) -> list[str]:
        torch = self._torch
        place = Path(torch.__file__).parent
        lines = [f"torch {torch.__version__} at {place}, Python {sys.version.split()[0]}"]
        if self._is_cuda:
            code = torch.cuda.nccl.version()
            version = ".".join(map(str, code)) if isinstance(code, tuple) else str(code)
            lines.append(f"NCCL version {version}")
            lines += [f"library {path}" for path in _loaded_libraries(("libnccl", "librccl"))]
        return lines

    def devices(self) -> list[Device]:
        pids = self._gathered(os.getpid())
        buses = self._gathered(self._bus_number())
        name = self._torch.cuda.get_device_name(self._device) if self._is_cuda else "CPU"
        return [
            Device(rank, int(pids[rank]), self._index_of(rank), _bus_text(int(buses[rank])), name)
            for rank in range(self.ranks)
        ]

    def placements(self) -> tuple[str, ...]:
        return (IN_PLACE,) if self._settings.collective in _ONLY_IN_PLACE else (OUT_OF_PLACE,)

    def largest_bytes(self) -> int:
        if not self._is_cuda:
            return self._settings.max_bytes
        free, _total = self._torch.cuda.mem_get_info(self._device)
        room = int((free - 3 * PIECE_BYTES) * MEMORY_SHARE) // (len(_buffers_of(self._settings)))
        return int(min(self._gathered(room)))

    def prepare(self, shape: Shape, placement: str) -> Callable[[], None]:
        received = self._buffer("received", shape.receive_count(self._rank))
        if placement == IN_PLACE:
            # One buffer, also on the ranks that only send.
            received = self._buffer("received", shape.count)
            self._fill(received)
            return self._in_place_operation(received)
        sent = self._buffer("sent", shape.send_count(self._rank))
        self._fill(sent)
        received.fill_(POISON)
        return self._out_of_place_operation(sent, received)

    def count_wrong(self, shape: Shape, placement: str) -> int:  # noqa: ARG002 - a Machine may need it
        received = self._buffer("received", shape.receive_count(self._rank))
        wrong, start = 0, 0
        for piece in result_of(shape, self._rank):
            wrong += self._differences(received[start : start + piece.count], piece)
            start += piece.count
        return int(sum(self._gathered(wrong)))

    def time(self, operation: Callable[[], None], iterations: int) -> float:
        self._meet()
        if not self._is_cuda:
            begin = time.perf_counter()
            for _ in range(iterations):
                operation()
            seconds = (time.perf_counter() - begin) / iterations
        else:
            start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(iterations):
                operation()
            end.record()
            end.synchronize()
            seconds = start.elapsed_time(end) / 1e3 / iterations
        return sum(self._gathered(seconds)) / self.ranks

    def launch_seconds(self, operation: Callable[[], None]) -> float:
        batches = []
        for _ in range(LAUNCH_BATCHES):
            self._meet()
            begin = time.perf_counter()
            for _ in range(LAUNCHES_PER_BATCH):
                operation()
            batches.append((time.perf_counter() - begin) / LAUNCHES_PER_BATCH)
        return max(self._gathered(min(batches)))  # whatever disturbs a batch only adds to it

    def _in_place_operation(self, buffer: Any) -> Callable[[], None]:
        dist, redop = self._dist, self._redop
        if self._settings.collective == "all_reduce":
            return lambda: dist.all_reduce(buffer, redop)
        if self._settings.collective == "reduce":
            return lambda: dist.reduce(buffer, ROOT, redop)
        return lambda: dist.broadcast(buffer, ROOT)

    def _out_of_place_operation(self, sent: Any, received: Any) -> Callable[[], None]:
        dist, redop, name = self._dist, self._redop, self._settings.collective
        if name == "all_gather":
            return lambda: dist.all_gather_into_tensor(received, sent)
        if name == "reduce_scatter":
            return lambda: dist.reduce_scatter_tensor(received, sent, redop)
        if name == "alltoall":
            return lambda: dist.all_to_all_single(received, sent)
        if name == "gather":
            parts = list(received.chunk(self.ranks)) if self._rank == ROOT else None
            return lambda: dist.gather(sent, parts, ROOT)
        if name == "scatter":
            parts = list(sent.chunk(self.ranks)) if self._rank == ROOT else None
            return lambda: dist.scatter(received, parts, ROOT)
        return self._exchange(sent, received)

    def _exchange(self, sent: Any, received: Any) -> Callable[[], None]:
        dist = self._dist
        after, before = (self._rank + 1) % self.ranks, (self._rank - 1) % self.ranks
        operations = [dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, received, before)]

        def exchange() -> None:
            for work in dist.batch_isend_irecv(operations):
                work.wait()

        return exchange

    def _buffer(self, name: str, count: int) -> Any:
        """The first `count` elements of a buffer that only grows."""
        if name not in self._buffers or self._buffers[name].numel() < count:
            self._buffers.pop(name, None)  # first, or both would need memory at once
            self._buffers[name] = self._torch.empty(count, dtype=self._type, device=self._device)
        return self._buffers[name][:count]

    def _tile(self, source: int | None) -> Any:
        """Many periods of values, from which any stretch can be cut."""
        if source not in self._tiles:
            values = values_of(self._settings, source, self.ranks)
            block = self._torch.tensor(values, dtype=self._type, device=self._device)
            periods = PIECE_BYTES // self._settings.element_bytes // PERIOD
            self._tiles = {source: block.repeat(periods + 1)}
        return self._tiles[source]

    def _stretches(self, buffer: Any, source: int | None, offset: int) -> Iterator[tuple[Any, Any]]:
        """(a part of the buffer, what belongs there), from start to end."""
        tile = self._tile(source)
        length = tile.numel() - PERIOD
        for start in range(0, buffer.numel(), length):
            part = buffer[start : start + length]
            phase = (offset + start) % PERIOD
            yield part, tile[phase : phase + part.numel()]

    def _fill(self, buffer: Any) -> None:
        for part, values in self._stretches(buffer, self._rank, 0):
            part.copy_(values)

    def _differences(self, buffer: Any, piece: Piece) -> int:
        stretches = self._stretches(buffer, piece.source, piece.offset)
        return sum(int((part != values).sum()) for part, values in stretches)

    def _gathered(self, value: float) -> list[float]:
        """Every rank's value, on every rank."""
        mine = self._torch.tensor([value], dtype=self._torch.float64, device=self._device)
        everyone = [self._torch.empty_like(mine) for _ in range(self.ranks)]
        self._dist.all_gather(everyone, mine)
        return [float(each) for each in everyone]

    def _meet(self) -> None:
        """Nobody goes on before everybody is here, with nothing left to do."""
        self._gathered(0.0)

    def _index_of(self, rank: int) -> int:
        return rank % self._torch.cuda.device_count() if self._is_cuda else rank

    def _bus_number(self) -> int:
        if not self._is_cuda:
            return 0
        about = self._torch.cuda.get_device_properties(self._device)
        parts = [getattr(about, name, 0) for name in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
        return int(parts[0]) << 16 | int(parts[1]) << 8 | int(parts[2])


def _buffers_of(settings: Settings) -> str:
    return "r" if settings.collective in _ONLY_IN_PLACE else "sr"


def _bus_text(number: int) -> str:
    return f"{number >> 16:04x}:{number >> 8 & 0xFF:02x}:{number & 0xFF:02x}"


def _loaded_libraries(names: Sequence[str]) -> list[str]:
    """Where the dynamic loader found the libraries that begin so."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    paths = {line.split(None, 5)[5] for line in maps.splitlines() if "/" in line}
    return sorted(path for path in paths if Path(path).name.startswith(tuple(names)))


# --- processes ---


def run_rank(settings: Settings) -> int:
    """Be the rank that the environment says."""
    if not _die_with_launcher():
        return EXIT_FAILED
    _forget_own_directory()
    try:
        import torch  # noqa: PLC0415 - nccl4py_benchmark.py uses this file without it
        import torch.distributed  # noqa: PLC0415
    except ImportError as error:
        say_failure(TOOL, f"{sys.executable} has no torch: {error}")
        return EXIT_FAILED
    rank = int(os.environ["RANK"])
    try:
        _join(torch, settings, rank)
        table = Table(TOOL, f"{METHOD_VERSION}/torch-{torch.__version__}", is_silent=rank != 0)
        status = measure(settings, TorchMachine(torch, settings), table)
        torch.distributed.destroy_process_group()
    except Exception as error:  # noqa: BLE001 - whatever it is, one line must say so
        say_failure(TOOL, f"rank {rank}: {type(error).__name__}: {error}")
        return EXIT_FAILED
    return status


def _die_with_launcher() -> bool:
    """A rank without its launcher would wait for the others for ever. False where it is gone already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.environ.get("GPUMOND_LAUNCHER", str(os.getppid())) == str(os.getppid())


def _forget_own_directory() -> None:
    """Python looks beside a program first, and beside this one stands a module called torch."""
    own = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != own]


def _join(torch: Any, settings: Settings, rank: int) -> None:
    """Make the world. A file instead of a port: no other process can be in the way."""
    options: dict[str, Any] = {}
    if settings.backend == "nccl":
        if not torch.cuda.is_available():
            raise RuntimeError(f"torch {torch.__version__} sees no GPU")
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)))
        torch.cuda.set_device(device)
        options["device_id"] = device  # connects now, not in the first collective
    if "MASTER_ADDR" not in os.environ:
        options |= {
            "init_method": f"file://{os.environ['GPUMOND_RENDEZVOUS']}",
            "rank": rank,
            "world_size": int(os.environ["WORLD_SIZE"]),
        }
    torch.distributed.init_process_group(settings.backend, **options)


def launch(settings: Settings, arguments: Sequence[str]) -> int:
    """Start a process for each rank and wait for all; the first that fails ends the others.

    Not torchrun: it imports torch before it starts the ranks, and takes 13 s where this takes none (MEASURED.md).
    """
    with tempfile.TemporaryDirectory(prefix="gpumond-torch-") as directory:
        environment = dict(os.environ)
        environment.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does: ranks share the cores
        environment |= {
            "WORLD_SIZE": str(settings.ranks),
            "LOCAL_WORLD_SIZE": str(settings.ranks),
            "GPUMOND_LAUNCHER": str(os.getpid()),
            "GPUMOND_RENDEZVOUS": f"{directory}/rendezvous",
        }
        command = [sys.executable, str(Path(__file__).resolve()), *arguments]
        pids = {
            os.posix_spawn(
                sys.executable, command, {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            )
            for rank in range(settings.ranks)
        }
        return _wait_for(pids)


def _wait_for(pids: set[int]) -> int:
    """The exit status of the first that did not end with 0, or 0."""
    worst = 0
    while pids:
        pid, status = os.wait()
        pids.discard(pid)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        if code and not worst:
            worst = code
            for other in pids:
                os.kill(other, signal.SIGKILL)
    return worst


def main(arguments: Sequence[str]) -> int:
    settings = parse_arguments(arguments, program="torch_benchmark.py", backends=("nccl", "gloo"))
    if "RANK" in os.environ:
        return run_rank(settings)
    return launch(settings, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
