"""`python -m gpumond.simulate.benchmark`: a benchmark of a made-up host, printed as nccl-tests or rccl-tests prints one.

A real process in every respect that a runner cares about: it takes nccl-tests' options, sees the GPUs that
CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES names, prints line by line at a pace, ends with nccl-tests' exit statuses,
and hangs or fails where the scenario says so. `--pace` is how many times faster than the real host it runs. The noise
is seeded by GPUMOND_SIMULATE_SEED, or by the pid, so that no two nights are alike.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from gpumond.clock import Clock, SystemClock
from gpumond.errors import GpumondError
from gpumond.model.benchmark import Collective
from gpumond.model.topology import Vendor
from gpumond.simulate import nccl_text
from gpumond.simulate.benchmark_options import Options, UnknownOptionError, parse, usage
from gpumond.simulate.busbw import BenchmarkModel
from gpumond.simulate.command_line import add_fault_options, hang, world_of
from gpumond.simulate.faults import BenchmarkFails, BenchmarkHangs, WrongElements
from gpumond.simulate.nccl_log import log_lines
from gpumond.simulate.nccl_text import RankLine, Settings, Tool
from gpumond.simulate.sizes import SizeRow, clamped, size_rows
from gpumond.simulate.visible import VARIABLES, find_failure, visible_gpus
from gpumond.simulate.world import Scenario, ScenarioGpu

TOOLS = {
    Vendor.NVIDIA: Tool("nccl", "2.19.6 (simulated)", 22809),
    Vendor.AMD: Tool("rccl", "2.18.3 (simulated)", 22706),
}

LOG_VARIABLE = "NCCL_DEBUG_FILE"
SEED_VARIABLE = "GPUMOND_SIMULATE_SEED"

START_UP_SECONDS = 1.6
SECONDS_PER_ROW = 0.08
"""Measured on two H200s: 1.75 s until the first row, 4.1 s for 29 rows; the operations themselves are a part of it."""

WRONG_FROM_BYTES = 1 << 20

EXIT_CUDA = 2
EXIT_TOO_FEW_GPUS = 5
EXIT_WRONG = 7
EXIT_BAD_SIZES = 255


def main(arguments: Sequence[str]) -> int:
    clock = SystemClock()
    own, theirs = _parser().parse_known_args(arguments)
    try:
        collective = Collective(own.collective)
        world = world_of(own.scenario, own, clock)
        options = parse(theirs)
    except UnknownOptionError as error:
        # As the real program: the usage on standard output, and success.
        sys.stderr.write(f"{own.collective}_perf: {error}\n")
        sys.stdout.write(usage(f"{own.collective}_perf"))
        return 0
    except GpumondError as error:
        sys.stderr.write("\n".join(filter(None, (error.message, error.hint))) + "\n")
        return int(error.exit_code)
    return Benchmark(world, collective, options, pace=own.pace, clock=clock).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpumond.simulate.benchmark",
        description="print a made-up benchmark; other options are those of nccl-tests",
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("--scenario", required=True, metavar="NAME")
    parser.add_argument("--collective", required=True, choices=[it.value for it in Collective])
    parser.add_argument("--pace", type=float, default=1.0, metavar="TIMES")
    add_fault_options(parser)
    return parser


@dataclass(slots=True)
class _Tally:
    """What the footer sums up."""

    rows: int = 0
    wrong_cells: int = 0
    busbw_total: float = 0.0
    placements: int = 0


class Benchmark:
    """One run of one collective."""

    def __init__(
        self, world: Scenario, collective: Collective, options: Options, *, pace: float, clock: Clock
    ) -> None:
        self._world = world
        self._tool = TOOLS[world.vendor]
        self._collective = collective
        self._options = options
        self._pace = pace
        self._clock = clock
        self._program = f"{collective.value}_perf"
        # Not for secrets: numbers that scatter.
        self._random = Random(os.environ.get(SEED_VARIABLE, str(os.getpid())))  # noqa: S311
        self._tally = _Tally()

    def run(self) -> int:
        """Print the whole run. Returns the exit status that nccl-tests would end with."""
        options = self._options
        for notice in options.notices:
            self._print(notice)
        if options.min_bytes > options.max_bytes:
            sys.stderr.write(
                f"invalid sizes for 'minbytes' and 'maxbytes': {options.min_bytes} > {options.max_bytes}\n"
            )
            return EXIT_BAD_SIZES
        self._print(*nccl_text.opening(self._settings(), self._tool))
        gpus = visible_gpus(self._world, os.environ.get(VARIABLES[self._world.vendor]))
        if len(gpus) < options.ranks:
            return self._too_few(len(gpus))
        return self._run_on(gpus[: options.ranks])

    def _settings(self) -> Settings:
        options = self._options
        return Settings(
            program=self._program,
            threads=options.threads,
            gpus_per_thread=options.gpus_per_thread,
            min_bytes=options.min_bytes,
            max_bytes=options.max_bytes,
            step=options.step_text,
            warmup_iterations=options.warmup_iterations,
            iterations=options.iterations,
            aggregated_iterations=options.aggregated_iterations,
            checks=options.checks,
        )

    def _too_few(self, found: int) -> int:
        sys.stderr.write(
            f"Invalid number of GPUs: {self._options.ranks} requested but only {found} were found.\n"
            "Please check the number of processes and GPUs per process.\n"
        )
        self._print(f" .. {self._host} pid {os.getpid()}: Test failure")
        return EXIT_TOO_FEW_GPUS

    def _run_on(self, gpus: tuple[ScenarioGpu, ...]) -> int:
        ranks = [RankLine(rank, rank, gpu.pci_bus_id, gpu.model.name) for rank, gpu in enumerate(gpus)]
        self._print(*nccl_text.rank_lines(ranks, host=self._host, pid=os.getpid()))
        max_bytes = clamped(self._options, gpus)
        if max_bytes < self._options.max_bytes:
            self._print(*nccl_text.clamp_lines(max_bytes))
        self._sleep(START_UP_SECONDS)
        failure = find_failure(gpus)
        if failure is not None:
            return self._fail(failure)
        self._write_log(gpus)
        self._print(*nccl_text.table_head())
        model = BenchmarkModel(self._world, gpus, self._collective)
        for row in size_rows(self._options, self._collective, model.ranks, max_bytes):
            status = self._measure(model, row)
            if status is not None:
                return status
        return self._conclude()

    def _write_log(self, gpus: tuple[ScenarioGpu, ...]) -> None:
        """Where NCCL would write it, which expands host and pid in the name."""
        name = os.environ.get(LOG_VARIABLE, "")
        if not name or self._world.vendor is not Vendor.NVIDIA:
            return
        path = Path(name.replace("%h", self._host).replace("%p", str(os.getpid())))
        lines = log_lines(self._world, gpus, host=self._host, pid=os.getpid())
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def _measure(self, model: BenchmarkModel, row: SizeRow) -> int | None:
        """One row; an exit status where the run ends here."""
        left = nccl_text.sizes_piece(row.size, row.count, row.datatype, row.redop, row.root)
        for fault in model.faults():
            if isinstance(fault, BenchmarkHangs) and self._tally.rows >= fault.rows:
                hang(self._clock)
            if isinstance(fault, BenchmarkFails) and self._tally.rows >= fault.rows:
                # What fails stands behind what was already printed of the row.
                return self._fail("an illegal memory access was encountered", behind=left)
        self._print(left + "".join(self._placements(model, row)))
        self._tally.rows += 1
        return None

    def _placements(self, model: BenchmarkModel, row: SizeRow) -> Iterator[str]:
        wrong = max(
            (
                fault.count
                for fault in model.faults()
                if isinstance(fault, WrongElements) and row.size >= WRONG_FROM_BYTES
            ),
            default=0,
        )
        operations = self._options.warmup_iterations + self._options.iterations
        for is_in_place in (False, True):
            timed = model.run(row.size, self._random)
            self._sleep(SECONDS_PER_ROW / 2 + operations * timed.time_us / 1e6)
            is_checked = self._options.checks > 0 and not (
                is_in_place and self._collective in nccl_text.NO_IN_PLACE_CHECK
            )
            self._tally.placements += 1
            self._tally.busbw_total += timed.busbw_gbps
            self._tally.wrong_cells += is_checked and wrong > 0
            yield nccl_text.timing_piece(
                timed, nccl_text.wrong_cell(wrong) if is_checked else nccl_text.UNCHECKED
            )

    def _conclude(self) -> int:
        tally = self._tally
        average = tally.busbw_total / tally.placements if tally.placements else float("nan")
        self._print(*nccl_text.asterisks_line(self._tool))
        self._print(*nccl_text.footer(self._program, wrong_cells=tally.wrong_cells, average_gbps=average))
        if not tally.wrong_cells:
            return 0
        self._print(f" .. {self._host} pid {os.getpid()}: Test failure simulated:1")
        return EXIT_WRONG

    def _fail(self, message: str, *, behind: str = "") -> int:
        self._print(
            f"{behind}{self._host}: Test CUDA failure simulated:1 '{message}'",
            f" .. {self._host} pid {os.getpid()}: Test failure simulated:1",
        )
        return EXIT_CUDA

    @property
    def _host(self) -> str:
        return self._world.host.name

    def _print(self, *lines: str) -> None:
        """Whole lines, at once: nccl-tests sets its output to line buffering."""
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def _sleep(self, seconds: float) -> None:
        if self._pace > 0:
            self._clock.sleep(seconds / self._pace)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
