"""Writes the dashboards of deploy/grafana: `python tools/dashboards.py`.

The JSON is committed, and a test holds it equal to what this writes. Classic schema (v1), which Grafana 11 to 13 load
from files.
"""

from __future__ import annotations

from pathlib import Path

from boards import daemon, fleet, host, sweep
from boards.queries import DAEMON, FLEET, HOST_BOARD, SWEEP

DIRECTORY = Path(__file__).resolve().parent.parent / "deploy/grafana/dashboards"
BOARDS = {FLEET: fleet.make, HOST_BOARD: host.make, SWEEP: sweep.make, DAEMON: daemon.make}


def render() -> dict[Path, str]:
    """Every file and what it holds."""
    return {DIRECTORY / f"{uid}.json": make().text() for uid, make in BOARDS.items()}


def main() -> None:
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for path, text in render().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
