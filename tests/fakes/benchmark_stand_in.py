"""Installs made-up nccl-tests binaries for tests, each with the script of how it behaves (benchmark/stand_in.py).

directory = install_stand_ins(tmp_path / "nccl-tests", {"all_reduce_perf": Script(ending=Ending.HANG, after_row=3)})
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parent / "benchmark" / "stand_in.py"
CAPTURES = Path(__file__).parents[1] / "data" / "captures" / "h200x2"

CAPTURE_OF = {
    "all_reduce_perf": "ar_std.out",
    "all_gather_perf": "ag.out",
    "reduce_scatter_perf": "rs.out",
    "alltoall_perf": "a2a.out",
    "alltoallv_perf": "a2av.out",
    "broadcast_perf": "bc.out",
    "reduce_perf": "red.out",
    "sendrecv_perf": "sr.out",
    "hypercube_perf": "hy.out",
    "scatter_perf": "sc.out",
    "gather_perf": "ga.out",
}


class Ending(StrEnum):
    """What happens once `after_row` rows are printed."""

    COMPLETE = "complete"
    HANG = "hang"
    HALF_ROW_HANG = "half_row_hang"
    SIGNAL = "signal"
    EXIT = "exit"  # without a footer
    FLOOD = "flood"


class Grandchild(StrEnum):
    """What it leaves behind: a process in its session, a daemon, a daemon that still holds its stdout."""

    PLAIN = "plain"
    SETSID = "setsid"
    HOLDS_PIPE = "holds_pipe"


@dataclass(frozen=True, slots=True)
class Script:
    """How a stand-in behaves. Without arguments: as the capture of its program, at once, exit status 0.

    `after_row` None means after all of them, 0 before the first. `verbatim` prints the capture byte by byte, whatever the
    command line says. Rows count from 1. `runs_without_p2p`: the ending is a path that NCCL_P2P_DISABLE=1 avoids.
    """

    capture: str = ""
    verbatim: bool = False
    seconds_before_first_row: float = 0.0
    seconds_per_row: float = 0.0
    seconds_before_exit: float = 0.0
    ending: Ending = Ending.COMPLETE
    after_row: int | None = None
    exit_status: int = 0
    signal: int = signal.SIGSEGV
    flood_bytes: int = 64 * 1024 * 1024
    ignore_sigterm: bool = False
    usage: bool = False
    errors: tuple[str, ...] = ()
    runs_without_p2p: bool = False
    grandchild: Grandchild | None = None
    slowdown: float = 1.0
    nan_in_row: int | None = None
    wrong_in_row: int | None = None
    wrong_elements: int = 1
    false_size_in_row: int | None = None


NO_ROWS = Script(after_row=0)
"""Header and footer, exit status 0."""


def install_stand_ins(directory: Path, programs: Mapping[str, Script]) -> Path:
    """`directory`, holding an executable of each name; installing again changes how the next start behaves."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, script in programs.items():
        binary = directory / name
        binary.write_text(f"#!{sys.executable} -IS\n{PROGRAM.read_text()}")
        binary.chmod(0o755)
        facts = asdict(script) | {
            "capture_file": str(CAPTURES / (script.capture or CAPTURE_OF[name])),
            "usage_file": str(CAPTURES / "ar_bad.out"),
        }
        Path(f"{binary}.script.json").write_text(json.dumps(facts))
    return directory


def calls_of(binary: Path) -> list[dict[str, Any]]:
    """Every start so far: pid, arguments, environment, directory."""
    notes = Path(f"{binary}.calls.jsonl")
    return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
