"""Options that several commands share: where the configuration is, and what it says."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpumond.config.load import DEFAULT_FILE, default_config, load
from gpumond.config.schema import Config


def add_config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"configuration file (default: {DEFAULT_FILE}, if it exists)",
    )


def load_config(file: Path | None) -> Config:
    """The named file, or the default one, or the defaults where there is none. Raises ConfigError."""
    if file is not None:
        return load(file)
    return load(DEFAULT_FILE) if DEFAULT_FILE.exists() else default_config()
