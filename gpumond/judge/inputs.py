"""The fingerprint of a run: every input that gpumond records and that may move its numbers, as text by key. Pure.

Transport and algorithm are results and are not here. What could not be read is empty: the judge keeps its
last known value.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpumond.model.identity import GpuUuid
from gpumond.model.reading import NotSupported, Reading, Value
from gpumond.model.run import Engine, Run
from gpumond.model.topology import Gpu, Snapshot, link_label

_LIBRARY_VARIABLES: Final = ("NCCL_", "RCCL_", "HSA_")
_PER_RUN: Final = frozenset({"NCCL_DEBUG_FILE", "NCCL_CONF_FILE"})
"""Hold the directory of the run: as inputs they would make every night a changed host."""
_UNKNOWN: Final = "?"
_DIGEST_DIGITS: Final = 16

_Readable = Reading[str] | Reading[bool] | Reading[int] | Reading[float]


@dataclass(frozen=True, slots=True)
class HostInputs:
    """What is read from the host beside the snapshot; empty text: could not be read."""

    command_line: str = ""
    benchmark_sha256: str = ""
    conf_sha256: Mapping[str, str] = field(default_factory=dict)
    """By path; a file that is not there has the value `absent`."""


def fingerprint_of(run: Run, snapshot: Snapshot | None, host: HostInputs) -> dict[str, str]:
    """The inputs of a run on the host as it was then."""
    return {
        **_benchmark_inputs(run, host),
        **(_host_inputs(snapshot) if snapshot else {}),
        **(_gpu_inputs(snapshot, run.gpu_set.uuids) if snapshot else {}),
        "cmdline": host.command_line,
        **{f"conf.{path}": digest for path, digest in sorted(host.conf_sha256.items())},
        **_environment_inputs(run.environment),
    }


def _benchmark_inputs(run: Run, host: HostInputs) -> dict[str, str]:
    return {
        "rccl" if run.engine is Engine.RCCL_TESTS else "nccl": run.library_version,
        "benchmark": f"{run.engine.value} {run.tool_version}".strip() if run.tool_version else "",
        "benchmark_sha256": host.benchmark_sha256,
        "benchmark_launcher": _launcher_of(run),
    }


def _launcher_of(run: Run) -> str:
    """What stands before nccl-tests' program; `none` where nothing does."""
    program = next((at for at, word in enumerate(run.command) if word.endswith("_perf")), 0)
    return " ".join(run.command[:program]) or "none"


def _host_inputs(snapshot: Snapshot) -> dict[str, str]:
    host = snapshot.host
    return {
        "kernel": host.kernel,
        "driver": _text(host.driver_version),
        "cuda": _text(host.cuda_version),
        "rocm": _text(host.rocm_version),
        "iommu": _text(host.iommu),
    }


def _gpu_inputs(snapshot: Snapshot, members: Iterable[GpuUuid]) -> dict[str, str]:
    uuids = tuple(members)
    gpus = [gpu for uuid in sorted(uuids) if (gpu := snapshot.gpu(uuid)) is not None]
    return {
        "gpu_uuids": ",".join(sorted(uuids)),
        "vbios": _each(gpus, lambda gpu: gpu.vbios_version),
        "ecc_mode": _each(gpus, lambda gpu: gpu.ecc_mode),
        "mig_mode": _each(gpus, lambda gpu: gpu.mig_mode),
        "persistence_mode": _each(gpus, lambda gpu: gpu.persistence_mode),
        "compute_partition": _each(gpus, lambda gpu: gpu.compute_partition),
        "memory_partition": _each(gpus, lambda gpu: gpu.memory_partition),
        "power_limit": _each(gpus, lambda gpu: gpu.power_limit_watts),
        "clock_limit": _each(gpus, lambda gpu: gpu.sm_clock_limit_hertz),
        "links": _links(snapshot, frozenset(uuids)),
        "topology_hash": _topology_hash(snapshot, frozenset(uuids)),
    }


def _environment_inputs(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        f"env.{name}": value
        for name, value in sorted(environment.items())
        if name.startswith(_LIBRARY_VARIABLES) and name not in _PER_RUN
    }


def _links(snapshot: Snapshot, members: frozenset[GpuUuid]) -> str:
    """What the hash is of, in words for whoever reads that it changed: `NV18:54 SYS:2`, over directed pairs."""
    labels = Counter(
        link_label(pair) for pair in snapshot.pairs if pair.gpu in members and pair.peer in members
    )
    return (
        "" if _UNKNOWN in labels else " ".join(f"{label}:{count}" for label, count in sorted(labels.items()))
    )


def _topology_hash(snapshot: Snapshot, members: frozenset[GpuUuid]) -> str:
    """Of the links between the members, by UUID; empty where one of them cannot be read."""
    labels = {
        f"{pair.gpu} {pair.peer}": link_label(pair)
        for pair in snapshot.pairs
        if pair.gpu in members and pair.peer in members
    }
    widths = {uuid: _text(gpu.pcie.width_lanes) for uuid in members if (gpu := snapshot.gpu(uuid))}
    facts = sorted((*labels.items(), *widths.items()))
    if not labels or _UNKNOWN in labels.values() or len(widths) < len(members):
        return ""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:_DIGEST_DIGITS]


def _each(gpus: Iterable[Gpu], read: Callable[[Gpu], _Readable]) -> str:
    """One word where all have the same, else a word for each GPU; empty where one cannot be read."""
    texts = [_text(read(gpu)) for gpu in gpus]
    if not texts or "" in texts:
        return ""
    return texts[0] if len(set(texts)) == 1 else ",".join(texts)


def _text(reading: _Readable) -> str:
    match reading:
        case Value(value):
            return str(value)
        case NotSupported():
            return "not supported"
        case _:
            return ""
