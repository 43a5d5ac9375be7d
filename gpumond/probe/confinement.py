"""What this process is allowed to see of the host: its cpuset, and which GPUs its container was given.

A container that is started anew with fewer GPUs, or a Slurm job's cpuset, makes GPUs vanish and affinities move although
no hardware has changed (rapidsai/dask-cuda#1358).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpumond.model.reading import NOT_SUPPORTED, Reading, Value
from gpumond.probe.sysfs import text_of

_ALLOWED: Final = {"Cpus_allowed_list": "CPUs", "Mems_allowed_list": "memory nodes"}
_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
"""Set by whoever starts a container, and read by NVIDIA's container runtime."""


def read_cpuset(proc: Path) -> Reading[str]:
    """`CPUs 0-63; memory nodes 0-1`."""
    lines = (line.partition(":") for line in text_of(proc / "self/status").splitlines())
    found = [f"{_ALLOWED[name]} {value.strip()}" for name, _, value in lines if name in _ALLOWED]
    return Value("; ".join(found)) if found else NOT_SUPPORTED


def read_container_devices(environment: Mapping[str, str]) -> Reading[str]:
    return Value(environment.get(_VISIBLE, ""))
