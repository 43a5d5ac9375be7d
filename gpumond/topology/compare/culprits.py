"""One event for one cause: a switch that fails changes many pairs, and is one fault. Pure.

Everything here is symmetric in the two snapshots, so that a difference seen from the other side has the same culprits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from gpumond.model.change import Change, ChangeKind, Level, Subject, SubjectKind
from gpumond.model.reading import Value
from gpumond.model.topology import PathLevel, Snapshot
from gpumond.topology.compare.matching import Comparison

Pair: TypeAlias = frozenset[str]
"""The keys of two GPUs."""

HOST = Subject(SubjectKind.HOST)

BELOW_A_SWITCH = frozenset({PathLevel.PIX, PathLevel.PXB})
SEVERAL = 2
"""From two things on a common cause is worth a name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A change without its subject. `what` continues a sentence that begins with the subject's name."""

    kind: ChangeKind
    level: Level
    what: str
    before: str
    after: str

    def about(self, subject: Subject, name: str) -> Change:
        return Change(self.kind, self.level, subject, f"{name}: {self.what}", self.before, self.after)


def gpu_subject(key: str) -> Subject:
    return Subject(SubjectKind.GPU, (key,))


def gpu_names(comparison: Comparison) -> dict[str, str]:
    """How a person finds each GPU that both snapshots have: by the bus id that it has now."""
    return {twin.key: f"GPU {twin.after.pci_bus_id}" for twin in comparison.gpus.twins}


def all_of(count: int, noun: str) -> str:
    return f"both {noun}" if count == SEVERAL else f"all {count} {noun}"


def merged(findings: dict[str, list[Finding]], names: dict[str, str]) -> Iterator[Change]:
    """Findings by GPU as changes; what every GPU of several shows alike is one change of the host."""
    common = _common_to_all(findings, names) if len(names) >= SEVERAL else []
    for finding in common:
        yield finding.about(HOST, all_of(len(names), "GPUs"))
    for key, of_gpu in findings.items():
        for finding in of_gpu:
            if finding not in common:
                yield finding.about(gpu_subject(key), names[key])


def _common_to_all(findings: dict[str, list[Finding]], names: dict[str, str]) -> list[Finding]:
    if set(findings) != set(names):
        return []
    first, *others = findings.values()
    return [finding for finding in first if all(finding in other for other in others)]


def switch_groups(snapshot: Snapshot) -> tuple[frozenset[str], ...]:
    """The UUIDs of the GPUs below each PCIe switch, or tree of switches; a GPU by itself is no group."""
    groups: list[frozenset[str]] = []
    for pair in snapshot.pairs:
        if isinstance(pair.level, Value) and pair.level.value in BELOW_A_SWITCH:
            touched = [group for group in groups if pair.gpu in group or pair.peer in group]
            groups = [group for group in groups if group not in touched]
            groups.append(frozenset((pair.gpu, pair.peer)).union(*touched))
    return tuple(sorted(groups, key=sorted))


def culprits_of(
    changed: set[Pair], comparable: set[Pair], groups: Iterable[frozenset[str]]
) -> Iterator[tuple[Subject, set[Pair]]]:
    """The fewest things that explain which pairs changed, each with its pairs.

    `comparable` are the pairs of which both snapshots tell enough.
    """
    if len(changed) >= SEVERAL and changed == comparable:
        yield HOST, changed
        return
    left = set(changed)
    for group in groups:
        if _is_behind(group, left, comparable):
            yield Subject(SubjectKind.GPUS, tuple(sorted(group))), left
            return
    for gpu in _gpus_with_all_pairs(changed, comparable):
        own = {pair for pair in left if gpu in pair}
        if own:
            yield gpu_subject(gpu), own
            left -= own
    yield from _of_one_gpu_or_each(left)


def _is_behind(group: frozenset[str], changed: set[Pair], comparable: set[Pair]) -> bool:
    """Whether exactly the ways through the switch changed: all between its GPUs, or all from them to the others."""
    inside = {pair for pair in comparable if pair <= group}
    across = {pair for pair in comparable if len(pair & group) == 1}
    return len(changed) >= SEVERAL and changed in (inside, across, inside | across)


def _gpus_with_all_pairs(changed: set[Pair], comparable: set[Pair]) -> list[str]:
    found = []
    for gpu in sorted(frozenset().union(*changed)):
        own = {pair for pair in comparable if gpu in pair}
        if len(own) >= SEVERAL and own <= changed:
            found.append(gpu)
    return found


def _of_one_gpu_or_each(changed: set[Pair]) -> Iterator[tuple[Subject, set[Pair]]]:
    shared = frozenset.intersection(*changed) if changed else frozenset()
    if len(changed) >= SEVERAL and shared:
        yield gpu_subject(min(shared)), changed
        return
    for pair in sorted(changed, key=sorted):
        yield Subject(SubjectKind.PAIR, tuple(sorted(pair))), {pair}
