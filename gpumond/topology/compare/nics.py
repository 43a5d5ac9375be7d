"""What can change about one RDMA device, and about its way to the GPUs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gpumond.model.change import Change, ChangeKind, Level, Subject, SubjectKind
from gpumond.model.topology import Nic, PathLevel
from gpumond.topology.compare.culprits import HOST, SEVERAL, Finding, all_of, gpu_names, gpu_subject
from gpumond.topology.compare.matching import Comparison, Twin, changed, nic_guid

_LEVELS = tuple(PathLevel)


def nic_changes(comparison: Comparison) -> Iterator[Change]:
    """Changes of NICs that both snapshots have."""
    for twin in comparison.nics.twins:
        subject = Subject(SubjectKind.NIC, (twin.key,))
        for finding in (*_identity(twin, comparison), *_rate(twin), *_numa(twin)):
            yield finding.about(subject, f"NIC {twin.after.name}")
    yield from _ports(comparison)
    yield from _paths(comparison, ChangeKind.NIC_PATH_LONGER)
    yield from _paths(comparison, ChangeKind.NIC_PATH_SHORTER)


def _identity(twin: Twin[Nic], comparison: Comparison) -> Iterator[Finding]:
    before, after = twin.before, twin.after
    guids = (nic_guid(before), nic_guid(after))
    if None not in guids and guids[0] != guids[1]:
        what = f"this is another NIC now (node GUID {guids[1]}, accepted is {guids[0]})"
        yield Finding(ChangeKind.NIC_REPLACED, Level.WARNING, what, str(guids[0]), str(guids[1]))
        return
    if before.name != after.name:
        # udev rules and the order of virtual functions rename devices (linux-rdma/rdma-core#487).
        yield Finding(
            ChangeKind.NIC_RENAMED, Level.INFO, f"it was accepted as {before.name}", before.name, after.name
        )
    if before.pci_bus_id != after.pci_bus_id and before.pci_bus_id and after.pci_bus_id:
        level = Level.WARNING if comparison.is_same_boot else Level.INFO
        what = f"it is at {after.pci_bus_id}, accepted is {before.pci_bus_id}"
        yield Finding(ChangeKind.NIC_MOVED, level, what, before.pci_bus_id, after.pci_bus_id)


def _rate(twin: Twin[Nic]) -> Iterator[Finding]:
    rates = changed(twin.before.rate_bits_per_second, twin.after.rate_bits_per_second)
    if rates is None or not (_is_up(twin.before) and _is_up(twin.after)):
        return  # the rate of a port that is down means nothing
    was, now = (f"{rate / 1e9:g} Gbit/s" for rate in rates)
    what = f"it runs at {now}, accepted is {was}"
    if rates[1] < rates[0]:
        yield Finding(ChangeKind.NIC_SLOWER, Level.WARNING, what, was, now)
    else:
        yield Finding(ChangeKind.NIC_FASTER, Level.INFO, what, was, now)


def _numa(twin: Twin[Nic]) -> Iterator[Finding]:
    nodes = changed(twin.before.numa_node, twin.after.numa_node)
    if nodes is not None:
        what = f"it is attached to NUMA node {nodes[1]}, accepted is node {nodes[0]}"
        yield Finding(ChangeKind.NUMA_NODE, Level.WARNING, what, str(nodes[0]), str(nodes[1]))


# --- ports -------------------------------------------------------------------------------------------------------------


def _is_up(nic: Nic) -> bool:
    return any(nic.ports_up.values())


def _ports(comparison: Comparison) -> Iterator[Change]:
    twins = comparison.nics.twins
    down = {twin.key: ports for twin in twins if (ports := _lost_ports(twin.before, twin.after))}
    up = {twin.key: ports for twin in twins if (ports := _lost_ports(twin.after, twin.before))}
    names = {twin.key: f"NIC {twin.after.name}" for twin in twins}
    is_last = bool(down) and not any(_is_up(twin.after) for twin in twins)
    level = Level.CRITICAL if is_last else Level.WARNING
    yield from _port_changes(ChangeKind.NIC_PORT_DOWN, level, down, names)
    yield from _port_changes(ChangeKind.NIC_PORT_UP, Level.INFO, up, names)


def _lost_ports(fuller: Nic, poorer: Nic) -> tuple[int, ...]:
    return tuple(
        sorted(port for port, is_up in fuller.ports_up.items() if is_up and not poorer.ports_up.get(port))
    )


def _port_changes(
    kind: ChangeKind, level: Level, ports: dict[str, tuple[int, ...]], names: dict[str, str]
) -> Iterator[Change]:
    states = ("up", "down") if kind is ChangeKind.NIC_PORT_DOWN else ("down", "up")
    if len(ports) >= SEVERAL and len(ports) == len(names):
        sentence = f"{all_of(len(ports), 'NICs')}: ports are {states[1]}, accepted is {states[0]}"
        yield Change(kind, level, HOST, sentence, *states)
        return
    for key, numbers in ports.items():
        subject = Subject(SubjectKind.NIC, (key,))
        noun = f"port {numbers[0]} is" if len(numbers) == 1 else f"ports {', '.join(map(str, numbers))} are"
        yield Change(kind, level, subject, f"{names[key]}: {noun} {states[1]}", *states)


# --- the way to the GPUs -----------------------------------------------------------------------------------------------


def _paths(comparison: Comparison, kind: ChangeKind) -> Iterator[Change]:
    """A GPU that moved changes its way to every NIC: one change. Else one for each NIC."""
    is_longer = kind is ChangeKind.NIC_PATH_LONGER
    level = Level.WARNING if is_longer else Level.INFO
    found: dict[str, dict[str, tuple[PathLevel, PathLevel]]] = defaultdict(dict)
    for nic in comparison.nics.twins:
        for gpu in comparison.gpus.twins:
            was = nic.before.levels.get(gpu.before.uuid)
            now = nic.after.levels.get(gpu.after.uuid)
            if was and now and was != now and (_LEVELS.index(now) > _LEVELS.index(was)) == is_longer:
                found[nic.key][gpu.key] = (was, now)
    names = gpu_names(comparison)
    gpus = {gpu for levels in found.values() for gpu in levels}
    if len(found) >= SEVERAL and len(gpus) == 1:
        (gpu_key,) = gpus
        ways = [levels[gpu_key] for levels in found.values()]
        yield _path_change(kind, level, gpu_subject(gpu_key), f"{names[gpu_key]} to {len(found)} NICs", ways)
        return
    nics = {twin.key: twin.after.name for twin in comparison.nics.twins}
    for key, levels in found.items():
        who = f"NIC {nics[key]} to {', '.join(names[gpu] for gpu in levels)}"
        yield _path_change(kind, level, Subject(SubjectKind.NIC, (key,)), who, list(levels.values()))


def _path_change(
    kind: ChangeKind, level: Level, subject: Subject, who: str, ways: list[tuple[PathLevel, PathLevel]]
) -> Change:
    before, after = (", ".join(sorted({way[at].value for way in ways}, key=_rank)) for at in (0, 1))
    return Change(kind, level, subject, f"{who}: {before} -> {after}", before, after)


def _rank(level: str) -> int:
    return _LEVELS.index(PathLevel(level))
