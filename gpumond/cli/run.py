"""`gpumond run`: the daemon, in the foreground; systemd, or a terminal, is around it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from gpumond import log
from gpumond.clock import SystemClock
from gpumond.config.load import DEFAULT_FILE, load
from gpumond.config.schema import Config
from gpumond.config.values import parse_listen_address
from gpumond.daemon import Daemon
from gpumond.errors import GpumondError, UsageError
from gpumond.systemd import Notifier

HELP = "run the daemon: snapshots, sweeps, Prometheus endpoint"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        default=DEFAULT_FILE,
        metavar="FILE",
        help="configuration file (default: %(default)s)",
    )
    parser.add_argument(
        "--web.listen-address",
        dest="listen_address",
        metavar="HOST:PORT",
        help="instead of web.listen_address of the configuration",
    )
    parser.add_argument(
        "--web.config.file",
        dest="web_config_file",
        metavar="FILE",
        help="TLS, client certificates, passwords: a web configuration file as exporters have it, instead of "
        "web.config_file of the configuration; an empty name is none",
    )


def run(arguments: argparse.Namespace) -> int:
    def override(config: Config) -> Config:
        config = _with_listen_address(config, arguments.listen_address)
        return _with_web_config_file(config, arguments.web_config_file)

    notifier = Notifier(os.environ)
    try:
        config = override(load(arguments.config))
        log.configure(level=config.log.level.value, form=config.log.format.value)
        daemon = Daemon(
            config, clock=SystemClock(), config_file=arguments.config, override=override, notifier=notifier
        )
        return int(daemon.run())
    except GpumondError as error:
        # What `systemctl status` shows of a service that did not start; the journal has the hint, too.
        first_line = error.message.partition("\n")[0]
        notifier.send(f"STATUS=cannot run: {first_line}")
        raise


def _with_listen_address(config: Config, text: str | None) -> Config:
    if text is None:
        return config
    try:
        address = parse_listen_address(text)
    except ValueError as error:
        raise UsageError(f"--web.listen-address {text!r}: {error}") from error
    return config.model_copy(update={"web": config.web.model_copy(update={"listen_address": address})})


def _with_web_config_file(config: Config, text: str | None) -> Config:
    if text is None:
        return config
    # Absolute, for the reload of a daemon that was started elsewhere.
    file = Path(text).absolute() if text else None
    return config.model_copy(update={"web": config.web.model_copy(update={"config_file": file})})
