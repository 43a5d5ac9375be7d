"""The command line of nccl-tests, as far as the simulated benchmark obeys it. Pure."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

MIB = 1 << 20
DEFAULT_BYTES = 32 * MIB

DATATYPE_BYTES = {
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "half": 2,
    "float": 4,
    "double": 8,
    "bfloat16": 2,
    "f8e4m3": 1,
    "f8e5m2": 1,
}
REDOPS = ("sum", "prod", "max", "min", "avg", "mulsum")
EVERY = "all"

_SIZE = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
_UNIT_BITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


class UnknownOptionError(Exception):
    """An option that this build does not know."""


@dataclass(frozen=True, slots=True)
class Options:
    """A parsed command line. `step_factor` 1 means steps of `step_bytes`. `notices` were printed while parsing."""

    threads: int
    gpus_per_thread: int
    min_bytes: int
    max_bytes: int
    step_bytes: int
    step_factor: int
    iterations: int
    aggregated_iterations: int
    warmup_iterations: int
    cycles: int
    checks: int
    redops: tuple[str, ...]
    datatypes: tuple[str, ...]
    root: int
    notices: tuple[str, ...]

    @property
    def ranks(self) -> int:
        return self.threads * self.gpus_per_thread

    @property
    def step_text(self) -> str:
        return f"{self.step_factor}(factor)" if self.step_factor > 1 else f"{self.step_bytes}(bytes)"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UnknownOptionError(message)


def parse(arguments: Sequence[str]) -> Options:
    """Raises UnknownOptionError."""
    it = _parser().parse_args(arguments)
    datatypes, type_notices = _chosen(it.datatype, tuple(DATATYPE_BYTES), "type", "float")
    redops, redop_notices = _chosen(it.op, REDOPS, "op", "sum")
    return Options(
        threads=it.nthreads,
        gpus_per_thread=it.ngpus,
        min_bytes=it.minbytes,
        max_bytes=it.maxbytes,
        step_bytes=it.stepbytes,
        step_factor=it.stepfactor,
        iterations=it.iters,
        aggregated_iterations=it.agg_iters,
        warmup_iterations=it.warmup_iters,
        cycles=it.run_cycles,
        checks=it.check,
        redops=redops,
        datatypes=datatypes,
        root=it.root,
        notices=type_notices + redop_notices,
    )


def usage(program: str) -> str:
    return f"USAGE: {_parser(program).format_usage().removeprefix('usage: ')}"


def size_in_bytes(text: str) -> int:
    """`8`, `64K`, `1M`, `2G`. Raises ValueError."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return int(match[1]) << _UNIT_BITS[match[2].upper()]


def _chosen(
    name: str, known: tuple[str, ...], word: str, default: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """An unknown name is replaced by the default, with a notice, and the run goes on: so does the real program."""
    if name == EVERY:
        return known, ()
    if name in known:
        return (name,), ()
    return (default,), (f"invalid {word} {name}, defaulting to {default} .. ",)


def _parser(program: str = "") -> _Parser:
    parser = _Parser(prog=program, allow_abbrev=False, add_help=False)
    for letter, name, default in (
        ("-b", "--minbytes", DEFAULT_BYTES),
        ("-e", "--maxbytes", DEFAULT_BYTES),
        ("-i", "--stepbytes", MIB),
    ):
        parser.add_argument(letter, name, type=size_in_bytes, default=default)
    for letter, name, number in (
        ("-t", "--nthreads", 1),
        ("-g", "--ngpus", 1),
        ("-f", "--stepfactor", 1),
        ("-n", "--iters", 20),
        ("-m", "--agg_iters", 1),
        ("-w", "--warmup_iters", 1),
        ("-N", "--run_cycles", 1),
        ("-c", "--check", 1),
        ("-r", "--root", 0),
        ("-p", "--parallel_init", 0),
        ("-T", "--timeout", 0),
        ("-z", "--blocking", 0),
    ):
        parser.add_argument(letter, name, type=int, default=number)
    parser.add_argument("-o", "--op", default="sum")
    parser.add_argument("-d", "--datatype", default="float")
    return parser
