"""How NCCL moved the data of a run: what it said of itself while it connected. A result, not a setting.

Ranks are numbered as NCCL numbers them, in the order of the GPU set. A transport is NCCL's own word without what
differs from link to link: `P2P/CUMEM`, `P2P/direct`, `SHM/direct`, `NET/IB/GDRDMA`, `NET/Socket`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

NVLS = "NVLS"
"""Reductions in the NVSwitch; not a way between two ranks, but a transport to whoever asks why a number fell."""


@dataclass(frozen=True, slots=True)
class PairTransport:
    """What carries data from one rank to another, and on how many channels."""

    source: int
    target: int
    transport: str
    channels: int


@dataclass(frozen=True, slots=True)
class AlgorithmChoice:
    """What NCCL chose for one size, in its own words: `AllReduce`, `RING`, `LL128`."""

    operation: str
    size_bytes: int
    algorithm: str
    protocol: str
    channels: int | None = None


@dataclass(frozen=True, slots=True)
class TransportReport:
    """None, where a value may be, means that the log does not say."""

    pairs: tuple[PairTransport, ...] = ()
    nvls_channels: int | None = None
    collective_channels: int | None = None
    p2p_channels: int | None = None
    uses_gdr: bool | None = None
    """GPUDirect RDMA on the ring."""
    library_version: str = ""
    choices: tuple[AlgorithmChoice, ...] = ()
    warnings: tuple[str, ...] = ()
    """The first of them; a warning is not a failure."""
    is_complete: bool = True
    """False where the log was longer than what was read."""

    @property
    def channels(self) -> dict[str, int]:
        """Channels by transport, summed over ordered pairs of ranks; with NVLS the channels of a rank."""
        counts: Counter[str] = Counter()
        for pair in self.pairs:
            counts[pair.transport] += pair.channels
        if self.nvls_channels:
            counts[NVLS] = self.nvls_channels
        return dict(sorted(counts.items()))

    @property
    def summary(self) -> str:
        """Such as `NVLS:16 P2P/CUMEM:48`; empty where the log says nothing."""
        return " ".join(f"{transport}:{count}" for transport, count in self.channels.items())
