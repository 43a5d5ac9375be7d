"""Which GPUs are close enough to each other for tensor parallelism. Pure.

Tensor parallelism waits for an all_reduce twice a layer, so what counts is the *worst* pair of a group: a group is a set
in which every pair is joined in the same way. Groups partition the GPUs; a GPU without a close peer is one by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Final

from gpumond.model.topology import PathLevel
from gpumond.topology.advise.host import AdvisedHost, GpuLink

EXHAUSTIVE_GPUS_MAX: Final = 8
"""Every way to cut eight GPUs into pairs is 105 cuts; of sixteen, two million."""


class Tier(StrEnum):
    """What joins the GPUs of a group, best first."""

    DIRECT = "direct"  # NVLink or xGMI
    SWITCH = "switch"  # PCIe switches, not through a CPU
    SOCKET = "socket"  # PCIe through the host bridges of one NUMA node
    ALONE = "alone"


@dataclass(frozen=True, slots=True)
class Group:
    """`is_certain` is False where nothing says whether P2P works between its members."""

    gpus: tuple[str, ...]
    tier: Tier
    is_certain: bool = True

    @property
    def largest_tensor_size(self) -> int:
        """The largest power of two: attention heads come in powers of two, seldom in threes or fives."""
        return 1 << (len(self.gpus).bit_length() - 1)


_Neighbours = dict[str, dict[str, int]]
"""GPU -> peer -> how good the link is; only peers that are close enough."""


def cheap_groups(host: AdvisedHost) -> tuple[Group, ...]:
    """The partition, ordered by the first GPU of each group."""
    groups: list[Group] = []
    left = [gpu.name for gpu in host.gpus]
    for tier in (Tier.DIRECT, Tier.SWITCH, Tier.SOCKET):
        if tier is Tier.SOCKET and groups:
            break  # beside closer groups, a path through the CPU is what lies between groups
        for members in _cliques(left, _neighbours(host, left, tier)):
            groups.append(Group(members, tier, _is_certain(host, members, tier)))
            left = [name for name in left if name not in members]
    groups += [Group((name,), Tier.ALONE) for name in left]
    places = {gpu.name: place for place, gpu in enumerate(host.gpus)}
    return tuple(sorted(groups, key=lambda group: places[group.gpus[0]]))


def slots_of(group: Group, size: int, host: AdvisedHost) -> list[tuple[str, ...]]:
    """`group` cut into sets of `size` GPUs, so that the weakest link inside a set is as strong as can be."""
    count = len(group.gpus) // size
    if size == 1 or count <= 1 or len(group.gpus) > EXHAUSTIVE_GPUS_MAX:
        return [group.gpus[at * size : (at + 1) * size] for at in range(count)]
    return list(_best_cut(group.gpus, size, lambda one, other: host.link(one, other).nvlinks))


# --- which pairs are close ---------------------------------------------------------------------------------------------


def _neighbours(host: AdvisedHost, names: Sequence[str], tier: Tier) -> _Neighbours:
    found: _Neighbours = {name: {} for name in names}
    for one, other in combinations(names, 2):
        link = host.link(one, other)
        if _is_close(link, tier) and _fit_together(host, one, other):
            # NVLinks are counted: two of four between GPUs of a mesh are twice as good as one.
            found[one][other] = found[other][one] = max(link.nvlinks, 1)
    return found


def _is_close(link: GpuLink, tier: Tier) -> bool:
    """No tier where the driver refuses P2P: NVLinks can be up while the fabric is not (leptonai/gpud#1106)."""
    if link.p2p is False:
        return False
    match tier:
        case Tier.DIRECT:
            return link.is_direct
        case Tier.SWITCH:
            return not link.is_direct and link.level in (PathLevel.PIX, PathLevel.PXB)
        case Tier.SOCKET:
            return not link.is_direct and link.level in (PathLevel.PHB, PathLevel.NODE)
        case Tier.ALONE:
            return False


def _fit_together(host: AdvisedHost, one: str, other: str) -> bool:
    """Ranks of one model split it evenly, so they are of one product, and whole GPUs."""
    gpu, peer = host.gpu(one), host.gpu(other)
    return gpu.model == peer.model and not gpu.has_slices and not peer.has_slices


def _is_certain(host: AdvisedHost, members: Sequence[str], tier: Tier) -> bool:
    if tier is Tier.DIRECT:
        return True
    return all(host.link(*pair).p2p for pair in combinations(members, 2))


# --- cliques and cuts --------------------------------------------------------------------------------------------------


def _cliques(names: Sequence[str], neighbours: _Neighbours) -> list[tuple[str, ...]]:
    """Sets of at least two in which all are neighbours: the largest first, and the best linked of equals. Greedy."""
    order = {name: place for place, name in enumerate(names)}
    left, cliques = list(names), list[tuple[str, ...]]()
    while True:
        grown = [_grow(name, set(left), neighbours, order) for name in left]
        best = max(grown, key=lambda clique: (len(clique), _links_in(clique, neighbours)), default=())
        if len(best) < 2:  # noqa: PLR2004 - one GPU is no group
            return cliques
        cliques.append(tuple(sorted(best, key=order.__getitem__)))
        left = [name for name in left if name not in best]


def _links_in(clique: Sequence[str], neighbours: _Neighbours) -> int:
    return sum(neighbours[one][other] for one, other in combinations(clique, 2))


def _grow(seed: str, allowed: set[str], neighbours: _Neighbours, order: Mapping[str, int]) -> tuple[str, ...]:
    """From `seed`, always by the neighbour of all that has the most links to those that are in."""
    clique = [seed]
    links = {name: count for name, count in neighbours[seed].items() if name in allowed}
    while links:
        nearest = min(links, key=lambda name: (-links[name], order[name]))
        clique.append(nearest)
        links = {
            name: count + neighbours[nearest][name]
            for name, count in links.items()
            if name in neighbours[nearest]
        }
    return tuple(clique)


def _best_cut(
    gpus: tuple[str, ...], size: int, links: Callable[[str, str], int]
) -> tuple[tuple[str, ...], ...]:
    def weakest_links(cut: tuple[tuple[str, ...], ...]) -> list[int]:
        return sorted(min(links(*pair) for pair in combinations(part, 2)) for part in cut)

    # max() keeps the first of equals, which is the one in the order of the GPUs.
    return max(_cuts(gpus, size), key=weakest_links)


def _cuts(gpus: tuple[str, ...], size: int) -> list[tuple[tuple[str, ...], ...]]:
    """Every way to cut `gpus` into sets of `size`; those that are too many are left over at the end."""
    if len(gpus) < size:
        return [()]
    first, rest = gpus[0], gpus[1:]
    cuts = []
    for others in combinations(rest, size - 1):
        remaining = tuple(name for name in rest if name not in others)
        cuts += [((first, *others), *cut) for cut in _cuts(remaining, size)]
    return cuts
