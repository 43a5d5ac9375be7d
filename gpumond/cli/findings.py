"""`gpumond findings`: the faults that somebody should look at. Reads what the daemon has judged."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

from gpumond import codec
from gpumond.cli.options import add_config_option, load_config
from gpumond.clock import SystemClock
from gpumond.errors import ExitCode
from gpumond.model.change import Level
from gpumond.model.finding import Finding, FindingsDocument
from gpumond.store.sqlite import Store
from gpumond.topology.printable import printable

HELP = "show open findings"

_LIMIT = 100


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="closed ones too")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    add_config_option(parser)


def run(arguments: argparse.Namespace) -> int:
    directory = load_config(arguments.config).store.directory
    with Store.open(directory, clock=SystemClock(), read_only=True) as store:
        found = store.findings(open_only=not arguments.all, limit=_LIMIT)
    if arguments.json:
        print(codec.encode(FindingsDocument(found), indent=2).decode())
    else:
        print("\n".join(_lines(found)) or "no findings")
    return exit_code_of(found)


def exit_code_of(found: Iterable[Finding]) -> ExitCode:
    """Unhealthy where one is open that is worse than info."""
    is_bad = any(item.closed_at is None and item.level is not Level.INFO for item in found)
    return ExitCode.UNHEALTHY if is_bad else ExitCode.HEALTHY


def _lines(found: Iterable[Finding]) -> Iterator[str]:
    for item in found:
        state = "open" if item.closed_at is None else f"closed {item.closed_at:%Y-%m-%d %H:%M}Z"
        yield printable(
            f"{item.level.value:<8} {item.kind.value:<18} since {item.first_at:%Y-%m-%d %H:%M}Z, {state}: {item.detail}"
        )
        if item.evidence:
            yield printable(f"         {item.evidence}")
