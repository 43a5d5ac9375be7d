"""The time zones of this host: whether a name is one, what a misspelt one may have meant, and which one is local.

The only module of the configuration that asks the host something: its time zone database and /etc/localtime. Knows no
window.
"""

from __future__ import annotations

import contextlib
import difflib
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

LOCAL_ZONE: Final = "local"
"""The zone of the host, whichever it is."""

UTC_ZONE: Final = "UTC"

_LOCALTIME: Final = Path("/etc/localtime")
_TIMEZONE: Final = Path("/etc/timezone")
_DATABASE: Final = "zoneinfo/"
_NEAR_ENOUGH: Final = 0.75


def check_zone(name: str) -> str:
    """`name` if this host knows it. Raises ValueError, with a suggestion where one is near."""
    if name == LOCAL_ZONE or _is_zone(name):
        return name
    if not _is_zone(UTC_ZONE):
        raise ValueError("cannot be checked: this host has no time zone database (install tzdata)")
    near = _nearest_zone(name)
    raise ValueError(f'is no time zone; did you mean "{near}"?' if near else "is no time zone (IANA name)")


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # unknown; a directory such as `Europe`; `../x`
        return False
    return True


def _nearest_zone(name: str) -> str | None:
    zones = sorted(available_timezones())
    lower = {zone.lower(): zone for zone in zones}
    whole = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=_NEAR_ENOUGH)
    if whole:
        return lower[whole[0]]
    # People write the city: Berlin, new_york.
    cities = {zone.rpartition("/")[2].lower(): zone for zone in zones if "/" in zone}
    city = name.rpartition("/")[2].lower().replace(" ", "_")
    near = difflib.get_close_matches(city, cities, n=1, cutoff=_NEAR_ENOUGH)
    return cities[near[0]] if near else None


def local_zone(localtime: Path = _LOCALTIME, timezone: Path = _TIMEZONE) -> str:
    """The IANA name of the host's zone: where /etc/localtime points, else what /etc/timezone says, else UTC."""
    try:
        target = str(localtime.resolve(strict=True))
    except OSError:
        target = ""
    candidates = [target.partition(_DATABASE)[2]]
    with contextlib.suppress(OSError, UnicodeDecodeError):
        candidates.append(timezone.read_text(encoding="utf-8").strip())
    return next((name for name in candidates if name and _is_zone(name)), UTC_ZONE)


def zone_name(configured: str) -> str:
    """The IANA name behind a sweep's `timezone`."""
    return local_zone() if configured == LOCAL_ZONE else configured
