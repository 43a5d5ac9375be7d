"""Every pair of GPUs by itself, then in rounds of disjoint pairs: which link is slow, and whether pairs disturb each other.

    python bench/gpu/pairs.py [BYTES]

One nccl4py process for all GPUs; an all_reduce of two ranks, whose busbw is its algbw. Needs gpumond[nccl-cu13] or
gpumond[nccl-cu12]. Prints a matrix for each way, the seconds, and the spread.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from gpumond.sweep.engines.nccl4py_benchmark import Cuda, load_libraries

BYTES = 1 << 30
ITERATIONS = 20
WARMUP = 5
FLOAT, SUM, STREAM_NON_BLOCKING = 7, 0, 1

Pair = tuple[int, int]


def rounds_of(gpus: int) -> list[tuple[Pair, ...]]:
    """Every pair once, in rounds in which no GPU stands twice (the circle method); of an odd number one rests."""
    seats: list[int | None] = [*range(gpus), *([None] if gpus % 2 else [])]
    rounds = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        facing = zip(seats[:half], reversed(seats[half:]), strict=True)
        rounds.append(tuple((min(a, b), max(a, b)) for a, b in facing if a is not None and b is not None))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return rounds


@dataclass
class Place:
    """What one GPU has."""

    sent: int
    received: int
    stream: int
    started: Any
    ended: Any


class Pairs:
    """All GPUs of this process, with a communicator for each pair that was asked for."""

    def __init__(self, nccl: Any, cuda: Cuda, size_bytes: int) -> None:
        self._nccl, self._cuda, self._bytes = nccl, cuda, size_bytes
        self.gpus = int(cuda.call("cudaGetDeviceCount"))
        self._places = [self._make_place(number) for number in range(self.gpus)]
        self._communicators: dict[Pair, Sequence[Any]] = {}

    def connect(self, pair: Pair) -> float:
        """Seconds that the communicator takes, with its first use."""
        begin = time.perf_counter()
        self._communicators[pair] = self._nccl.comm_init_all(2, list(pair))
        self._run([pair], 1)
        return time.perf_counter() - begin

    def measure(self, pairs: Sequence[Pair]) -> dict[Pair, float]:
        """Bytes per second of each pair, all of them at once."""
        self._run(pairs, WARMUP)
        seconds = self._run(pairs, ITERATIONS)
        return {pair: self._bytes * ITERATIONS / taken for pair, taken in seconds.items()}

    def _run(self, pairs: Sequence[Pair], iterations: int) -> dict[Pair, float]:
        used = [number for pair in pairs for number in pair]
        self._on_each(used, lambda place: self._cuda.call("cudaEventRecord", place.started, place.stream))
        for _ in range(iterations):
            self._nccl.group_start()
            for pair in pairs:
                for number, communicator in zip(pair, self._communicators[pair], strict=True):
                    place = self._places[number]
                    count = self._bytes // 4
                    self._nccl.all_reduce(
                        place.sent, place.received, count, FLOAT, SUM, communicator, place.stream
                    )
            self._nccl.group_end()
        self._on_each(used, lambda place: self._cuda.call("cudaEventRecord", place.ended, place.stream))
        self._on_each(used, lambda place: self._cuda.call("cudaStreamSynchronize", place.stream))
        return {pair: max(self._seconds(number) for number in pair) for pair in pairs}

    def _seconds(self, number: int) -> float:
        place = self._places[number]
        return float(self._cuda.call("cudaEventElapsedTime", place.started, place.ended)) / 1e3

    def _on_each(self, numbers: Sequence[int], act: Any) -> None:
        for number in numbers:
            self._cuda.call("cudaSetDevice", number)
            act(self._places[number])

    def _make_place(self, number: int) -> Place:
        call = self._cuda.call
        call("cudaSetDevice", number)
        return Place(
            sent=int(call("cudaMalloc", self._bytes)),
            received=int(call("cudaMalloc", self._bytes)),
            stream=int(call("cudaStreamCreateWithFlags", STREAM_NON_BLOCKING)),
            started=call("cudaEventCreate"),
            ended=call("cudaEventCreate"),
        )


def matrix(found: dict[Pair, float], gpus: int) -> Iterator[str]:
    yield "GB/s  " + "".join(f"GPU{number:<5}" for number in range(gpus))
    for one in range(gpus):
        cells = (
            "" if one == other else f"{found[min(one, other), max(one, other)] / 1e9:.1f}"
            for other in range(gpus)
        )
        yield f"GPU{one:<3}" + "".join(f"{cell:<8}" for cell in cells)


def summary(name: str, found: dict[Pair, float], seconds: float) -> str:
    values = [value / 1e9 for value in found.values()]
    spread = (max(values) - min(values)) / statistics.median(values)
    return (
        f"{name}: {len(found)} pairs in {seconds:.2f} s, {min(values):.1f} to {max(values):.1f} GB/s, "
        f"median {statistics.median(values):.1f}, spread {spread:.2%}"
    )


def main() -> None:
    size_bytes = int(sys.argv[1]) if len(sys.argv) > 1 else BYTES
    nccl, cuda = load_libraries()
    pairs = Pairs(nccl, cuda, size_bytes)
    names = list(combinations(range(pairs.gpus), 2))
    connects = [pairs.connect(pair) for pair in names]
    print(f"{pairs.gpus} GPUs, {size_bytes} bytes, NCCL {nccl.get_version()}")
    print(
        f"a communicator with its first use: {min(connects):.3f} to {max(connects):.3f} s, {sum(connects):.2f} s in all"
    )
    begin = time.perf_counter()
    alone: dict[Pair, float] = {}
    for pair in names:
        alone |= pairs.measure([pair])
    print("\n".join(matrix(alone, pairs.gpus)))
    print(summary("one after the other", alone, time.perf_counter() - begin))
    begin = time.perf_counter()
    together: dict[Pair, float] = {}
    for chosen in rounds_of(pairs.gpus):
        together |= pairs.measure(chosen)
    print("\n".join(matrix(together, pairs.gpus)))
    print(summary("in rounds of disjoint pairs", together, time.perf_counter() - begin))
    ratios = [together[pair] / alone[pair] for pair in names]
    print(f"together against alone: {min(ratios):.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main()
