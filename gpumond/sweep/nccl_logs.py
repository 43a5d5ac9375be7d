"""What NCCL wrote to its own log files during a run: kept with the raw output, and read for the transport.

NCCL_DEBUG_FILE leads it into the run's directory, one file a process (process/environment.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpumond.model.transport import TransportReport
from gpumond.parsers.nccl_log import LogReader

KEPT_BYTES = 256 * 1024
"""Of each file. What NCCL says at its start comes first: 11 kB for a process with two GPUs."""

READ_BYTES_MAX = 8 * 1024 * 1024
"""Of each file: with TUNING there is a line for each call."""

FILES_MAX = 16


@dataclass(frozen=True, slots=True)
class NcclLogs:
    """`raw` has a marker line in front of each file; `transport` is None where NCCL said nothing."""

    raw: bytes
    transport: TransportReport | None


def read_nccl_logs(directory: Path) -> NcclLogs:
    reader = LogReader()
    parts = []
    paths = sorted(directory.glob("nccl.*.log"))
    for path in paths[:FILES_MAX]:
        with path.open("rb") as file:
            data = file.read(READ_BYTES_MAX + 1)
        if not data:
            continue
        reader.read(data[:READ_BYTES_MAX].decode(errors="replace").splitlines())
        if len(data) > READ_BYTES_MAX:
            reader.note_cut()
        parts.append(b"\n# gpumond: " + path.name.encode() + b"\n" + data[:KEPT_BYTES])
    if len(paths) > FILES_MAX:
        reader.note_cut()
    return NcclLogs(b"".join(parts), reader.report())
