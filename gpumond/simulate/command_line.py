"""What the simulator's programs have in common: which host, with which faults, how long after it began."""

from __future__ import annotations

import argparse
import signal
from typing import NoReturn

from gpumond.clock import Clock
from gpumond.simulate.hardware import struck
from gpumond.simulate.scenario import load_with_faults
from gpumond.simulate.world import Scenario

_NAP_SECONDS = 3600.0


def add_fault_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fault", action="append", default=[], metavar="KIND,KEY=VALUE,...")
    parser.add_argument(
        "--started-at",
        type=float,
        metavar="SECONDS",
        help="UNIX time of the simulation's start, from which faults with after_seconds count; without it all are due",
    )


def scenario_of(name_or_path: str, options: argparse.Namespace) -> Scenario:
    """The scenario with the faults of the command line. Raises UsageError."""
    return load_with_faults(name_or_path, options.fault)


def elapsed_seconds(options: argparse.Namespace, clock: Clock) -> float:
    return float("inf") if options.started_at is None else clock.now().timestamp() - options.started_at


def world_of(name_or_path: str, options: argparse.Namespace, clock: Clock) -> Scenario:
    """The host as it is now: faults that are due have struck or stand in it."""
    return struck(scenario_of(name_or_path, options), elapsed_seconds(options, clock))


def hang(clock: Clock) -> NoReturn:
    """Only SIGKILL ends this."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        clock.sleep(_NAP_SECONDS)
