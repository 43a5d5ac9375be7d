"""What a piece of advice is: a topic, a sentence, and the facts on which it rests. There is none without a fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby


class Topic(StrEnum):
    """In the order in which a person decides."""

    CHECK_FIRST = "check first"
    TENSOR_PARALLEL = "tensor parallel"
    ACROSS = "across groups"
    MEMORY = "memory"
    STRATEGY = "strategy"
    GRADIENT_ACCUMULATION = "gradient accumulation"
    VISIBLE_DEVICES = "visible devices"
    CORES = "cores"
    THREADS = "threads"
    NIC = "network interface"
    LAUNCHER = "launcher"


class Source(StrEnum):
    """Where a fact comes from, so that a reader knows how far to trust it."""

    SNAPSHOT = "snapshot"  # read from this host's driver and sysfs
    TEXT = "text"  # read from what was pasted
    ARITHMETIC = "arithmetic"
    REFERENCE = "reference"  # published, with the place
    ASSUMPTION = "assumption"


@dataclass(frozen=True, slots=True)
class Fact:
    source: Source
    text: str

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("a fact says something")


@dataclass(frozen=True, slots=True)
class Line:
    """`because` is the fact that decides; `also` holds further ones."""

    topic: Topic
    advice: str
    because: Fact
    also: tuple[Fact, ...] = ()

    def __post_init__(self) -> None:
        if not self.advice.strip():
            raise ValueError("a line of advice says something")

    @property
    def facts(self) -> tuple[Fact, ...]:
        return (self.because, *self.also)


def span(names: Sequence[str]) -> str:
    """`GPU0-GPU3, GPU6`: neighbours by number are joined."""
    numbered = [(int(name[3:]), name) for name in names if name.startswith("GPU") and name[3:].isdecimal()]
    if len(numbered) < len(names):
        return ", ".join(names)
    runs = groupby(enumerate(sorted(numbered)), key=lambda item: item[1][0] - item[0])
    return ", ".join(_run([name for _, (_, name) in run]) for _, run in runs)


def _run(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]}-{names[-1]}"


def parameters_told(count: int) -> str:
    """`70B`, as people speak of models."""
    for factor, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if count >= factor:
            return f"{count / factor:.4g}{letter}"
    return str(count)


def gigabytes(count: float) -> str:
    """In 10^9 bytes, as people speak of GPU memory."""
    return f"{count / 1e9:.1f} GB"
