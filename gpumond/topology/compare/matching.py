"""Which GPU and which NIC of one snapshot is which of the other. By identity, never by index or order. Pure.

Keys are tried in turn: what a thing is (UUID, GUID), then where it sits (PCI bus id), then what it is called. Only a key
that is unique on both sides matches, so that the result is the same from either side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpumond.model.reading import Reading, Value
from gpumond.model.topology import Gpu, GpuPair, Nic, Snapshot

T = TypeVar("T")
R = TypeVar("R")
Key = Callable[[T], Hashable | None]


@dataclass(frozen=True, slots=True)
class Twin(Generic[T]):
    """One thing in both snapshots. `key` names it: the UUID or GUID under which it was accepted."""

    key: str
    before: T
    after: T


@dataclass(frozen=True, slots=True)
class Matching(Generic[T]):
    """What is in both snapshots, and what is in one of them only."""

    twins: tuple[Twin[T], ...]
    gone: tuple[T, ...]
    new: tuple[T, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two snapshots with their things matched; what every rule looks at."""

    before: Snapshot
    after: Snapshot
    gpus: Matching[Gpu]
    nics: Matching[Nic]
    pairs: tuple[PairTwin, ...]

    def nic_key(self, nic: Nic) -> str:
        return _nic_names(self.before, self.after)(nic)

    @property
    def is_same_boot(self) -> bool:
        return self.before.host.boot_id == self.after.host.boot_id

    @property
    def is_same_cpuset(self) -> bool:
        return changed(self.before.host.cpuset, self.after.host.cpuset) is None

    @property
    def is_same_container(self) -> bool:
        """Whether whoever looked was given the same GPUs to see."""
        return changed(self.before.host.container_devices, self.after.host.container_devices) is None

    @property
    def is_same_driver(self) -> bool:
        return changed(self.before.host.driver_version, self.after.host.driver_version) is None


@dataclass(frozen=True, slots=True)
class PairTwin:
    """A directed way between two GPUs in both snapshots, by the keys of the GPUs."""

    gpu: str
    peer: str
    before: GpuPair
    after: GpuPair

    @property
    def ends(self) -> frozenset[str]:
        return frozenset((self.gpu, self.peer))


def compare(before: Snapshot, after: Snapshot) -> Comparison:
    gpus = _match(before.gpus, after.gpus, (_uuid, _gpu_bus_id, _module), name=lambda gpu: gpu.uuid)
    nics = _match(before.nics, after.nics, (nic_guid, _nic_bus_id, _nic_name), name=_nic_names(before, after))
    return Comparison(before, after, gpus, nics, tuple(_pairs(before, after, gpus.twins)))


def changed(before: Reading[R], after: Reading[R]) -> tuple[R, R] | None:
    """Both values, where both were read and differ."""
    if isinstance(before, Value) and isinstance(after, Value) and before.value != after.value:
        return before.value, after.value
    return None


def nic_guid(nic: Nic) -> str | None:
    """The node GUID; None where there is none, or only zeros (an SR-IOV function that nobody has configured)."""
    return nic.node_guid if nic.node_guid.strip("0:x") else None


def _nic_names(before: Snapshot, after: Snapshot) -> Callable[[Nic], str]:
    """A name for each NIC: its GUID, or the kernel's name where several share a GUID or none has one."""
    counts = Counter(nic_guid(nic) for nic in before.nics) | Counter(nic_guid(nic) for nic in after.nics)

    def name(nic: Nic) -> str:
        guid = nic_guid(nic)
        return guid if guid is not None and counts[guid] == 1 else nic.name

    return name


def _match(
    before: Sequence[T], after: Sequence[T], keys: Iterable[Key[T]], *, name: Callable[[T], str]
) -> Matching[T]:
    twins: list[Twin[T]] = []
    gone, new = list(before), list(after)
    for key in keys:
        ours, theirs = _unique(gone, key), _unique(new, key)
        common = [identity for identity in ours if identity in theirs]
        twins += [Twin(name(ours[it]), ours[it], theirs[it]) for it in common]
        gone = [it for it in gone if not any(it is ours[identity] for identity in common)]
        new = [it for it in new if not any(it is theirs[identity] for identity in common)]
    return Matching(tuple(twins), tuple(gone), tuple(new))


def _unique(things: Iterable[T], key: Key[T]) -> dict[Hashable, T]:
    keyed = [(key(thing), thing) for thing in things]
    counts = Counter(identity for identity, _ in keyed)
    return {identity: thing for identity, thing in keyed if identity is not None and counts[identity] == 1}


def _uuid(gpu: Gpu) -> Hashable:
    return gpu.uuid


def _gpu_bus_id(gpu: Gpu) -> Hashable:
    return gpu.pci_bus_id


def _module(gpu: Gpu) -> Hashable | None:
    """The SXM socket: a replaced GPU may show up at another bus id of a virtual machine."""
    if isinstance(gpu.module_id, Value) and isinstance(gpu.name, Value):
        return gpu.module_id.value, gpu.name.value
    return None


def _nic_bus_id(nic: Nic) -> Hashable | None:
    return nic.pci_bus_id


def _nic_name(nic: Nic) -> Hashable:
    return nic.name


def _pairs(before: Snapshot, after: Snapshot, twins: Iterable[Twin[Gpu]]) -> Iterable[PairTwin]:
    ours = {(pair.gpu, pair.peer): pair for pair in before.pairs}
    theirs = {(pair.gpu, pair.peer): pair for pair in after.pairs}
    renamed = {twin.before.uuid: twin.after.uuid for twin in twins}
    for (gpu, peer), pair in ours.items():
        if gpu in renamed and peer in renamed:
            twin = theirs.get((renamed[gpu], renamed[peer]))
            if twin is not None:
                yield PairTwin(gpu, peer, pair, twin)
