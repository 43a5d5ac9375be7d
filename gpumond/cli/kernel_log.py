"""`gpumond kernel-log`: the Xids, SXids and PCIe errors that the kernel has told of, and on which GPU."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpumond import codec
from gpumond.assembly import journal_command
from gpumond.cli.options import add_config_option, load_config
from gpumond.cli.paste import STANDARD_INPUT, read_text
from gpumond.clock import Clock, SystemClock
from gpumond.config.schema import Config
from gpumond.errors import ExitCode, NotEvaluatedError, StoreError
from gpumond.model.identity import PciBusId
from gpumond.model.kernel_log import KernelTally, name_of, tally_of
from gpumond.monitor.kernel_log import newest_first, no_access_hint, read_journal
from gpumond.parsers.kernel_log import events_in_text
from gpumond.process.environment import helper_environment
from gpumond.store.sqlite import Store
from gpumond.topology.printable import printable

HELP = "show the Xids and PCIe errors in the kernel log"

_THIS_BOOT = "the kernel log of this boot"
_DAEMON = "what the daemon has seen"


@dataclass(frozen=True, slots=True)
class KernelLogDocument:
    """What `--json` prints; newest first. `gpus` are the numbers of the accepted GPUs, by PCI bus id."""

    source: str
    events: tuple[KernelTally, ...]
    gpus: Mapping[PciBusId, int]


@dataclass(frozen=True, slots=True)
class _Known:
    """What the store says of this host; `tallies` is None where the daemon has not read the kernel log."""

    gpus: Mapping[PciBusId, int] = field(default_factory=dict)
    tallies: tuple[KernelTally, ...] | None = None


def configure(parser: argparse.ArgumentParser) -> None:
    add_config_option(parser)
    parser.add_argument(
        "--from",
        dest="file",
        metavar="FILE",
        help="read what `dmesg` or `journalctl -k` printed, - for standard input, in place of this host's journal",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def run(arguments: argparse.Namespace) -> int:
    clock = SystemClock()
    config = load_config(arguments.config)
    gpus: Mapping[PciBusId, int] = {}
    if arguments.file is not None:
        source = arguments.file  # somebody else's host: our GPU numbers say nothing about it
        tallies = newest_first(tally_of(it) for it in events_in_text(read_text(source), read_at=clock.now()))
    else:
        known = _read_store(config, clock)
        source, tallies = _of_this_host(config, clock, known)
        gpus = known.gpus
    if arguments.json:
        print(codec.encode(KernelLogDocument(source, tallies, gpus), indent=1).decode())
    else:
        print(
            printable(
                "\n".join(_text("standard input" if source == STANDARD_INPUT else source, tallies, gpus))
            )
        )
    return ExitCode.HEALTHY


def _of_this_host(config: Config, clock: Clock, known: _Known) -> tuple[str, tuple[KernelTally, ...]]:
    """The journal, else what the daemon has read of it. Raises NotEvaluatedError where neither can be read."""
    reading = read_journal(
        journal_command(config), after=None, environment=helper_environment(os.environ), clock=clock
    )
    if reading.entries:
        return _THIS_BOOT, newest_first(reading.tallies)
    if known.tallies is not None:
        return _DAEMON, known.tallies
    detail = reading.failure or "this user sees no kernel messages"
    raise NotEvaluatedError(f"the kernel log cannot be read: {detail}", hint=no_access_hint())


def _read_store(config: Config, clock: Clock) -> _Known:
    """Nothing is known where there is no store, or where it cannot be read."""
    try:
        with Store.open(config.store.directory, clock=clock, read_only=True) as store:
            has_read = store.kernel_log_cursor() is not None
            return _Known(
                gpus={entry.pci_bus_id: entry.number for entry in store.accepted_inventory()},
                tallies=store.kernel_tallies() if has_read else None,
            )
    except StoreError:
        return _Known()


def _text(source: str, tallies: tuple[KernelTally, ...], gpus: Mapping[PciBusId, int]) -> Iterator[str]:
    if not tallies:
        yield f"no Xid, SXid or PCIe error in {source}"
        return
    yield f"{source}:"
    for tally in tallies:
        gpu = gpus.get(tally.pci_bus_id)
        device = tally.pci_bus_id if gpu is None else f"{tally.pci_bus_id} (GPU {gpu})"
        times = (
            "once" if tally.count == 1 else f"{tally.count} times since {tally.first_at:%Y-%m-%d %H:%M:%S}"
        )
        yield (
            f"{tally.last_at:%Y-%m-%d %H:%M:%S}  {tally.level.value:<8}  "
            f"{name_of(tally.kind, tally.code):<14}  {device}  {times}"
        )
        yield f"    {tally.detail}"
