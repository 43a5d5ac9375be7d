"""How fast a ring of these GPUs should be, from the snapshot alone. Pure.

busbw of a ring at the largest sizes = the fewest links up on any member x what the own model of NCCL or RCCL gives one
link x the fraction of it that rings reach. Only for boards whose GPU model has both numbers with a source (NVSwitch,
and a full mesh of eight MI300X), and only for collectives that were measured against it: a number that nobody can
trace is worse than none, so everything else gets None. Left out on purpose, with the reason:

- V100: a link constant and one operator's floor, no measured ring.
- NVLink bridges and meshes: a pair of A100 PCIe reaches 208 GB/s of 240 (NVIDIA/nccl-tests#178), so the fraction of
  switched boards does not hold there.
- H800: no link constant. PCIe: half or a third of the model, by firmware and layout.
- MI325X, MI350X and MI355X: inferred values only. Fewer than eight MI300X, or partitioned ones: pairs cannot pool links.
- NVLS: it reads above the ring (480 of 360 GB/s), helps all_reduce only, and whether it runs no snapshot tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from gpumond.model.benchmark import Collective
from gpumond.model.identity import GpuUuid
from gpumond.model.reading import Value, value_or_none
from gpumond.model.topology import Gpu, NvLinkRemote, Snapshot, XgmiLinkState
from gpumond.topology.classify import TopologyClass, classify_snapshot

RING_COLLECTIVES: Final = frozenset({Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER})
"""Those with published ring results on the boards below."""

EXPECTED_FROM_BYTES: Final = 1 << 30
"""Below, latency and pipelining still cost: eight A100 reach 229.0 of 232.8 GB/s at 1 GiB, 222.7 at 512 MiB."""


@dataclass(frozen=True, slots=True)
class RingModel:
    """What one product reaches. `product` is a pattern that occurs in the driver's name of the GPU."""

    product: str
    link_bytes_per_second: float
    link_source: str
    fraction: float
    fraction_source: str


_TOPO_H: Final = "NVIDIA/nccl src/graph/topo.h @5067397c"

RING_MODELS: Final = (
    RingModel(
        product=r"A100",
        link_bytes_per_second=20.0e9,
        link_source=f"{_TOPO_H}, SM80_NVLINK_BW",
        fraction=0.97,
        fraction_source="8 x A100: 234.9 of 240.0 GB/s (stas00/ml-engineering network/README.md @744d01e); 231.6 (Azure)",
    ),
    RingModel(
        product=r"H100|H200|H20",
        link_bytes_per_second=20.6e9,
        link_source=f"{_TOPO_H}, SM90_NVLINK_BW",
        fraction=0.97,
        fraction_source="8 x H200, NVLS off: 361.4 to 367.6 of 370.8 GB/s (stas00/ml-engineering @744d01e); H20: 360"
        " (NVIDIA/nccl-tests#312); H100: 370 stated by a maintainer (#212)",
    ),
    RingModel(
        product=r"B200",
        link_bytes_per_second=40.1e9,
        link_source=f"{_TOPO_H}, SM100_NVLINK_BW",
        fraction=0.93,
        fraction_source="8 x B200, NVLS off: 682.2 of 721.8 GB/s; 4 x B200: 673.2 (stas00/ml-engineering @744d01e)",
    ),
)
"""GB200 and B300 have the link of B200 and no published ring of one host, so they are not here."""


XGMI_RING_MODELS: Final = (
    RingModel(
        product=r"MI300X",
        link_bytes_per_second=48.0e9,
        link_source="ROCm/rccl src/graph/topo.h",
        fraction=0.93,
        fraction_source="8 x MI300X: 312.9 of 336.0 GB/s (stas00/ml-engineering @744d01e); floor of Azure 314, of OCI 310",
    ),
)
XGMI_MESH_GPUS: Final = 8
_WHOLE_GPU = "SPX"


def expected_ring_busbw(snapshot: Snapshot, members: Collection[GpuUuid]) -> float | None:
    """Bytes per second; None where the model does not apply, or where a fact that it needs could not be read."""
    gpus = [gpu for gpu in snapshot.gpus if gpu.uuid in members]
    if len(gpus) < 2 or len(gpus) < len(members):  # noqa: PLR2004 - one rank has no bus
        return None
    match classify_snapshot(snapshot).topology_class:
        case TopologyClass.NVSWITCH:
            return _slowest(gpus, RING_MODELS, _switch_links_up)
        case TopologyClass.XGMI if _is_whole_mesh(snapshot, gpus):
            return _slowest(gpus, XGMI_RING_MODELS, _xgmi_links_up)
        case _:
            return None


def _slowest(
    gpus: Sequence[Gpu], models: Sequence[RingModel], links_up: Callable[[Gpu], int | None]
) -> float | None:
    """By the member with the fewest links: a ring is as fast as its slowest part."""
    found = {ring_model_of(value_or_none(gpu.name) or "", models) for gpu in gpus}
    model = found.pop() if len(found) == 1 else None
    known = [count for gpu in gpus if (count := links_up(gpu))]
    if model is None or len(known) < len(gpus):
        return None
    return min(known) * model.link_bytes_per_second * model.fraction


def _is_whole_mesh(snapshot: Snapshot, gpus: Sequence[Gpu]) -> bool:
    """Eight whole GPUs, each joined to each: the only form with a measured ring."""
    uuids = {gpu.uuid for gpu in gpus}
    joined = [
        pair for pair in snapshot.pairs if {pair.gpu, pair.peer} <= uuids and isinstance(pair.xgmi, Value)
    ]
    are_whole = all(gpu.compute_partition == Value(_WHOLE_GPU) for gpu in gpus)
    return len(gpus) == XGMI_MESH_GPUS and are_whole and len(joined) == len(gpus) * (len(gpus) - 1)


def ring_model_of(gpu_name: str, models: Sequence[RingModel] = RING_MODELS) -> RingModel | None:
    """The model for a product; `GH200` is no `H200`, and `H200 NVL` has bridges instead of switches."""
    return next((model for model in models if re.search(rf"\b({model.product})\b", gpu_name)), None)


def _switch_links_up(gpu: Gpu) -> int | None:
    """NVLinks up towards switches; None where one of them cannot be read, since the count would be too low."""
    if not isinstance(gpu.nvlinks, Value):
        return None
    count = 0
    for link in gpu.nvlinks.value:
        if not isinstance(link.is_up, Value):
            return None
        if not link.is_up.value:
            continue
        if not isinstance(link.remote_type, Value):
            return None
        count += link.remote_type.value is NvLinkRemote.SWITCH
    return count


def _xgmi_links_up(gpu: Gpu) -> int | None:
    links = value_or_none(gpu.xgmi_links)
    return None if links is None else sum(link is XgmiLinkState.UP for link in links)
