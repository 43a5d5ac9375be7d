"""`python -m gpumond.simulate.journal SCENARIO [JOURNALCTL OPTION ...]`: the kernel log of a made-up host.

The same contract as `journalctl --output=json`. The kernel says that it began, then an Xid 79 for each GPU that has
fallen off the bus.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime

from gpumond.clock import SystemClock
from gpumond.errors import GpumondError
from gpumond.parsers.kernel_log import JournalEntry
from gpumond.simulate.command_line import add_fault_options, elapsed_seconds, scenario_of
from gpumond.simulate.faults import GpuLost
from gpumond.simulate.world import Scenario

_CURSOR = "s=gpumond;i="
_FALLEN = "NVRM: Xid (PCI:{}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def render_journal(scenario: Scenario, elapsed_seconds: float, now: datetime) -> Iterator[JournalEntry]:
    """What the kernel has said by now."""
    yield JournalEntry(f"{_CURSOR}0", now, "Linux version 6.8.0 (made up)")
    lost = [fault for fault in scenario.faults if isinstance(fault, GpuLost)]
    for fault in lost:
        if fault.after_seconds <= elapsed_seconds:
            bus_id = scenario.gpus[fault.gpu].pci_bus_id.rpartition(".")[0]
            yield JournalEntry(f"{_CURSOR}{fault.gpu + 1}", now, _FALLEN.format(bus_id))


def main(arguments: Sequence[str]) -> int:
    options, journalctl = _parser().parse_known_args(arguments)
    clock = SystemClock()
    try:
        entries = list(
            render_journal(
                scenario_of(options.scenario, options), elapsed_seconds(options, clock), clock.now()
            )
        )
    except GpumondError as error:
        sys.stderr.write(error.message + "\n")
        return int(error.exit_code)
    after = next((it.partition("=")[2] for it in journalctl if it.startswith("--after-cursor=")), "")
    for entry in entries[_place_after(entries, after) :]:
        sys.stdout.write(json.dumps(_document(entry)) + "\n")
    return 0


def _place_after(entries: Sequence[JournalEntry], cursor: str) -> int:
    return next((place + 1 for place, entry in enumerate(entries) if entry.cursor == cursor), 0)


def _document(entry: JournalEntry) -> dict[str, str]:
    microseconds = round(entry.at.timestamp() * 1_000_000)
    return {
        "__CURSOR": entry.cursor,
        "__REALTIME_TIMESTAMP": str(microseconds),
        "MESSAGE": entry.message,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpumond.simulate.journal",
        description="print the kernel log of a made-up host as journalctl does",
    )
    parser.add_argument("scenario", metavar="SCENARIO", help="a name or a file")
    add_fault_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
