"""The environment of every child, by allow-list: what is not named here does not reach it. Pure.

A stray `NCCL_*`, `CUDA_*`, `SLURM_*` or `OMPI_*` of whoever started the daemon would change what is measured, and a
token would end up in a run record. So children get constants, configured values, and two variables of ours at most.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpumond.errors import UsageError
from gpumond.model.topology import Vendor

BENCHMARK_INHERITED = ("PATH",)
PROBE_INHERITED = ("PATH", "LD_LIBRARY_PATH", "ROCM_HOME", "ROCM_PATH", "NVIDIA_VISIBLE_DEVICES")
"""A probe loads the driver's own library, which some hosts have only on the loader's path, or below a ROCm of their own.
"""

HELPER_INHERITED = ("PATH", "HOME", "SLURM_CONF", "KUBECONFIG")
"""Where a scheduler's client finds its configuration."""

PATH_DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

RESERVED = re.compile(
    r"CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|ROCR_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL"
    r"|NVIDIA_VISIBLE_DEVICES|NCCL_DEBUG_FILE|NCCL_CONF_FILE|NCCL_TESTS_DEVICE|NCCL_TESTS_SPLIT(_MASK)?"
    r"|HOME|LC_ALL|PATH|LD_LIBRARY_PATH|GPUMOND_.*"
)
"""Names that no configuration may set: which GPUs are measured, and where their output goes, is not a parameter."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_ROCR_UUID = re.compile(r"GPU-[0-9a-f]{16}")
"""What ROCr compares names with; the first name that it does not know ends its list, without a word."""


def benchmark_environment(
    base: Mapping[str, str],
    *,
    gpu_uuids: Sequence[str],
    extra: Mapping[str, str],
    home: Path,
    run_directory: Path,
    library_path: Sequence[Path],
    vendor: Vendor,
    debug_subsystems: Sequence[str] = ("INIT", "ENV"),
) -> dict[str, str]:
    """The environment of one benchmark process, complete.

    `home` is an empty directory of the run: NCCL reads `~/.nccl.conf`, and CUDA writes its kernel cache there.
    `extra` is what the operator configured (`NCCL_*` and the like); it may override NCCL_DEBUG, and nothing of
    RESERVED. Raises UsageError where it tries to, and for an AMD GPU that ROCr does not know by its UUID.
    """
    if not gpu_uuids:
        raise ValueError("no GPUs: an empty list would hide them all")
    environment = _inherited(base, BENCHMARK_INHERITED)
    environment |= {
        "LC_ALL": "C",
        "HOME": str(home),
        # Transports are told at this level only. It costs nothing once the connections are made (docs/results.md).
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": ",".join(debug_subsystems),
        # NCCL's lines on stdout would be glued to half rows of the table (nccl-output.md 0).
        "NCCL_DEBUG_FILE": f"{run_directory}/nccl.%h.%p.log",
        "NCCL_CONF_FILE": f"{run_directory}/nccl.conf",
    }
    environment |= _visible_gpus(gpu_uuids, vendor)
    if library_path:
        environment["LD_LIBRARY_PATH"] = ":".join(str(directory) for directory in library_path)
    for name, value in extra.items():
        _check(name, value)
        environment[name] = value
    return environment


def probe_environment(base: Mapping[str, str], *, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child that only reads; `extra` is for tests, which point it at a fake library."""
    return {**_inherited(base, PROBE_INHERITED), "LC_ALL": "C", **(extra or {})}


def helper_environment(base: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that answers a guard: an operator's command, squeue, sbatch."""
    return {**_inherited(base, HELPER_INHERITED), "LC_ALL": "C"}


def _inherited(base: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {"PATH": PATH_DEFAULT, **{name: base[name] for name in names if base.get(name)}}


def _visible_gpus(gpu_uuids: Sequence[str], vendor: Vendor) -> dict[str, str]:
    uuids = ",".join(gpu_uuids)
    match vendor:
        case Vendor.NVIDIA:
            return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": uuids}
        case Vendor.AMD:
            _check_rocr_uuids(gpu_uuids)
            # HIP_VISIBLE_DEVICES takes indices only and is applied on top: it stays unset (engineering.md 2.3).
            return {"ROCR_VISIBLE_DEVICES": uuids}


def _check_rocr_uuids(gpu_uuids: Sequence[str]) -> None:
    for uuid in gpu_uuids:
        if not _ROCR_UUID.fullmatch(uuid):
            raise UsageError(
                f"ROCr cannot be told to use GPU {uuid} by its name",
                hint="It takes `GPU-` and 16 hexadecimal digits; a GPU without a unique id has no such name.",
            )


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"environment variable {name!r} has no valid name", hint="Use letters, digits and `_`."
        )
    if RESERVED.fullmatch(name):
        raise UsageError(
            f"environment variable {name} is set by gpumond itself",
            hint="Remove it from the configuration; choose GPUs with a GPU set.",
        )
    if "\0" in value:
        raise UsageError(f"environment variable {name} holds a NUL byte", hint="Remove the NUL byte.")
