"""Does a snapshot of this host say what nvidia-smi says? Field by field, on real GPUs; then what a snapshot costs.

    python bench/gpu/agree_with_nvidia_smi.py

Compared: `topo -m` (link, CPU and NUMA affinity), `topo -p2p r w n a`, `nvlink -s` (state and speed of each link).
Exit status 1 when anything differs.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
import sys
import time

from gpumond import __version__
from gpumond.clock import SystemClock
from gpumond.model.reading import Reading, Value, value_or_none
from gpumond.model.topology import Gpu, P2pCapability, Snapshot, link_label
from gpumond.model.topology_text import P2pQuestion, TopologyText, Way
from gpumond.parsers.topology_text import parse_topology_text
from gpumond.probe.launcher import ProbeLauncher, default_probe_command
from gpumond.process.environment import probe_environment

QUESTIONS = {
    "r": P2pCapability.READ,
    "w": P2pCapability.WRITE,
    "n": P2pCapability.NVLINK,
    "a": P2pCapability.ATOMICS,
}
TRIES = 5


class Comparison:
    """Counts what agrees and prints what does not."""

    def __init__(self) -> None:
        self.agreed = 0
        self.differed = 0

    def expect(self, what: str, ours: object, theirs: object) -> None:
        if ours == theirs:
            self.agreed += 1
        else:
            self.differed += 1
            print(f"DIFFERS {what}: gpumond {ours!r}, nvidia-smi {theirs!r}")


def _text(reading: Reading[str]) -> str | None:
    return reading.value if isinstance(reading, Value) else None


def nvidia_smi(*arguments: str) -> str:
    done = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def compare_links(found: Comparison, snapshot: Snapshot, gpus: dict[str, Gpu], text: TopologyText) -> None:
    for name, gpu in gpus.items():
        found.expect(f"CPU affinity of {name}", _text(gpu.cpu_affinity), text.cpu_affinity.get(name))
        for peer_name, peer in gpus.items():
            pair = snapshot.pair(gpu.uuid, peer.uuid)
            if pair is not None:
                found.expect(
                    f"link {name}-{peer_name}", link_label(pair), text.links.get(Way(name, peer_name))
                )


def compare_p2p(found: Comparison, snapshot: Snapshot, gpus: dict[str, Gpu]) -> None:
    for letter, capability in QUESTIONS.items():
        text = parse_topology_text(nvidia_smi("topo", "-p2p", letter))
        matrix = next(matrix for matrix in text.p2p if matrix.question is P2pQuestion.UNSTATED)
        for name, gpu in gpus.items():
            for peer_name, peer in gpus.items():
                pair = snapshot.pair(gpu.uuid, peer.uuid)
                if pair is not None:
                    reading = pair.p2p[capability]
                    ours = reading.value.value if isinstance(reading, Value) else reading.state
                    found.expect(
                        f"P2P {capability.value} {name}-{peer_name}",
                        ours,
                        matrix.statuses.get(Way(name, peer_name)),
                    )


def compare_nvlinks(found: Comparison, gpus: dict[str, Gpu]) -> None:
    """`nvlink -s` prints a speed for a link that is up, and `<inactive>` for one that is not."""
    text = nvidia_smi("nvlink", "-s")
    for name, gpu in gpus.items():
        block = re.search(
            rf"\(UUID: {re.escape(gpu.uuid)}\)\n(.*?)(?=^GPU |\Z)", text, re.DOTALL | re.MULTILINE
        )
        lines = dict(re.findall(r"Link (\d+): (.+)", block.group(1))) if block else {}
        links = gpu.nvlinks.value if isinstance(gpu.nvlinks, Value) else ()
        found.expect(f"links of {name}", len(links), len(lines))
        for link in links:
            speed = value_or_none(link.speed_bytes_per_second)
            ours = f"{(speed or 0) / 1e9:.3f} GB/s" if value_or_none(link.is_up) else "<inactive>"
            found.expect(f"link {link.link} of {name}", ours, lines.get(str(link.link), "").strip())


def main() -> int:
    launcher = ProbeLauncher(
        default_probe_command(), probe_environment(os.environ), deadline_seconds=60, clock=SystemClock()
    )
    began = time.monotonic()
    result = launcher.take(with_errors=True)
    cold = time.monotonic() - began
    if result.snapshot is None:
        print(result.detail)
        return 1
    snapshot = result.snapshot
    text = parse_topology_text(nvidia_smi("topo", "-m"))
    # nvidia-smi numbers by NVML's index; identity is the UUID.
    gpus = {f"GPU{gpu.index}": gpu for gpu in snapshot.gpus}
    found = Comparison()
    compare_links(found, snapshot, gpus, text)
    compare_p2p(found, snapshot, gpus)
    compare_nvlinks(found, gpus)

    names = ", ".join(sorted({value_or_none(gpu.name) or "?" for gpu in snapshot.gpus}))
    driver = value_or_none(snapshot.host.driver_version)
    print(
        f"gpumond {__version__}, Python {platform.python_version()}, {len(gpus)} x {names}, driver {driver}"
    )
    print(f"{found.agreed} fields agree, {found.differed} differ")
    print(f"snapshot with error counters, first: {cold:.3f} s")
    for with_errors in (False, True):
        seconds = []
        for _ in range(TRIES):
            began = time.monotonic()
            launcher.take(with_errors=with_errors)
            seconds.append(time.monotonic() - began)
        kind = "with" if with_errors else "without"
        print(f"snapshot {kind} error counters, median of {TRIES}: {statistics.median(seconds):.3f} s")
    return 1 if found.differed or not found.agreed else 0


if __name__ == "__main__":
    sys.exit(main())
