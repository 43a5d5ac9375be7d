"""`gpumond doctor`: what is here, what is missing, what to install. One line a check, with a hint where it helps.

Checks look; they change nothing, need no configuration and no root, and load no GPU library into this process.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict

from gpumond.assembly import make_launcher
from gpumond.cli.options import add_config_option, load_config
from gpumond.clock import SystemClock
from gpumond.config.schema import Config
from gpumond.doctor.checks import Check, Level
from gpumond.doctor.gpus import check_gpus
from gpumond.doctor.host import check_host
from gpumond.errors import ConfigError, ExitCode

HELP = "what is here, what is missing, what to install"

_MARKS = {Level.OK: "ok", Level.NOTE: "--", Level.WARNING: "!!", Level.MISSING: "XX"}


def configure(parser: argparse.ArgumentParser) -> None:
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")


def run(arguments: argparse.Namespace) -> int:
    try:
        config = load_config(arguments.config)
    except ConfigError as error:
        problem = Check(
            "configuration", Level.MISSING, error.message, "`gpumond check-config` lists every problem."
        )
        return _report([problem], as_json=arguments.json)
    return _report([*check_host(config), *_check_gpus(config)], as_json=arguments.json)


def _check_gpus(config: Config) -> Iterable[Check]:
    return check_gpus(config, make_launcher(config, SystemClock()).take(with_errors=True))


def _report(checks: list[Check], *, as_json: bool) -> int:
    if as_json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            print(f"{_MARKS[check.level]}  {check.name:<{width}}  {check.detail}")
            if check.hint:
                print(f"    {'':<{width}}  -> {check.hint}")
        missing = sum(check.level is Level.MISSING for check in checks)
        warnings = sum(check.level is Level.WARNING for check in checks)
        print(f"\n{missing} missing, {warnings} warnings")
    is_complete = all(check.level is not Level.MISSING for check in checks)
    return int(ExitCode.HEALTHY if is_complete else ExitCode.ENVIRONMENT)
