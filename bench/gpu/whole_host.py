"""One host with GPUs, measured from end to end: what gpumond sees, plans and measures, against other tools and itself.

    python bench/gpu/whole_host.py --nccl-tests DIRECTORY [--library-path DIRECTORY] [--torch-python PYTHON]

In this order, each part on its own, so that one that fails leaves the others: topology against nvidia-smi; the number of
exported series; the quick, nightly and full plans on all GPUs and on sets of two and four, seconds against the dry run's
estimate, busbw against the link model; nccl-tests, nccl4py and torch against each other; every pair of GPUs; preemption.
Needs idle GPUs. NVLS stays off. Prints tables for docs/results.md, and writes nothing but a temporary directory.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpumond import __version__
from gpumond.clock import SystemClock
from gpumond.model.benchmark import Placement
from gpumond.model.run import Run
from gpumond.probe.launcher import ProbeLauncher, default_probe_command
from gpumond.process.environment import probe_environment
from gpumond.store.sqlite import Store
from gpumond.topology.expected import RING_COLLECTIVES, expected_ring_busbw

HERE = Path(__file__).parent
PREEMPTIONS = 10
PORT = 18_061

BASE = """
[store]
directory = "{directory}/state"
min_free = "0"
[web]
listen_address = "127.0.0.1:{port}"
[benchmark]
lock_file = "{directory}/gpu.lock"
environment = {{ NCCL_NVLS_ENABLE = "0" }}
[guards]
quiet_by_hand = "1s"
[engines.nccl_tests]
directory = "{nccl_tests}"
library_path = {library_path}
{torch}
[gpu_sets]
{sets}
"""

PLANS = """
[[sweep]]
name = "quick-{gpu_set}"
engine = "nccl-tests"
gpu_sets = ["{gpu_set}"]
collectives = ["all_reduce", "all_gather"]
min_size = "512MiB"
[[sweep]]
name = "nightly-{gpu_set}"
engine = "nccl-tests"
gpu_sets = ["{gpu_set}"]
[[sweep]]
name = "full-{gpu_set}"
engine = "nccl-tests"
gpu_sets = ["{gpu_set}"]
collectives = ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "broadcast", "reduce"]
min_size = "8"
max_size = "8GiB"
"""

ENGINE = """
[[sweep]]
name = "engine-{engine}"
engine = "{engine}"
collectives = ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "broadcast", "reduce"]
min_size = "64MiB"
max_size = "1GiB"
step_factor = 4
"""

ENGINES = ("nccl-tests", "nccl4py", "torch")
RATIO_SIZES = (64 << 20, 256 << 20, 1 << 30)

Key = tuple[str, int, Placement]
"""Collective, size, placement."""


class Host:
    """This host with a configuration of its own in a directory that goes away."""

    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        result = ProbeLauncher(
            default_probe_command(),
            probe_environment(os.environ),
            deadline_seconds=60,
            clock=SystemClock(),
        ).take()
        if result.snapshot is None or not result.snapshot.gpus:
            raise SystemExit(f"no GPU can be seen: {result.detail}")
        self.snapshot = result.snapshot
        self.directory = directory
        self.config = directory / "config.toml"
        uuids = [gpu.uuid for gpu in sorted(self.snapshot.gpus, key=lambda gpu: gpu.pci_bus_id)]
        self.sets = {"all": uuids, **{f"first{n}": uuids[:n] for n in (2, 4) if n < len(uuids)}}
        named = [f"{name} = {json.dumps(members)}" for name, members in self.sets.items() if name != "all"]
        torch = f'[engines.torch]\npython = "{options.torch_python}"' if options.torch_python else ""
        library_path = json.dumps([str(options.library_path)] if options.library_path else [])
        text = BASE.format(
            directory=directory,
            port=PORT,
            nccl_tests=options.nccl_tests,
            library_path=library_path,
            torch=torch,
            sets="\n".join(named),
        )
        text += "".join(PLANS.format(gpu_set=name) for name in self.sets)
        text += "".join(ENGINE.format(engine=engine) for engine in ENGINES)
        self.config.write_text(text)

    def gpumond(self, *words: str, seconds: float = 900) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gpumond", *words, "--config", str(self.config)]
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)

    def sweep(self, name: str) -> tuple[float, tuple[Run, ...]]:
        """Seconds of the whole command, and its runs. Raises RuntimeError with what was said where it measured nothing."""
        begin = time.perf_counter()
        done = self.gpumond("sweep", name, "--quiet")
        seconds = time.perf_counter() - begin
        with Store.open(self.directory / "state", clock=SystemClock(), read_only=True) as store:
            sweep = store.sweeps(limit=1, name=name)
            runs = store.runs_of_sweep(sweep[0].id) if sweep else ()
        if not any(run.points for run in runs):
            raise RuntimeError(f"{name}: {(done.stderr or done.stdout).strip().splitlines()[-2:]}")
        return seconds, runs


def topology(_host: Host) -> None:
    subprocess.run([sys.executable, str(HERE / "agree_with_nvidia_smi.py")], check=False, timeout=300)


def series(host: Host) -> None:
    command = [sys.executable, "-m", "gpumond", "run", "--config", str(host.config)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as daemon:
        try:
            print(f"{_samples()} samples after a start, before any sweep")
        finally:
            daemon.terminate()


def _samples() -> int:
    give_up = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=5) as answer:
                return sum(1 for line in answer if not line.startswith(b"#"))
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.5)


def plans(host: Host) -> None:
    print("| sweep | GPUs | estimate | command | benchmarks | GPU seconds | all_reduce busbw | link model |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for gpu_set, members in host.sets.items():
        model = expected_ring_busbw(host.snapshot, members)
        for plan in ("quick", "nightly", "full"):
            name = f"{plan}-{gpu_set}"
            dry = json.loads(host.gpumond("sweep", name, "--dry-run", "--json").stdout)
            seconds, runs = host.sweep(name)
            measured = sum(run.duration_seconds or 0.0 for run in runs)
            best = max((busbw for _, busbw in _busbw(runs, "all_reduce")), default=0.0)
            print(
                f"| {name} | {len(members)} | {dry['seconds']:.1f} s | {seconds:.1f} s | {measured:.1f} s "
                f"| {measured * len(members):.0f} | {best / 1e9:.1f} GB/s | {_gigabytes(model)} |"
            )
    print(f"The link model is for rings of {', '.join(sorted(it.value for it in RING_COLLECTIVES))}.")


def engines(host: Host) -> None:
    found: dict[str, dict[Key, float]] = {}
    for engine in ENGINES:
        try:
            seconds, runs = host.sweep(f"engine-{engine}")
        except RuntimeError as error:
            print(f"{engine}: not measured: {error}")
            continue
        found[engine] = _values(runs)
        print(f"{engine}: {seconds:.1f} s, {len(found[engine])} values")
    reference = found.pop("nccl-tests", {})
    for engine, values in found.items():
        print(f"\n| {engine} / nccl-tests | 64 MiB | 256 MiB | 1 GiB |\n| --- | --- | --- | --- |")
        for name in dict.fromkeys(name for name, _, _ in reference):
            cells = [_ratio(values, reference, name, size) for size in RATIO_SIZES]
            print(f"| {name} | {' | '.join(cells)} |")


def pairs(_host: Host) -> None:
    environment = {**os.environ, "NCCL_NVLS_ENABLE": "0"}
    subprocess.run([sys.executable, str(HERE / "pairs.py")], env=environment, check=False, timeout=300)


def preemption(_host: Host) -> None:
    command = [sys.executable, str(HERE / "preemption.py"), str(PREEMPTIONS)]
    subprocess.run(command, check=False, timeout=600)


def _busbw(
    runs: tuple[Run, ...], collective: str, placement: Placement = Placement.OUT_OF_PLACE
) -> Iterator[tuple[int, float]]:
    for run in runs:
        for point in run.points:
            if run.collective.value == collective and point.placement is placement:
                yield point.size_bytes, point.busbw_bytes_per_second


def _values(runs: tuple[Run, ...]) -> dict[Key, float]:
    names = dict.fromkeys(run.collective.value for run in runs)
    return {
        (name, size, placement): busbw
        for name in names
        for placement in Placement
        for size, busbw in _busbw(runs, name, placement)
    }


def _ratio(ours: dict[Key, float], theirs: dict[Key, float], name: str, size: int) -> str:
    """Out of place, or in place where torch has nothing else."""
    for placement, mark in ((Placement.OUT_OF_PLACE, ""), (Placement.IN_PLACE, " in place")):
        key = (name, size, placement)
        if key in ours and key in theirs:
            return f"{ours[key] / theirs[key]:.4f}{mark}"
    return "-"


def _gigabytes(value: float | None) -> str:
    return "none" if value is None else f"{value / 1e9:.0f} GB/s"


PARTS: dict[str, Callable[[Host], None]] = {
    "topology": topology,
    "series": series,
    "plans": plans,
    "engines": engines,
    "pairs": pairs,
    "preemption": preemption,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description="measure a whole host with GPUs, from topology to preemption"
    )
    parser.add_argument("--nccl-tests", type=Path, required=True, metavar="DIRECTORY")
    parser.add_argument("--library-path", type=Path, metavar="DIRECTORY")
    parser.add_argument("--torch-python", type=Path, metavar="PYTHON")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of: %(default)s")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        host = Host(Path(directory), options)
        print(f"gpumond {__version__}, Python {platform.python_version()}, Linux {platform.release()}")
        for gpu in host.snapshot.gpus:
            print(f"  {gpu.pci_bus_id} {_name(gpu.name)}")
        for part in options.parts.split(","):
            begin = time.perf_counter()
            print(f"\n== {part}", flush=True)
            try:
                PARTS[part](host)
            except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
                print(f"{part} failed: {error}")
            print(f"({time.perf_counter() - begin:.0f} s)", flush=True)


def _name(reading: Any) -> str:
    return getattr(reading, "value", "unknown model")


if __name__ == "__main__":
    main()
