"""From a configured sweep to its window, and from this host to its place in it.

Owns the translation between the configuration's words and `windows`. The only files it reads are the machine id and the uptime.
"""

from __future__ import annotations

import socket
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from gpumond.config.schema import SweepConfig
from gpumond.config.zone import zone_name
from gpumond.process.procfs import read_uptime_seconds
from gpumond.schedule.windows import Window

MACHINE_ID_FILE: Final = Path("/etc/machine-id")


def window_of(sweep: SweepConfig) -> Window:
    """When a configured sweep may run. `local` is looked up now: the zone of a host can be changed under us."""
    return Window(
        start=sweep.window.start,
        end=sweep.window.end,
        zone=zone_name(sweep.timezone),
        weekdays=frozenset(day.weekday for day in sweep.days),
    )


def read_boot_at(now: datetime) -> datetime | None:
    """When this host booted. None where the kernel does not say."""
    uptime_seconds = read_uptime_seconds()
    return None if uptime_seconds is None else now - timedelta(seconds=uptime_seconds)


def read_machine_id(path: Path = MACHINE_ID_FILE) -> str:
    """What tells this host from the others of a fleet: systemd's machine id, the host name where there is none.

    Containers often have an empty file, and an image that was booted before it was copied gives every host the same
    id; then all of them start at the same minute, which is a burden on the fleet's power, not an error.
    """
    try:
        return path.read_text(encoding="ascii").strip() or socket.gethostname()
    except (OSError, UnicodeDecodeError):
        return socket.gethostname()
