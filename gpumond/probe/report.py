"""What one vendor's driver told of this host: the part of a snapshot that differs from vendor to vendor."""

from __future__ import annotations

from dataclasses import dataclass

from gpumond.model.reading import NOT_SUPPORTED, Reading
from gpumond.model.topology import Gpu, GpuPair, SilentGpu


@dataclass(frozen=True, slots=True)
class DriverReport:
    """`driver` is its version, or why the driver as a whole cannot be asked."""

    driver: Reading[str]
    library_version: Reading[str]
    cuda_version: Reading[str] = NOT_SUPPORTED
    rocm_version: Reading[str] = NOT_SUPPORTED
    gpus: tuple[Gpu, ...] = ()
    silent_gpus: tuple[SilentGpu, ...] = ()
    pairs: tuple[GpuPair, ...] = ()
