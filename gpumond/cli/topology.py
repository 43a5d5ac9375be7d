"""`gpumond topology`: how the GPUs of this host are connected, as a matrix or as JSON: read now, or as stored.

Reading now needs no daemon, no configuration and no root. The facts go to standard output even where they are bad news; what is
wrong, and what to do about it, goes to standard error with the exit code.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpumond import codec
from gpumond.cli.options import add_config_option, load_config
from gpumond.cli.paste import read_text, snapshot_in
from gpumond.cli.topology_file import show_text
from gpumond.cli.topology_words import add_words, run_word
from gpumond.clock import SystemClock
from gpumond.errors import ExitCode, GpumondError, HostError, NotEvaluatedError
from gpumond.model.identity import GpuUuid
from gpumond.model.reading import Unreadable, UnreadableReason, Value, value_or_none
from gpumond.model.topology import Snapshot
from gpumond.probe.launcher import ProbeFailure, ProbeLauncher, ProbeResult, default_probe_command
from gpumond.process.environment import probe_environment
from gpumond.topology.classify import classify_snapshot
from gpumond.topology.expected import expected_ring_busbw
from gpumond.topology.matrix import gpu_names, link_labels, numbers_by_bus_id, render_matrix
from gpumond.topology.printable import printable

HELP = "show how the GPUs are connected, as nvidia-smi topo -m does, with affinity"

DEADLINE_SECONDS = 30.0
"""Without persistence mode the first handle on a GPU can take seconds, and a person waits better than a daemon."""

_DRIVER_PROBLEMS = {
    UnreadableReason.NO_LIBRARY: (
        "the NVIDIA driver library libnvidia-ml.so.1 is not installed",
        "Install the NVIDIA driver; in a container, start it with the NVIDIA runtime and the `utility` capability.",
    ),
    UnreadableReason.DRIVER_NOT_LOADED: (
        "the NVIDIA kernel driver is not loaded",
        "Load it with `modprobe nvidia`; `dmesg` says why it would not load.",
    ),
    UnreadableReason.DRIVER_MISMATCH: (
        "the NVIDIA driver library and the loaded kernel driver have different versions",
        "Reboot, or unload and reload the kernel driver: the driver was upgraded while it was in use.",
    ),
    UnreadableReason.NO_PERMISSION: (
        "this user may not ask the NVIDIA driver",
        "Check the permissions of /dev/nvidia*; a container whose devices were lost must be restarted.",
    ),
}
_OTHER_DRIVER_PROBLEM = (
    "the NVIDIA driver does not answer",
    "See `nvidia-smi` and `dmesg` for the driver's own message.",
)

_PROBE_HINTS = {
    ProbeFailure.TIMEOUT: "A GPU or its driver hangs: look for Xid messages in `dmesg`.",
    ProbeFailure.CRASHED: "See `dmesg`, and run `python -m gpumond.probe` to see it fail.",
    ProbeFailure.BLOCKED: "Wait until that process is gone, or reboot.",
    ProbeFailure.MALFORMED: "Run `python -m gpumond.probe` to see what it prints.",
    ProbeFailure.TOO_LARGE: "Run `python -m gpumond.probe` to see what it prints.",
}


def configure(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--live", action="store_true", help="read this host now (the default)")
    source.add_argument("--stored", action="store_true", help="show what the daemon stored last")
    source.add_argument("--simulate", metavar="NAME", help="show the simulated host NAME instead of this one")
    source.add_argument(
        "--from",
        dest="file",
        metavar="FILE",
        help="read what somebody pasted (nvidia-smi topo, amd-smi topology, rocm-smi --showtopo) or a snapshot as"
        " --json prints it; `-` is standard input",
    )
    parser.add_argument("--json", action="store_true", help="print the snapshot and the labels as JSON")
    add_config_option(parser)
    add_words(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.word is not None:
        return run_word(arguments)
    if arguments.file is not None:
        return _run_from_file(arguments.file, as_json=arguments.json)
    shown = _stored(arguments.config) if arguments.stored else _Shown(take_snapshot(arguments.simulate))
    return _show(shown, as_json=arguments.json)


def _run_from_file(path: str, *, as_json: bool) -> int:
    text = read_text(path)
    snapshot = snapshot_in(text, path)
    return (
        show_text(text, path, as_json=as_json)
        if snapshot is None
        else _show(_Shown(snapshot), as_json=as_json)
    )


def _show(shown: _Shown, *, as_json: bool) -> int:
    print(_as_json(shown) if as_json else printable(_as_text(shown)), end="", flush=True)
    problem = problem_of(shown.snapshot)
    if problem is not None:
        raise problem
    return ExitCode.HEALTHY


@dataclass(frozen=True, slots=True)
class _Shown:
    """A snapshot and the numbers of its GPUs: those of the accepted inventory, where it comes from the store."""

    snapshot: Snapshot
    accepted: dict[GpuUuid, int] | None = None
    is_stored: bool = False

    @property
    def numbers(self) -> dict[GpuUuid, int]:
        return numbers_by_bus_id(self.snapshot) if self.accepted is None else self.accepted


def take_snapshot(scenario: str | None) -> Snapshot:
    """A fresh snapshot by a probe child. Raises HostError or NotEvaluatedError where none can be had."""
    launcher = ProbeLauncher(
        default_probe_command() if scenario is None else _simulated_probe_command(scenario),
        probe_environment(os.environ),
        deadline_seconds=DEADLINE_SECONDS,
        clock=SystemClock(),
    )
    return snapshot_by(launcher)


def snapshot_by(launcher: ProbeLauncher) -> Snapshot:
    """The same by a launcher that is there already."""
    result = launcher.take()
    if result.snapshot is None:
        raise _error_of(result)
    return result.snapshot


def _stored(config_file: Path | None) -> _Shown:
    from gpumond.store.sqlite import Store  # noqa: PLC0415 - reading this host needs no store

    directory = load_config(config_file).store.directory
    with Store.open(directory, clock=SystemClock(), read_only=True) as store:
        snapshot = store.latest_snapshot()
        inventory = store.accepted_inventory()
    if snapshot is None:
        raise NotEvaluatedError(
            f"no snapshot is stored in {directory} yet", hint="Start the daemon, or leave out --stored."
        )
    return _Shown(snapshot, {entry.uuid: entry.number for entry in inventory} or None, is_stored=True)


def problem_of(snapshot: Snapshot) -> GpumondError | None:
    """Why this snapshot shows no GPUs; None where it shows some."""
    if isinstance(snapshot.driver, Unreadable):
        message, hint = _DRIVER_PROBLEMS.get(snapshot.driver.reason, _OTHER_DRIVER_PROBLEM)
        detail = f" ({snapshot.driver.detail})" if snapshot.driver.detail else ""
        return HostError(f"{message}{detail}", hint=hint)
    if not snapshot.gpus and not snapshot.silent_gpus:
        return HostError(
            "the driver is loaded and shows no GPU",
            hint="Check `lspci -d 10de:`; in a container, give it GPUs (`--gpus all`).",
        )
    return None


def _error_of(result: ProbeResult) -> GpumondError:
    if result.failure is ProbeFailure.NOT_STARTED:
        return HostError(result.detail, hint="Reinstall gpumond into the environment that runs it.")
    hint = _PROBE_HINTS.get(result.failure, "") if result.failure is not None else ""
    return NotEvaluatedError(result.detail, hint=hint)


def _simulated_probe_command(scenario: str) -> tuple[str, ...]:
    from gpumond.simulate.scenario import load_scenario  # noqa: PLC0415 - only a made-up host needs it

    load_scenario(scenario)  # a typo is the user's error, not the probe's
    return (sys.executable, "-I", "-m", "gpumond.simulate.probe", scenario)


def _as_text(shown: _Shown) -> str:
    snapshot = shown.snapshot
    banner = f"Simulated host: {snapshot.simulated}\n\n" if snapshot.simulated else ""
    if shown.is_stored:
        # The store keeps one document for as long as the structure stays: usage in it is as old as that.
        banner += f"Stored: like this since {snapshot.taken_at:%Y-%m-%d %H:%M:%S} UTC\n\n"
    if not snapshot.gpus and not snapshot.silent_gpus:
        return banner
    return banner + render_matrix(snapshot, shown.numbers) + "\n".join(("", *_what_follows(snapshot), ""))


def _what_follows(snapshot: Snapshot) -> Iterator[str]:
    """What the links make of the host, and what decides whether P2P over PCIe works."""
    found = classify_snapshot(snapshot)
    yield f"Class: {found.topology_class}"
    yield from (f"  {fact}" for fact in found.facts)
    busbw = expected_ring_busbw(snapshot, [gpu.uuid for gpu in snapshot.gpus])
    if busbw is not None:
        yield f"  a ring of all GPUs should reach {busbw / 1e9:.0f} GB/s busbw with the largest messages"
    iommu = value_or_none(snapshot.host.iommu)
    yield f"IOMMU: {iommu or 'unknown'}"
    match snapshot.host.acs_redirects:
        case Value(value=()):
            yield "ACS: no bridge above the GPUs redirects P2P"
        case Value(value=bridges):
            yield f"ACS: P2P is redirected through the root by {', '.join(bridges)}"
        case Unreadable(detail=detail):
            yield f"ACS: not evaluated, {detail}"


def _as_json(shown: _Shown) -> str:
    """The labels under the keys of a parsed `nvidia-smi topo -m`, and beside them everything that was read."""
    snapshot = shown.snapshot
    names, found = gpu_names(snapshot, shown.numbers), classify_snapshot(snapshot)
    document = {
        "gpus": list(names.values()),
        "gpu_uuids": {name: uuid for uuid, name in names.items()},
        "nics": [f"NIC{place}" for place, _ in enumerate(snapshot.nics)],
        "nic_names": {f"NIC{place}": nic.name for place, nic in enumerate(snapshot.nics)},
        "links": link_labels(snapshot, shown.numbers),
        "class": found.topology_class,
        "class_facts": found.facts,
        "expected_ring_busbw_bytes_per_second": expected_ring_busbw(
            snapshot, [gpu.uuid for gpu in snapshot.gpus]
        ),
        "snapshot": snapshot,
    }
    return codec.encode(document, indent=1).decode() + "\n"
