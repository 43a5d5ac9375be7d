"""`gpumond import LOG`: keep the output of an earlier nccl-tests run in the history, marked as imported.

It is read as `gpumond parse` reads it. A daemon need not stop: the store takes both.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from gpumond import codec
from gpumond.cli.options import add_config_option, load_config
from gpumond.cli.parse import open_log, read_chunk, refuse_binary
from gpumond.clock import Clock, SystemClock
from gpumond.errors import ExitCode, UsageError
from gpumond.model.benchmark import Collective
from gpumond.model.run import Run
from gpumond.parsers.nccl_log import parse_nccl_log
from gpumond.parsers.nccl_tests import MAX_INPUT_BYTES, decoder_for, parse_bytes
from gpumond.store.sqlite import Store
from gpumond.sweep.context import new_run_id
from gpumond.sweep.imports import IMPORTED, ImportedLog, run_of_log

HELP = "keep the output of an earlier nccl-tests run in the history"

STANDARD_INPUT = "-"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="LOG", help="what the benchmark printed; - reads standard input")
    parser.add_argument("--sweep", default=IMPORTED, metavar="NAME", help=f"default: {IMPORTED}")
    parser.add_argument(
        "--gpu-set", default=IMPORTED, metavar="NAME", help="what to call the GPUs that it ran on"
    )
    parser.add_argument(
        "--collective",
        type=Collective,
        choices=tuple(Collective),
        metavar="NAME",
        help="where the text does not say it",
    )
    parser.add_argument(
        "--measured-at",
        type=_instant,
        metavar="TIME",
        help="such as 2026-11-29T02:00+01:00 (default: when the file was last written)",
    )
    parser.add_argument("--json", action="store_true", help="print the stored run as JSON")
    add_config_option(parser)


def run(arguments: argparse.Namespace) -> int:
    clock = SystemClock()
    data = _read(arguments.file)
    name = "standard input" if arguments.file == STANDARD_INPUT else arguments.file
    log = ImportedLog(
        name=name,
        parsed=parse_bytes(data),
        transport=parse_nccl_log(decoder_for(data[:4]).decode(data)),
        measured_at=arguments.measured_at or _written_at(arguments.file, clock),
        sweep=arguments.sweep,
        gpu_set=arguments.gpu_set,
        collective=arguments.collective,
    )
    now = clock.now()
    sweep, run = run_of_log(log, sweep_id=new_run_id(now), run_id=new_run_id(now))
    with Store.open(load_config(arguments.config).store.directory, clock=clock) as store:
        store.import_run(sweep, run, output=data)
    print(codec.encode(run, indent=2).decode() if arguments.json else _sentence(run))
    return int(ExitCode.HEALTHY)


def _read(path: str) -> bytes:
    parts, size = [], 0
    with open_log(path) as stream:
        while chunk := read_chunk(stream, path):
            parts.append(chunk)
            size += len(chunk)
            if size > MAX_INPUT_BYTES:
                raise UsageError(
                    f"{path} is larger than {MAX_INPUT_BYTES // 2**20} MiB",
                    hint="Cut out the part that holds the table.",
                )
    refuse_binary(parts[0] if parts else b"", path)
    return b"".join(parts)


def _written_at(path: str, clock: Clock) -> datetime:
    if path != STANDARD_INPUT:
        with suppress(OSError):
            return datetime.fromtimestamp(Path(path).stat().st_mtime, UTC)
    return clock.now()


def _instant(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at.astimezone(UTC)


def _sentence(run: Run) -> str:
    sizes = len({point.size_bytes for point in run.points})
    return f"kept {run.collective.value} with {sizes} sizes as run {run.id} of sweep {run.sweep}"
