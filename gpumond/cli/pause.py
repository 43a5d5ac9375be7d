"""`gpumond pause`: no sweep starts until `gpumond resume`, and a running one ends. It outlives restarts of the daemon."""

from __future__ import annotations

import argparse
import getpass

from gpumond import log
from gpumond.assembly import daemon_lock_file
from gpumond.cli.daemon_request import ask_daemon
from gpumond.cli.options import add_config_option, load_config
from gpumond.clock import SystemClock
from gpumond.errors import ExitCode
from gpumond.guards.lock import holder_of
from gpumond.monitor.decisions import REASON
from gpumond.requests import RequestKind
from gpumond.store.sqlite import Store

HELP = "let no sweep start until `gpumond resume`, and end a running one"


def configure(parser: argparse.ArgumentParser) -> None:
    add_config_option(parser)
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="for whoever asks why nothing is measured"
    )


def run(arguments: argparse.Namespace) -> int:
    log.configure(level="warning", form="text")
    config, clock = load_config(arguments.config), SystemClock()
    with Store.open(config.store.directory, clock=clock) as store:
        if holder_of(daemon_lock_file(config)) is not None:
            print(ask_daemon(store, RequestKind.PAUSE, {REASON: arguments.reason}, clock=clock))
        else:
            print(store.set_pause(by=getpass.getuser(), reason=arguments.reason))
    return ExitCode.HEALTHY
