"""xGMI links that are down, and AMD GPUs that no longer form one hive. Pure.

The driver does not say where a link leads. Two GPUs that lose as many links at once have lost what connects them: one
change. In a virtual machine every link reads "down" although it works (ROCm/rocm-systems#2053), so there a GPU all of
whose links are down says nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from gpumond.model.change import Change, ChangeKind, Level, Subject, SubjectKind
from gpumond.model.reading import Value
from gpumond.model.topology import Gpu, Snapshot, XgmiLinkState
from gpumond.topology.compare.culprits import HOST, SEVERAL, Finding, all_of, gpu_names, gpu_subject
from gpumond.topology.compare.matching import Comparison


@dataclass(frozen=True, slots=True)
class XgmiChanges:
    """The changes, and the GPUs whose paths they explain."""

    changes: tuple[Change, ...]
    losers: frozenset[str]
    gainers: frozenset[str]


def xgmi_changes(comparison: Comparison) -> XgmiChanges:
    twins = comparison.gpus.twins
    before, after = comparison.before, comparison.after
    down = {it.key: lost for it in twins if (lost := _lost((it.before, before), (it.after, after)))}
    up = {it.key: lost for it in twins if (lost := _lost((it.after, after), (it.before, before)))}
    names = gpu_names(comparison)
    changes = (
        *_told(ChangeKind.XGMI_DOWN, Level.CRITICAL, down, names),
        *_told(ChangeKind.XGMI_UP, Level.INFO, up, names),
        *_hives(comparison),
    )
    return XgmiChanges(changes, frozenset(down), frozenset(up))


def _lost(fuller: tuple[Gpu, Snapshot], poorer: tuple[Gpu, Snapshot]) -> tuple[int, ...]:
    """The links that are up on the fuller side and down on the poorer one."""
    ours, theirs = _states(*fuller), _states(*poorer)
    return tuple(
        link
        for link, state in ours.items()
        if state is XgmiLinkState.UP and theirs.get(link, state) is not XgmiLinkState.UP
    )


def _states(gpu: Gpu, snapshot: Snapshot) -> dict[int, XgmiLinkState]:
    """By link number; empty where nothing can be told."""
    if not isinstance(gpu.xgmi_links, Value):
        return {}
    states = dict(enumerate(gpu.xgmi_links.value))
    is_virtual = snapshot.host.is_virtual == Value(value=True)
    return {} if is_virtual and XgmiLinkState.UP not in states.values() else states


def _told(
    kind: ChangeKind, level: Level, lost: dict[str, tuple[int, ...]], names: dict[str, str]
) -> Iterator[Change]:
    states = ("up", "down") if kind is ChangeKind.XGMI_DOWN else ("down", "up")
    counts = {len(links) for links in lost.values()}
    if len(lost) == len(names) > SEVERAL and len(counts) == 1:
        what = f"{counts.pop()} xGMI links {states[1]}, accepted is {states[0]}"
        yield Finding(kind, level, what, *states).about(HOST, f"{all_of(len(names), 'GPUs')} have")
    elif len(lost) == SEVERAL and len(counts) == 1:
        ends = " and ".join(f"{', '.join(map(str, links))} of {names[key]}" for key, links in lost.items())
        subject = Subject(SubjectKind.PAIR, tuple(sorted(lost)))
        yield Finding(kind, level, f"xGMI link ends {ends} are {states[1]}", *states).about(
            subject, " and ".join(names[key] for key in lost)
        )
    else:
        for key, links in lost.items():
            what = f"xGMI {'link' if len(links) == 1 else 'links'} {', '.join(map(str, links))} {states[1]}"
            yield Finding(kind, level, what, *states).about(gpu_subject(key), names[key])


def _hives(comparison: Comparison) -> Iterator[Change]:
    """Which GPUs belong together, whatever the hives are called: their ids are new after each boot."""
    was, now = defaultdict(set), defaultdict(set)
    for twin in comparison.gpus.twins:
        if isinstance(twin.before.xgmi_hive, Value) and isinstance(twin.after.xgmi_hive, Value):
            was[twin.before.xgmi_hive.value].add(twin.key)
            now[twin.after.xgmi_hive.value].add(twin.key)
    if sorted(map(sorted, was.values())) != sorted(map(sorted, now.values())):
        evidence = tuple(_sizes(hives) for hives in (was, now))
        level = Level.CRITICAL if len(now) >= len(was) else Level.INFO
        what = f"xGMI connects {evidence[1]}, accepted is {evidence[0]}"
        yield Finding(ChangeKind.XGMI_HIVE, level, what, *evidence).about(HOST, "the GPUs of this host")


def _sizes(hives: dict[str, set[str]]) -> str:
    return " + ".join(str(size) for size in sorted(map(len, hives.values()), reverse=True)) + " GPUs"
