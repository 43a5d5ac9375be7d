"""`python -m gpumond.simulate.probe SCENARIO`: a snapshot of a made-up host, as `python -m gpumond.probe` prints one.

The same contract: one JSON document on standard output, exit status 0. A fault that hangs really hangs, and then ends
by SIGKILL only; one that crashes really crashes.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from gpumond import codec
from gpumond.clock import SystemClock
from gpumond.errors import GpumondError
from gpumond.simulate.command_line import add_fault_options, elapsed_seconds, hang, scenario_of
from gpumond.simulate.driver import CallDoesNotReturn
from gpumond.simulate.snapshot import render_snapshot


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    clock = SystemClock()
    start, taken_at = clock.monotonic(), clock.now()
    try:
        snapshot = render_snapshot(
            scenario_of(options.scenario, options),
            taken_at=taken_at,
            elapsed_seconds=elapsed_seconds(options, clock),
            with_errors=options.with_errors,
            duration_seconds=clock.monotonic() - start,
        )
    except GpumondError as error:
        sys.stderr.write("\n".join(filter(None, (error.message, error.hint))) + "\n")
        return int(error.exit_code)
    except CallDoesNotReturn as call:
        _crash() if call.is_crash else hang(clock)
    sys.stdout.buffer.write(codec.encode(snapshot) + b"\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpumond.simulate.probe", description="print one snapshot of a made-up host as JSON"
    )
    parser.add_argument("scenario", metavar="SCENARIO", help="a name or a file")
    parser.add_argument("--with-errors", action="store_true", help="with the NVLink error counters")
    add_fault_options(parser)
    return parser


def _crash() -> NoReturn:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
