"""The daemon as it ran some hours ago: `python daemon_of_yesterday.py HOURS CONFIG`.

The real one in every part, with another clock: what a host did in earlier nights cannot be waited for.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path

from gpumond import log
from gpumond.clock import SystemClock
from gpumond.config.load import load
from gpumond.daemon import Daemon


class EarlierClock(SystemClock):
    def __init__(self, hours: float) -> None:
        self._behind = timedelta(hours=hours)

    def now(self) -> datetime:
        return super().now() - self._behind


def main(hours: str, file: str) -> int:
    config = load(Path(file))
    log.configure(level=config.log.level.value, form=config.log.format.value)
    return int(Daemon(config, clock=EarlierClock(float(hours)), config_file=Path(file)).run())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
