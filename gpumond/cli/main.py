"""`gpumond`: one command a module. Data goes to standard output, everything else to standard error.

A command module has HELP (one line), configure(parser) and run(arguments) -> exit code. Only the chosen one is
imported, so that `gpumond check` does not pay for the daemon.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from gpumond import __version__
from gpumond.errors import GpumondError

COMMANDS = {
    "run": "gpumond.cli.run",
    "demo": "gpumond.cli.demo",
    "topology": "gpumond.cli.topology",
    "advise": "gpumond.cli.advise",
    "kernel-log": "gpumond.cli.kernel_log",
    "sweep": "gpumond.cli.sweep",
    "pause": "gpumond.cli.pause",
    "resume": "gpumond.cli.resume",
    "sanity": "gpumond.cli.sanity",
    "history": "gpumond.cli.history",
    "import": "gpumond.cli.import_log",
    "schedule": "gpumond.cli.schedule",
    "parse": "gpumond.cli.parse",
    "judge": "gpumond.cli.judge",
    "reference": "gpumond.cli.reference",
    "baseline": "gpumond.cli.baseline",
    "findings": "gpumond.cli.findings",
    "check": "gpumond.cli.check",
    "fingerprint": "gpumond.cli.fingerprint",
    "doctor": "gpumond.cli.doctor",
    "check-config": "gpumond.cli.check_config",
}

EXIT_CODES = """\
exit codes:
  0  healthy, or still learning      3  not evaluated
  1  degraded or failed             10  the store cannot be read or written
  2  usage or configuration         11  another gpumond holds the lock
                                    12  something is missing on this host
"""

_INTERRUPTED = 130  # as shells report SIGINT
_BROKEN_PIPE = 141  # as shells report SIGPIPE


class CommandModule(Protocol):
    HELP: str

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the process exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    module, namespace = _parse(words)
    try:
        code = int(module.run(namespace))
        sys.stdout.flush()
    except GpumondError as error:
        print_error(error)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`gpumond history | head`); say nothing, also at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    return code


def print_error(error: GpumondError) -> None:
    """One error as a person reads it: what, then what to do."""
    for line in error.message.splitlines():
        print(f"gpumond: {line}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)


def _parse(words: Sequence[str]) -> tuple[CommandModule, argparse.Namespace]:
    parser = argparse.ArgumentParser(
        prog="gpumond",
        description="How the GPUs of this host are connected, and how fast they really talk.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gpumond {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    # Without a known command first (--help, a typo) every module is needed for its help line.
    chosen = [words[0]] if words and words[0] in COMMANDS else list(COMMANDS)
    modules: dict[str, CommandModule] = {}
    for name in chosen:
        module = cast("CommandModule", importlib.import_module(COMMANDS[name]))
        modules[name] = module
        module.configure(
            subparsers.add_parser(
                name,
                help=module.HELP,
                description=module.HELP,
                epilog=EXIT_CODES,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    namespace = parser.parse_args(words)
    return modules[namespace.command], namespace
