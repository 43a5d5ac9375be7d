"""The way between two GPUs: its label, as the vendor's tool prints it, and what the driver grants on it (P2P). Pure.

What follows from something that is reported already is not reported again: a label that is short because links are
down, P2P that is gone because the fabric is not ready, because MIG is on, or because the NVLinks of that way are gone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gpumond.model.change import Change, ChangeKind, Level, Subject, SubjectKind
from gpumond.model.identity import PciBusId
from gpumond.model.reading import Reading, Value, value_or_none
from gpumond.model.topology import GpuPair, P2pCapability, P2pStatus, PathLevel, link_label
from gpumond.topology.compare.culprits import (
    Pair,
    culprits_of,
    gpu_names,
    switch_groups,
)
from gpumond.topology.compare.matching import Comparison, PairTwin, changed
from gpumond.topology.fabric import faults_of

_NVLINK = re.compile(r"NV(\d+)")
_XGMI = "XGMI"
_UNKNOWN = "?"
_LEVELS = tuple(PathLevel)
_SHOWN_MAX = 6


@dataclass(frozen=True, slots=True)
class Explained:
    """GPUs (by key) whose pairs lost, or gained, something for a reason that is reported already."""

    losers: frozenset[str]
    gainers: frozenset[str]

    def to(self, *, is_loss: bool) -> frozenset[str]:
        return self.losers if is_loss else self.gainers


@dataclass(frozen=True, slots=True)
class _Difference:
    """One directed way of which something is less, or more."""

    twin: PairTwin
    what: str
    before: str
    after: str


def pair_changes(comparison: Comparison, by_links: Explained) -> Iterator[Change]:
    """`by_links`: GPUs whose NVLink or xGMI changes are reported."""
    modes = _changed_mig(comparison)
    of_label = Explained(by_links.losers | modes, by_links.gainers | modes)
    fabric = _changed_fabric(comparison)
    of_p2p = Explained(fabric.losers | modes, fabric.gainers | modes)
    yield from _labels(comparison, of_label)
    yield from _weights(comparison, of_label)
    yield from _p2p(comparison, of_p2p)


def _changed_mig(comparison: Comparison) -> frozenset[str]:
    """A GPU in MIG mode has no P2P, and its row reads SYS (vllm-project/vllm#8947)."""
    return frozenset(
        twin.key for twin in comparison.gpus.twins if changed(twin.before.mig_mode, twin.after.mig_mode)
    )


def _changed_fabric(comparison: Comparison) -> Explained:
    losers, gainers = set(), set()
    for twin in comparison.gpus.twins:
        fabrics = changed(twin.before.fabric, twin.after.fabric)
        if fabrics is not None:
            before, after = (faults_of(fabric) for fabric in fabrics)
            losers |= {twin.key} if after - before else set()
            gainers |= {twin.key} if before - after else set()
    return Explained(frozenset(losers), frozenset(gainers))


# --- labels ------------------------------------------------------------------------------------------------------------


def _labels(comparison: Comparison, explained: Explained) -> Iterator[Change]:
    found: dict[ChangeKind, list[_Difference]] = defaultdict(list)
    comparable: set[Pair] = set()
    for twin in comparison.pairs:
        was, now = link_label(twin.before), link_label(twin.after)
        if _UNKNOWN in (was, now):
            continue
        comparable.add(twin.ends)
        kind = _label_kind(was, now)
        if kind is not None and not twin.ends & explained.to(is_loss=kind in _LOSSES):
            found[kind].append(_Difference(twin, f"{was} -> {now}", was, now))
    for kind, differences in found.items():
        yield from _grouped(comparison, kind, _label_level(kind, differences), differences, comparable)


_LOSSES = frozenset(
    {ChangeKind.LINK_LOST, ChangeKind.LINK_DOWNGRADED, ChangeKind.P2P_LOST, ChangeKind.XGMI_FARTHER}
)


def _label_kind(was: str, now: str) -> ChangeKind | None:
    if was == now:
        return None
    if is_direct(was) != is_direct(now):
        return ChangeKind.LINK_LOST if is_direct(was) else ChangeKind.LINK_GAINED
    return ChangeKind.LINK_DOWNGRADED if _distance(now) > _distance(was) else ChangeKind.LINK_IMPROVED


def _label_level(kind: ChangeKind, differences: list[_Difference]) -> Level:
    if kind not in _LOSSES:
        return Level.INFO
    return (
        Level.CRITICAL if any(is_direct(difference.before) for difference in differences) else Level.WARNING
    )


def is_direct(label: str) -> bool:
    """Whether the GPUs reach each other past PCIe."""
    return label == _XGMI or _NVLINK.fullmatch(label) is not None


def _distance(label: str) -> int:
    """More is worse, among labels that are direct and among those that are not. No host has both NVLink and xGMI."""
    if label == _XGMI:
        return 0
    match = _NVLINK.fullmatch(label)
    return -int(match[1]) if match else _LEVELS.index(PathLevel(label))


# --- xGMI --------------------------------------------------------------------------------------------------------------


def _weights(comparison: Comparison, explained: Explained) -> Iterator[Change]:
    """The weight counts hops; the driver's own "hops" do not (ROCm/rocm-systems#5763)."""
    found: dict[ChangeKind, list[_Difference]] = defaultdict(list)
    comparable: set[Pair] = set()
    for twin in comparison.pairs:
        weights = (_weight(twin.before), _weight(twin.after))
        if None in weights:
            continue
        comparable.add(twin.ends)
        was, now = (weight or 0 for weight in weights)
        kind = ChangeKind.XGMI_FARTHER if now > was else ChangeKind.XGMI_NEARER
        if was != now and not twin.ends & explained.to(is_loss=kind in _LOSSES):
            what = f"xGMI weight {now}, accepted is {was}"
            found[kind].append(_Difference(twin, what, str(was), str(now)))
    for kind, differences in found.items():
        level = Level.CRITICAL if kind in _LOSSES else Level.INFO
        yield from _grouped(comparison, kind, level, differences, comparable)


def _weight(pair: GpuPair) -> int | None:
    """None where there is none: 0 between two GPUs is how a driver says that it does not know."""
    return (value_or_none(pair.xgmi.value.weight) or None) if isinstance(pair.xgmi, Value) else None


# --- P2P ---------------------------------------------------------------------------------------------------------------


def _p2p(comparison: Comparison, explained: Explained) -> Iterator[Change]:
    comparable = {twin.ends for twin in comparison.pairs}
    context = _context(comparison)
    for kind in (ChangeKind.P2P_LOST, ChangeKind.P2P_GAINED):
        is_loss = kind is ChangeKind.P2P_LOST
        differences = [
            difference
            for twin in comparison.pairs
            if not twin.ends & explained.to(is_loss=is_loss)
            and (difference := _p2p_difference(twin, is_loss=is_loss)) is not None
        ]
        level = (Level.WARNING if context else Level.CRITICAL) if is_loss else Level.INFO
        for change in _grouped(comparison, kind, level, differences, comparable):
            yield replace(change, sentence=f"{change.sentence}{context}")


def _p2p_difference(twin: PairTwin, *, is_loss: bool) -> _Difference | None:
    was, now = link_label(twin.before), link_label(twin.after)
    # Without its NVLinks a way may well have no P2P: the links are the news.
    if _UNKNOWN not in (was, now) and is_direct(was) != is_direct(now) and is_direct(was) == is_loss:
        return None
    ways = [
        (capability.value, *statuses)
        for capability in P2pCapability
        if (statuses := _statuses(twin, capability)) is not None
        and (statuses[0] is P2pStatus.OK) == is_loss
        and P2pStatus.OK in statuses
    ]
    if not ways:
        return None
    before, after = (", ".join(f"{way[0]} {way[at]}" for way in ways) for at in (1, 2))
    return _Difference(twin, f"P2P {after}, accepted is {before}", before, after)


def _statuses(twin: PairTwin, capability: P2pCapability) -> tuple[P2pStatus, P2pStatus] | None:
    """Both answers where they differ; U is no answer (unslothai/unsloth#10720)."""
    statuses = changed(_reading(twin.before.p2p.get(capability)), _reading(twin.after.p2p.get(capability)))
    return None if statuses is None or P2pStatus.U in statuses else statuses


def _reading(reading: Reading[P2pStatus] | None) -> Reading[P2pStatus]:
    return Value(P2pStatus.U) if reading is None else reading


def _context(comparison: Comparison) -> str:
    """What else changed with it; P2P comes and goes with kernels and drivers (aikitoria/open-gpu-kernel-modules#24)."""
    before, after = comparison.before.host, comparison.after.host
    surroundings = (
        ("driver", value_or_none(before.driver_version), value_or_none(after.driver_version)),
        ("kernel", before.kernel or None, after.kernel or None),
        ("IOMMU", value_or_none(before.iommu), value_or_none(after.iommu)),
        ("ACS redirects at", _bridges(before.acs_redirects), _bridges(after.acs_redirects)),
    )
    parts = [
        f"{name} {was} -> {now}"
        for name, was, now in surroundings
        if was is not None and now is not None and was != now
    ]
    return f"; at the same time {', '.join(parts)}" if parts else ""


def _bridges(redirects: Reading[tuple[PciBusId, ...]]) -> str | None:
    return (" ".join(redirects.value) or "none") if isinstance(redirects, Value) else None


# --- one change for each culprit ---------------------------------------------------------------------------------------


def _grouped(
    comparison: Comparison,
    kind: ChangeKind,
    level: Level,
    differences: list[_Difference],
    comparable: set[Pair],
) -> Iterator[Change]:
    by_pair: dict[Pair, list[_Difference]] = defaultdict(list)
    for difference in differences:
        by_pair[difference.twin.ends].append(difference)
    groups = _groups(comparison)
    for subject, pairs in culprits_of(set(by_pair), comparable, groups) if by_pair else ():
        of_culprit = [difference for pair in sorted(pairs, key=sorted) for difference in by_pair[pair]]
        yield _change(kind, level, _directed(subject, of_culprit), of_culprit, gpu_names(comparison))


def _groups(comparison: Comparison) -> list[frozenset[str]]:
    """The GPUs below each PCIe switch of either snapshot, by their keys."""
    keys: dict[str, str] = {twin.after.uuid: twin.key for twin in comparison.gpus.twins}
    after = {
        frozenset(keys[uuid] for uuid in group if uuid in keys) for group in switch_groups(comparison.after)
    }
    known = {twin.key for twin in comparison.gpus.twins}
    before = {group & known for group in switch_groups(comparison.before)}
    return sorted(before | after, key=lambda group: (-len(group), sorted(group)))


def _directed(subject: Subject, differences: list[_Difference]) -> Subject:
    ways = {(difference.twin.gpu, difference.twin.peer) for difference in differences}
    if subject.kind is SubjectKind.PAIR and len(ways) == 1:
        return Subject(SubjectKind.WAY, *ways)
    return subject


def _change(
    kind: ChangeKind, level: Level, subject: Subject, differences: list[_Difference], names: dict[str, str]
) -> Change:
    match subject.kind:
        case SubjectKind.HOST:
            who = "every pair of GPUs"
        case SubjectKind.WAY:
            who = " -> ".join(names[key] for key in subject.ids)
        case SubjectKind.PAIR:
            who = " and ".join(names[key] for key in subject.ids)
        case SubjectKind.GPUS:
            who = f"through the PCIe switch above {', '.join(names[key] for key in subject.ids)}"
        case _:
            pairs = {difference.twin.ends for difference in differences}
            who = f"{' '.join(names[key] for key in subject.ids)}, {len(pairs)} peers"
    return Change(
        kind,
        level,
        subject,
        f"{who}: {_distinct(it.what for it in differences)}",
        _distinct(it.before for it in differences),
        _distinct(it.after for it in differences),
    )


def _distinct(texts: Iterable[str]) -> str:
    found = sorted(set(texts))
    shown = "; ".join(found[:_SHOWN_MAX])
    return f"{shown} and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else shown
