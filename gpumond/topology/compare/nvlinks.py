"""NVLinks that are down or slower on one side, and what they have in common: a switch, a GPU, a cable. Pure.

One function finds what the poorer side lost; called with the sides exchanged it finds what was gained. A link whose
state one side could not read is left out, and so is one that leads to a GPU that is itself missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from gpumond.model.change import Change, ChangeKind, Level, Subject, SubjectKind
from gpumond.model.identity import PciBusId
from gpumond.model.reading import NotSupported, Unreadable, Value, value_or_none
from gpumond.model.topology import Gpu, NvLink, NvLinkRemote
from gpumond.topology.compare.culprits import HOST, SEVERAL, Finding, gpu_names, gpu_subject
from gpumond.topology.compare.matching import Comparison

_LINKS_LISTED_MAX = 8


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """One end of one NVLink: the GPU that has it, and what is known of the other end."""

    gpu: str
    link: int
    remote_gpu: str | None
    remote_switch: PciBusId | None
    is_to_switch: bool


@dataclass(frozen=True, slots=True)
class _Side:
    """One GPU, by its key, as the fuller and as the poorer snapshot has it."""

    key: str
    fuller: Gpu
    poorer: Gpu


@dataclass(frozen=True, slots=True)
class _Direction:
    """The comparison as it is, or from the other side. `keys` are of the GPUs by their bus ids on the fuller side."""

    sides: tuple[_Side, ...]
    keys: dict[PciBusId, str]
    absent: frozenset[PciBusId]
    """Of the GPUs that only one snapshot has."""


IsLess: TypeAlias = Callable[[NvLink, NvLink | None], bool]


@dataclass(frozen=True, slots=True)
class NvlinkChanges:
    """The changes, and the GPUs whose pairs they explain: those that lost links and those that gained some."""

    changes: tuple[Change, ...]
    losers: frozenset[str]
    gainers: frozenset[str]


def nvlink_changes(comparison: Comparison) -> NvlinkChanges:
    twins = comparison.gpus.twins
    forth = _direction(comparison, [_Side(twin.key, twin.before, twin.after) for twin in twins])
    back = _direction(comparison, [_Side(twin.key, twin.after, twin.before) for twin in twins])
    down, up = _lost(forth, _is_down), _lost(back, _is_down)
    slower, faster = _lost(forth, _is_slower), _lost(back, _is_slower)
    names = gpu_names(comparison)
    changes = (
        *(_down(culprit, names, forth) for culprit in _culprits(down, _up_ends(forth))),
        *(_up(culprit, names, back) for culprit in _culprits(up, _up_ends(back))),
        *(_slower(culprit, names, forth) for culprit in _culprits(slower, _up_ends(forth))),
        *(_faster(culprit, names, back) for culprit in _culprits(faster, _up_ends(back))),
    )
    return NvlinkChanges(changes, _touched(down), _touched(up))


def _direction(comparison: Comparison, sides: list[_Side]) -> _Direction:
    present = {side.fuller.pci_bus_id: side.key for side in sides}
    absent = {gpu.pci_bus_id for gpu in (*comparison.gpus.gone, *comparison.gpus.new)}
    return _Direction(tuple(sides), present, frozenset(absent - present.keys()))


# --- which links -------------------------------------------------------------------------------------------------------


def links_of(gpu: Gpu) -> dict[int, NvLink] | None:
    """By number; None where they could not be read. `not supported` is how a GPU without NVLinks answers."""
    match gpu.nvlinks:
        case Value(links):
            return {link.link: link for link in links}
        case NotSupported():
            return {}
        case Unreadable():
            return None


def _lost(direction: _Direction, is_less: IsLess) -> list[LinkEnd]:
    """The ends that are up on the fuller side, and less on the poorer one."""
    ends = (
        _end_of(side, link, other, direction)
        for side, link, other in _links_up(direction.sides)
        if is_less(link, other)
    )
    return [end for end in ends if end is not None]


def _up_ends(direction: _Direction) -> list[LinkEnd]:
    ends = (_end_of(side, link, other, direction) for side, link, other in _links_up(direction.sides))
    return [end for end in ends if end is not None]


def _links_up(sides: Iterable[_Side]) -> Iterator[tuple[_Side, NvLink, NvLink | None]]:
    for side in sides:
        fuller, poorer = links_of(side.fuller), links_of(side.poorer)
        if fuller is not None and poorer is not None:
            for number, link in fuller.items():
                if value_or_none(link.is_up):
                    yield side, link, poorer.get(number)


def _is_down(_link: NvLink, other: NvLink | None) -> bool:
    if other is None or isinstance(other.is_up, NotSupported):
        return True
    return value_or_none(other.is_up) is False


def _is_slower(link: NvLink, other: NvLink | None) -> bool:
    if other is None or not value_or_none(other.is_up):
        return False
    for ours, theirs in (
        (link.speed_bytes_per_second, other.speed_bytes_per_second),
        (link.version, other.version),
    ):
        if isinstance(ours, Value) and isinstance(theirs, Value) and ours.value != theirs.value:
            return theirs.value < ours.value
    return False


def _end_of(side: _Side, link: NvLink, other: NvLink | None, direction: _Direction) -> LinkEnd | None:
    """None for a link to a GPU that one side does not have."""
    remote = value_or_none(link.remote_pci_bus_id)
    remotes = {remote, value_or_none(other.remote_pci_bus_id) if other is not None else None}
    if not direction.absent.isdisjoint(remotes):
        return None
    is_to_switch = value_or_none(link.remote_type) is NvLinkRemote.SWITCH
    return LinkEnd(
        gpu=side.key,
        link=link.link,
        remote_gpu=direction.keys.get(remote) if remote is not None and not is_to_switch else None,
        remote_switch=remote if is_to_switch else None,
        is_to_switch=is_to_switch,
    )


def _touched(ends: Iterable[LinkEnd]) -> frozenset[str]:
    """Both ends of the links: a pair is one count short whichever end was read."""
    return frozenset(gpu for end in ends for gpu in (end.gpu, end.remote_gpu) if gpu is not None)


# --- whose fault -------------------------------------------------------------------------------------------------------


_Culprit: TypeAlias = tuple[Subject, list[LinkEnd]]


def _culprits(lost: list[LinkEnd], up: list[LinkEnd]) -> Iterator[_Culprit]:
    """The fewest things that explain the ends that were lost, of all that were up."""
    left = list(lost)
    for find in (_host, _switches, _whole_gpus, _cables):
        for subject, ends in find(left, up):
            yield subject, ends
            left = [end for end in left if end not in ends]
    by_gpu: dict[str, list[LinkEnd]] = defaultdict(list)
    for end in left:
        by_gpu[end.gpu].append(end)
    for gpu, ends in by_gpu.items():
        yield gpu_subject(gpu), ends


def _host(lost: list[LinkEnd], up: list[LinkEnd]) -> Iterator[_Culprit]:
    """Every GPU behind switches lost as many links. A virtual machine does not see which switch it was."""
    counts = _counts(lost)
    is_everywhere = counts.keys() == _counts(up).keys() and len(counts) >= SEVERAL
    is_hidden = all(end.is_to_switch and end.remote_switch is None for end in lost)
    is_all = len(lost) == len(up) and all(end.is_to_switch for end in lost)
    if is_everywhere and ((is_hidden and len(set(counts.values())) == 1) or is_all):
        yield HOST, list(lost)


def _switches(lost: list[LinkEnd], up: list[LinkEnd]) -> Iterator[_Culprit]:
    """A switch all of whose links are gone, from several GPUs."""
    for switch in sorted({end.remote_switch for end in lost if end.remote_switch is not None}):
        ends = [end for end in lost if end.remote_switch == switch]
        every = [end for end in up if end.remote_switch == switch]
        if len(_counts(ends)) >= SEVERAL and len(ends) == len(every):
            yield Subject(SubjectKind.SWITCH, (switch,)), ends


def _whole_gpus(lost: list[LinkEnd], up: list[LinkEnd]) -> Iterator[_Culprit]:
    """A GPU that has lost every link to several peers, with the other ends of those links."""
    counts, every = _counts(lost), _counts(up)
    taken: list[LinkEnd] = []
    for gpu in sorted(counts):
        own = [end for end in lost if end.gpu == gpu and end not in taken]
        peers = {end.remote_gpu for end in own} - {None}
        if counts[gpu] == every[gpu] and len(peers) >= SEVERAL:
            ends = [*own, *(end for end in lost if end.remote_gpu == gpu and end not in taken)]
            taken += ends
            yield gpu_subject(gpu), ends


def _cables(lost: list[LinkEnd], _up: list[LinkEnd]) -> Iterator[_Culprit]:
    """Links straight from GPU to GPU, a pair at a time: one fault has two ends."""
    by_pair: dict[tuple[str, ...], list[LinkEnd]] = defaultdict(list)
    for end in lost:
        if end.remote_gpu is not None:
            by_pair[tuple(sorted((end.gpu, end.remote_gpu)))].append(end)
    for pair, ends in sorted(by_pair.items()):
        yield Subject(SubjectKind.PAIR, pair), ends


def _counts(ends: Iterable[LinkEnd]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for end in ends:
        counts[end.gpu] += 1
    return counts


# --- in words ----------------------------------------------------------------------------------------------------------


def _down(culprit: _Culprit, names: dict[str, str], direction: _Direction) -> Change:
    subject, ends = culprit
    was, now = _counted(ends, direction)
    what = f"{_listed(ends, names)} down"
    return _about(subject, names, Finding(ChangeKind.NVLINK_DOWN, Level.CRITICAL, what, was, now))


def _up(culprit: _Culprit, names: dict[str, str], direction: _Direction) -> Change:
    subject, ends = culprit
    now, was = _counted(ends, direction)
    what = f"{_listed(ends, names)} up, not so in the accepted state"
    return _about(subject, names, Finding(ChangeKind.NVLINK_UP, Level.INFO, what, was, now))


def _slower(culprit: _Culprit, names: dict[str, str], direction: _Direction) -> Change:
    subject, ends = culprit
    was, now = _speeds(ends, direction)
    what = f"{_listed(ends, names)} slower: {now}, accepted is {was}"
    return _about(subject, names, Finding(ChangeKind.NVLINK_SLOWER, Level.WARNING, what, was, now))


def _faster(culprit: _Culprit, names: dict[str, str], direction: _Direction) -> Change:
    subject, ends = culprit
    now, was = _speeds(ends, direction)
    what = f"{_listed(ends, names)} faster: {now}, accepted is {was}"
    return _about(subject, names, Finding(ChangeKind.NVLINK_FASTER, Level.INFO, what, was, now))


def _about(subject: Subject, names: dict[str, str], finding: Finding) -> Change:
    match subject.kind:
        case SubjectKind.HOST:
            return finding.about(subject, "every GPU")
        case SubjectKind.SWITCH:
            return finding.about(subject, f"NVSwitch {' '.join(subject.ids)}")
        case _:
            return finding.about(subject, " and ".join(names[key] for key in subject.ids))


def _listed(ends: list[LinkEnd], names: dict[str, str]) -> str:
    """`NVLink 7 is`, `NVLinks 3, 7 are`; by GPU where several have lost some."""
    by_gpu: dict[str, list[int]] = defaultdict(list)
    for end in ends:
        by_gpu[end.gpu].append(end.link)
    if len(by_gpu) == 1:
        (links,) = by_gpu.values()
        return _numbers(links)
    if len(ends) > _LINKS_LISTED_MAX:
        return f"{len(ends)} NVLink ends are"
    parts = (f"{', '.join(map(str, sorted(links)))} of {names[gpu]}" for gpu, links in sorted(by_gpu.items()))
    return f"NVLink ends {' and '.join(parts)} are"


def _numbers(links: list[int]) -> str:
    if len(links) == 1:
        return f"NVLink {links[0]} is"
    return f"NVLinks {', '.join(map(str, sorted(links)))} are"


def _counted(ends: list[LinkEnd], direction: _Direction) -> tuple[str, str]:
    """How many links of the GPUs concerned are up: on the fuller side, on the poorer side."""
    gpus = {end.gpu for end in ends}
    fuller = [_up_count(side.fuller) for side in direction.sides if side.key in gpus]
    poorer = [_up_count(side.poorer) for side in direction.sides if side.key in gpus]
    return _told(fuller), _told(poorer)


def _up_count(gpu: Gpu) -> int:
    return sum(value_or_none(link.is_up) is True for link in (links_of(gpu) or {}).values())


def _told(counts: list[int]) -> str:
    words = ", ".join(map(str, sorted(set(counts), reverse=True)))
    return f"{words} links up" if len(counts) == 1 else f"{words} links up a GPU"


def _speeds(ends: list[LinkEnd], direction: _Direction) -> tuple[str, str]:
    links = {(end.gpu, end.link) for end in ends}
    fuller, poorer = set(), set()
    for side, link, other in _links_up(direction.sides):
        if (side.key, link.link) in links and other is not None:
            fuller.add(_speed(link))
            poorer.add(_speed(other))
    return ", ".join(sorted(fuller)), ", ".join(sorted(poorer))


def _speed(link: NvLink) -> str:
    speed, version = value_or_none(link.speed_bytes_per_second), value_or_none(link.version)
    words = f"{speed / 1e9:g} GB/s" if speed is not None else "unknown speed"
    return words if version is None else f"{words} (version code {version})"
