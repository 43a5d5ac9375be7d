"""`gpumond check-config`: every problem of a configuration file, or what the file means."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from gpumond.assembly import make_web_access
from gpumond.clock import SystemClock
from gpumond.config.advice import advise
from gpumond.config.durations import format_duration
from gpumond.config.load import DEFAULT_FILE, hash_of, load
from gpumond.config.schema import Config, SweepConfig
from gpumond.config.values import Day, format_size
from gpumond.config.zone import LOCAL_ZONE, zone_name
from gpumond.errors import ConfigError, ExitCode

HELP = "print every problem of a configuration file, or what it means"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        default=DEFAULT_FILE,
        metavar="FILE",
        help=f"the file to check; by default {DEFAULT_FILE}",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """0 for a valid file, whatever the warnings; 2 for one with problems."""
    file: Path = arguments.file
    try:
        config = load(file)
        make_web_access(config, SystemClock())
    except ConfigError as error:
        print(_problems_as_json(file, error) if arguments.json else _problems_as_text(file, error))
        return ExitCode.USAGE
    print(_meaning_as_json(file, config) if arguments.json else _meaning_as_text(file, config))
    return ExitCode.HEALTHY


def _problems_as_text(file: Path, error: ConfigError) -> str:
    lines = [str(problem) for problem in error.problems]
    if error.hint:
        lines.append(f"hint: {error.hint}")
    count = len(error.problems)
    if count > 1:
        lines.append(f"{file}: {count} problems")
    return "\n".join(lines)


def _problems_as_json(file: Path, error: ConfigError) -> str:
    problems = [asdict(problem) for problem in error.problems]
    return json.dumps(
        {"file": str(file), "is_valid": False, "problems": problems, "hint": error.hint}, indent=2
    )


def _meaning_as_text(file: Path, config: Config) -> str:
    lines = [
        f"{file}: ok",
        f"  serves on {config.web.listen_address}, keeps its history in {config.store.directory}",
    ]
    lines.append(f"  a snapshot every {format_duration(config.snapshot.interval)}")
    for sweep in config.sweeps:
        lines += [f"  sweep {sweep.name}: {_when(sweep)}", f"    {_what(sweep)}"]
    return "\n".join(lines + [f"warning: {sentence}" for sentence in advise(config)])


def _when(sweep: SweepConfig) -> str:
    zone = zone_name(sweep.timezone)
    named = f"{zone} (this host's zone)" if sweep.timezone == LOCAL_ZONE else zone
    days = "every day" if set(sweep.days) == set(Day) else ", ".join(sweep.days)
    text = f"{sweep.window} {named}, {days}"
    if sweep.spread:
        text += f", this host at its own time within the first {format_duration(sweep.spread)}"
    return text


def _what(sweep: SweepConfig) -> str:
    sizes = f"{format_size(sweep.min_size)} to {format_size(sweep.max_size)} times {sweep.step_factor}"
    return f"{', '.join(sweep.collectives)} on {', '.join(sweep.gpu_sets)}; {sizes}, {sweep.datatype}"


def _meaning_as_json(file: Path, config: Config) -> str:
    sweeps = [
        {
            "name": sweep.name,
            "window": str(sweep.window),
            "timezone": zone_name(sweep.timezone),
            "days": list(sweep.days),
            "spread_seconds": sweep.spread,
            "gpu_sets": list(sweep.gpu_sets),
            "collectives": list(sweep.collectives),
            "min_size_bytes": sweep.min_size,
            "max_size_bytes": sweep.max_size,
        }
        for sweep in config.sweeps
    ]
    document = {"file": str(file), "is_valid": True, "problems": [], "hash": hash_of(config)}
    return json.dumps(document | {"sweeps": sweeps, "warnings": list(advise(config))}, indent=2)
