"""What kind of interconnect the GPUs of a host have, and the facts on which that rests. Pure.

First match wins: nvswitch, nvlink-partial, xgmi, pcie-p2p, pcie-no-p2p, unknown. From a snapshot, NVSwitch is told by
the device at the other end of the links; a pasted matrix has only counts, so there it is told by every pair having the
full number of links of a known GPU. P2P is what the driver claims: hosts exist where it says OK and copies hang.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, permutations
from typing import Final

from gpumond.model.reading import Unreadable, Value, value_or_none
from gpumond.model.topology import (
    Gpu,
    GpuPair,
    NvLinkRemote,
    P2pCapability,
    P2pStatus,
    Snapshot,
    Vendor,
)
from gpumond.model.topology_text import P2pMatrix, P2pQuestion, TopologyText, Way


class TopologyClass(StrEnum):
    NVSWITCH = "nvswitch"
    NVLINK_PARTIAL = "nvlink-partial"
    XGMI = "xgmi"
    PCIE_P2P = "pcie-p2p"
    PCIE_NO_P2P = "pcie-no-p2p"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Classification:
    """The class, and in sentences why it is this one."""

    topology_class: TopologyClass
    facts: tuple[str, ...]


FULL_NVLINKS: Final = {
    6: "V100",
    8: "A800 and H800",
    12: "A100",
    18: "H100, H200, B200 and GB200",
}
"""NVLinks of a GPU whose links all go to switches: what every pair of a switched host shows."""

_MESH_OF_H100_LINKS = 6
_MESH_OF_H100_GPUS = 4
"""Four H100 in a full mesh show NV6 for each pair (3 x 6 = 18 links), as a V100 behind switches does."""

_YES = frozenset({"OK", "ENABLED", "TRUE"})
_NO_ANSWER = frozenset({"U", "N/A", "UNKNOWN"})
_NVLINK = re.compile(r"NV(\d+)")

_DECIDING: Final = (
    # What says whether memory of the peer can be reached. NVLink and atomics matrices do not say it, and a PCI
    # matrix tells a capability only, so it counts where there is nothing better.
    frozenset({P2pQuestion.READ, P2pQuestion.WRITE, P2pQuestion.ACCESS}),
    frozenset({P2pQuestion.UNSTATED}),
    frozenset({P2pQuestion.PCI}),
)


def classify_text(topology: TopologyText) -> Classification:
    """The class of a host as its pasted matrix shows it."""
    if len(topology.gpus) < 2:  # noqa: PLR2004 - one GPU has no peer
        return _unknown(f"{len(topology.gpus)} GPU in the text, so no link between GPUs")
    labels = {pair: better_label(topology.links, Way(*pair)) for pair in combinations(topology.gpus, 2)}
    counts = [_nvlinks(label) for label in labels.values()]
    if any(counts):
        return _by_counts(counts, len(topology.gpus))
    fact = _labels_told(labels)
    if "XGMI" in labels.values():
        return Classification(TopologyClass.XGMI, (fact,))
    if None in labels.values():
        return _unknown(fact, "pairs that are not known could be anything")
    if not topology.shows_nvlinks:
        return _unknown(fact, "this matrix shows PCIe paths only, NVLinks would not be in it")
    return _by_p2p(list(p2p_of_text(topology).values()), fact)


def classify_snapshot(snapshot: Snapshot) -> Classification:
    """The class of a host as its driver tells it."""
    if len(snapshot.gpus) < 2:  # noqa: PLR2004 - one GPU has no peer
        return _unknown(f"{len(snapshot.gpus)} GPU answers, so no link between GPUs")
    if snapshot.vendor is Vendor.AMD:
        return _by_xgmi(snapshot)
    to_switches = [_links_to_switches(gpu) for gpu in snapshot.gpus]
    if all(to_switches):
        told = _told(Counter(f"with {count}" for count in to_switches))
        return Classification(TopologyClass.NVSWITCH, (f"NVLinks that end at an NVSwitch: GPUs {told}",))
    counts = _pair_nvlinks(snapshot.pairs)
    if any(counts):
        return _partial_or_unseen_switch(snapshot, counts)
    if not counts or None in counts:
        return _unknown("the NVLinks of some pairs could not be read")
    return _by_p2p([p2p_of_pair(pair) for pair in snapshot.pairs], "no pair of GPUs has an NVLink that is up")


# --- NVLink ------------------------------------------------------------------------------------------------------------


def _by_counts(counts: Sequence[int | None], gpus: int) -> Classification:
    """By the number of NVLinks of each pair, at least one of them not zero; None where it is not known."""
    told = Counter("not known" if n is None else f"NV{n}" if n else "no NVLink" for n in counts)
    fact = f"{_pairs_of_gpus(len(counts))}: {_told(told)}"
    some = {count for count in counts if count is not None}
    full = next(iter(some))
    if len(some) > 1 or full not in FULL_NVLINKS:
        return Classification(TopologyClass.NVLINK_PARTIAL, (fact,))
    if None in counts:
        return _unknown(fact, "with the other pairs it could be every pair or not")
    if full == _MESH_OF_H100_LINKS and gpus <= _MESH_OF_H100_GPUS:
        why = f"NV{full} between {gpus} GPUs is a mesh without switches"
        return Classification(TopologyClass.NVLINK_PARTIAL, (fact, why))
    return Classification(TopologyClass.NVSWITCH, (fact, f"{full} is every NVLink of {FULL_NVLINKS[full]}"))


def _partial_or_unseen_switch(snapshot: Snapshot, counts: Sequence[int | None]) -> Classification:
    """Direct NVLinks, or a switch that the driver does not name: then the counts have to tell, as in a text."""
    remotes = {remote for gpu in snapshot.gpus for remote in _remotes(gpu)}
    by_counts = _by_counts(counts, len(snapshot.gpus))
    if remotes <= {NvLinkRemote.UNKNOWN}:
        why = "the devices at the other ends of the NVLinks could not be read"
        return Classification(by_counts.topology_class, (*by_counts.facts, why))
    to_switches = sum(1 for gpu in snapshot.gpus if _links_to_switches(gpu))
    why = f"{to_switches} of {len(snapshot.gpus)} GPUs have NVLinks that end at an NVSwitch"
    return Classification(TopologyClass.NVLINK_PARTIAL, (by_counts.facts[0], why))


def _remotes(gpu: Gpu) -> list[NvLinkRemote]:
    """What is at the other end of each NVLink that is up, as far as it can be read."""
    links = value_or_none(gpu.nvlinks) or ()
    up = [link for link in links if value_or_none(link.is_up)]
    return [link.remote_type.value for link in up if isinstance(link.remote_type, Value)]


def _links_to_switches(gpu: Gpu) -> int:
    return sum(1 for remote in _remotes(gpu) if remote is NvLinkRemote.SWITCH)


def _pair_nvlinks(pairs: Iterable[GpuPair]) -> list[int | None]:
    """NVLinks of each unordered pair, of the better direction; `not supported` is none of them."""
    counts: dict[frozenset[str], int | None] = {}
    for pair in pairs:
        key = frozenset((pair.gpu, pair.peer))
        known = pair.nvlinks.value if isinstance(pair.nvlinks, Value) else None
        if pair.nvlinks.state == "not_supported":
            known = 0
        before = counts.get(key)
        counts[key] = known if before is None else max(before, known or 0)
    return list(counts.values())


def _nvlinks(label: str | None) -> int | None:
    match = _NVLINK.fullmatch(label) if label else None
    return int(match[1]) if match else (0 if label else None)


# --- xGMI --------------------------------------------------------------------------------------------------------------


def _by_xgmi(snapshot: Snapshot) -> Classification:
    """One xGMI connection makes the class, as in a text: a host of two hives has PCIe between them."""
    pairs = snapshot.pairs
    connected = sum(isinstance(pair.xgmi, Value) for pair in pairs)
    fact = f"xGMI connects {connected} of {len(pairs)} ways between GPUs"
    if connected:
        return Classification(TopologyClass.XGMI, (fact,))
    if any(isinstance(pair.xgmi, Unreadable) for pair in pairs):
        return _unknown(fact, "the link types of some pairs could not be read")
    return _by_p2p([p2p_of_pair(pair) for pair in pairs], fact)


# --- P2P ---------------------------------------------------------------------------------------------------------------


def _by_p2p(answers: Sequence[bool | None], links: str) -> Classification:
    """By whether each GPU reaches each other one; None where that was not answered."""
    yes, no = sum(answer is True for answer in answers), sum(answer is False for answer in answers)
    fact = f"P2P is said to work on {yes} of {len(answers)} ways between GPUs"
    if no:
        return Classification(TopologyClass.PCIE_NO_P2P, (links, fact))
    if answers and yes == len(answers):
        return Classification(TopologyClass.PCIE_P2P, (links, fact))
    return _unknown(links, fact if yes else "nothing says whether P2P works")


def p2p_of_text(topology: TopologyText) -> dict[Way, bool | None]:
    """Whether each GPU reaches each other one; empty where no matrix says it."""
    matrices = _deciding_matrices(topology.p2p)
    if not matrices:
        return {}
    ways = [Way(*way) for way in permutations(topology.gpus, 2)]
    return {way: _all_yes(_answer(matrix.statuses.get(way)) for matrix in matrices) for way in ways}


def _deciding_matrices(matrices: Sequence[P2pMatrix]) -> list[P2pMatrix]:
    for questions in _DECIDING:
        chosen = [matrix for matrix in matrices if matrix.question in questions]
        if questions == {P2pQuestion.UNSTATED} and len({tuple(m.statuses.items()) for m in chosen}) > 1:
            return []  # one of them is the answer, and nothing says which
        if chosen:
            return chosen
    return []


def p2p_of_pair(pair: GpuPair) -> bool | None:
    """Whether the driver lets this GPU read and write the memory of that peer; None where it does not say."""
    readings = [pair.p2p.get(capability) for capability in (P2pCapability.READ, P2pCapability.WRITE)]
    statuses = [reading.value for reading in readings if isinstance(reading, Value)]
    known = [None if status is P2pStatus.U else status is P2pStatus.OK for status in statuses]
    return _all_yes(known) if known else None


def _answer(status: str | None) -> bool | None:
    if status is None or status.upper() in _NO_ANSWER:
        return None
    return status.upper() in _YES


def _all_yes(answers: Iterable[bool | None]) -> bool | None:
    """No where one is no; not answered where one is not answered and none is no."""
    found = list(answers)
    if any(answer is False for answer in found):
        return False
    return None if any(answer is None for answer in found) else True


# --- sentences ---------------------------------------------------------------------------------------------------------


def _unknown(*facts: str) -> Classification:
    return Classification(TopologyClass.UNKNOWN, facts)


def better_label(links: Mapping[Way, str], way: Way) -> str | None:
    """The label of a pair; where the directions differ, the one with NVLinks (a MIG GPU reads SYS to all peers)."""
    labels = [label for label in (links.get(way), links.get(way.back)) if label is not None]
    return max(labels, key=lambda label: _nvlinks(label) or 0) if labels else None


def _labels_told(labels: Mapping[tuple[str, str], str | None]) -> str:
    told = _told(Counter(label or "not known" for label in labels.values()))
    return f"{_pairs_of_gpus(len(labels))}: {told}"


def _pairs_of_gpus(count: int) -> str:
    return f"{count} pair of GPUs" if count == 1 else f"{count} pairs of GPUs"


def _told(counts: Mapping[str, int]) -> str:
    """`16 SYS, 12 PIX`: most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {label}" for label, count in ordered)
