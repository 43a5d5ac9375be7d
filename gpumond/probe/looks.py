"""The lines of a watch child, and its options: what the real one and the simulated one have in common. Knows no driver."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from io import RawIOBase

from gpumond import codec
from gpumond.clock import Clock
from gpumond.model.watch import WatchLook, WatchTarget

LOOK_SECONDS = 0.1
"""Twice as often as the 5 Hz that are promised: a new process shows 0.4 s after its start whatever we do (measured)."""

LOOKS_PER_LOAD = 5
"""The load at 2 Hz."""


def add_watch_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("targets", nargs="+", type=WatchTarget.parse, metavar="UUID@PCI_BUS_ID")
    parser.add_argument("--interval-seconds", type=float, default=LOOK_SECONDS, metavar="SECONDS")


def print_looks(
    look: Callable[[bool], WatchLook], stream: RawIOBase, clock: Clock, *, interval_seconds: float
) -> None:
    """A line a look, with the load where `look` is asked for it, until the reader is gone."""
    number = 0
    while True:
        began = clock.monotonic()
        line = codec.encode(look(number % LOOKS_PER_LOAD == 0)) + b"\n"
        try:
            stream.write(line)
        except BrokenPipeError:
            return
        number += 1
        clock.sleep(max(0.0, began + interval_seconds - clock.monotonic()))
