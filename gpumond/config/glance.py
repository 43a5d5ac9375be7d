"""What a command that must be quick needs of a configuration file, without pydantic (0.4 s of the 0.7 s of a command).

Refuses to judge: where anything that it looks at is not plainly right it answers None, and the caller reads the file in
full, which tells every mistake. Owns the defaults that it shares with the schema.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpumond.config.durations import parse_duration

DEFAULT_FILE: Final = Path("/etc/gpumond/config.toml")
DEFAULT_STATE_DIRECTORY: Final = Path("/var/lib/gpumond")
DEFAULT_SNAPSHOT_INTERVAL_SECONDS: Final = 60.0
DEFAULT_SNAPSHOT_DEADLINE_SECONDS: Final = 20.0

LARGEST_FILE_BYTES: Final = 1 << 16
"""Of a file that is plainly right; a larger one is read in full."""


@dataclass(frozen=True, slots=True)
class Glance:
    """Where the history is, and how often the GPUs are looked at."""

    state_directory: Path = DEFAULT_STATE_DIRECTORY
    interval_seconds: float = DEFAULT_SNAPSHOT_INTERVAL_SECONDS
    deadline_seconds: float = DEFAULT_SNAPSHOT_DEADLINE_SECONDS


def glance_at(file: Path) -> Glance | None:
    """Those of a valid file; None where the file has to be read in full."""
    try:
        if file.stat().st_size > LARGEST_FILE_BYTES:
            return None
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        store, snapshot = document.get("store", {}), document.get("snapshot", {})
        directory = _text(store, "directory", str(DEFAULT_STATE_DIRECTORY))
        if not directory.startswith("/"):
            return None
        return Glance(
            state_directory=Path(directory),
            interval_seconds=_seconds(snapshot, "interval", DEFAULT_SNAPSHOT_INTERVAL_SECONDS),
            deadline_seconds=_seconds(snapshot, "deadline", DEFAULT_SNAPSHOT_DEADLINE_SECONDS),
        )
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _text(table: object, key: str, default: str) -> str:
    value = table.get(key, default) if isinstance(table, Mapping) else None
    if not isinstance(value, str):
        raise TypeError(key)
    return value


def _seconds(table: object, key: str, default: float) -> float:
    text = _text(table, key, "")
    return parse_duration(text) if text else default
