"""Reads what a fingerprint needs beside the snapshot: the kernel's command line, the benchmark's bytes, NCCL's files."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Final

from gpumond.judge.inputs import HostInputs
from gpumond.model.run import Run

_COMMAND_LINE: Final = Path("/proc/cmdline")
_CONF_FILES: Final = (Path("/etc/nccl.conf"), Path("/etc/rccl.conf"))
"""The benchmark's HOME is empty, so that no `~/.nccl.conf` counts."""
_ABSENT: Final = "absent"
_DIGITS: Final = 16


def read_host_inputs(run: Run) -> HostInputs:
    """Never raises: what cannot be read is empty."""
    return HostInputs(
        command_line=_read_text(_COMMAND_LINE),
        benchmark_sha256=_digest_of_program(_program_of(run)) if run.command else "",
        conf_sha256={str(path): _digest_of(path) for path in _CONF_FILES},
    )


def _program_of(run: Run) -> Path:
    """nccl-tests' program may stand behind a launcher such as numactl; our own are known by their interpreter."""
    suffix = f"/{run.collective.value}_perf"
    return Path(next((word for word in run.command if word.endswith(suffix)), run.command[0]))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _digest_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]
    except FileNotFoundError:
        return _ABSENT
    except OSError:
        return ""


def _digest_of_program(path: Path) -> str:
    try:
        state = path.stat()
    except OSError:
        return ""
    return _digest_of_file(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=16)
def _digest_of_file(path: Path, _modified_ns: int, _size: int) -> str:
    """Read again only when the file has changed: a benchmark is tens of megabytes."""
    return _digest_of(path)
