"""What NCCL would log of a made-up host while it connects its ring, in NCCL's own words (captures/h200x2). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gpumond.model.topology import P2pCapability, P2pStatus
from gpumond.simulate.world import Scenario, ScenarioGpu

P2P: Final = "P2P/CUMEM"
SHARED_MEMORY: Final = "SHM/direct/direct"

_CHANNELS_NVLINK: Final = 24  # of the captures
_CHANNELS_PCIE: Final = 4
_CHANNELS_SHARED_MEMORY: Final = 2
_NVLS_CHANNELS: Final = 16
_NVLS_RANKS_MIN: Final = 3  # with two the log of the captures says 0
_P2P_CHANNELS: Final = 32


def log_lines(world: Scenario, gpus: Sequence[ScenarioGpu], *, host: str, pid: int) -> Iterator[str]:
    """The lines that say which way the data of a ring over `gpus` takes."""
    ranks = len(gpus)
    ways = (
        {rank: _way(world, gpus[rank], gpus[(rank + 1) % ranks]) for rank in range(ranks)}
        if ranks > 1
        else {}
    )
    is_p2p = all(way == P2P for way in ways.values())
    channels = _channels(gpus, is_p2p=is_p2p)
    for rank, way in ways.items():
        peer = (rank + 1) % ranks
        for channel in range(channels):
            yield (
                f"{host}:{pid}:{pid} [{rank}] NCCL INFO Channel {channel:02}/0 : {rank}[{rank}] -> {peer}[{peer}] via {way}"
            )
    nvls = _NVLS_CHANNELS if world.nvswitches and is_p2p and ranks >= _NVLS_RANKS_MIN else 0
    for rank in range(ranks):
        yield (
            f"{host}:{pid}:{pid} [{rank}] NCCL INFO {channels} coll channels, 0 collnet channels, {nvls} nvls channels,"
            f" {_P2P_CHANNELS} p2p channels, {_P2P_CHANNELS} p2p channels per peer"
        )


def _way(world: Scenario, gpu: ScenarioGpu, peer: ScenarioGpu) -> str:
    numbers = (world.gpus.index(gpu), world.gpus.index(peer))
    for pair in world.pairs:
        if (pair.gpu, pair.peer) == numbers:
            can_read = pair.p2p.get(P2pCapability.READ) is P2pStatus.OK
            return P2P if can_read else SHARED_MEMORY
    return SHARED_MEMORY


def _channels(gpus: Sequence[ScenarioGpu], *, is_p2p: bool) -> int:
    if not is_p2p:
        return _CHANNELS_SHARED_MEMORY
    return _CHANNELS_NVLINK if all(gpu.links for gpu in gpus) else _CHANNELS_PCIE
