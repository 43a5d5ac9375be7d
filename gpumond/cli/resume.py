"""`gpumond resume`: sweeps may start again."""

from __future__ import annotations

import argparse

from gpumond import log
from gpumond.assembly import daemon_lock_file
from gpumond.cli.daemon_request import ask_daemon
from gpumond.cli.options import add_config_option, load_config
from gpumond.clock import SystemClock
from gpumond.errors import ExitCode
from gpumond.guards.lock import holder_of
from gpumond.requests import RequestKind
from gpumond.store.sqlite import Store
from gpumond.sweep.service import NOT_PAUSED, RESUMED

HELP = "let sweeps start again after `gpumond pause`"


def configure(parser: argparse.ArgumentParser) -> None:
    add_config_option(parser)


def run(arguments: argparse.Namespace) -> int:
    log.configure(level="warning", form="text")
    config, clock = load_config(arguments.config), SystemClock()
    with Store.open(config.store.directory, clock=clock) as store:
        if holder_of(daemon_lock_file(config)) is not None:
            print(ask_daemon(store, RequestKind.RESUME, {}, clock=clock))
        else:
            print(RESUMED if store.clear_pause() else NOT_PAUSED)
    return ExitCode.HEALTHY
