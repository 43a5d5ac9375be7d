"""GPUs and NICs that are in one snapshot only: missing, added, or merely hidden. Pure.

A GPU that is gone takes its links, pairs and paths with it: no other rule sees them. One that is present and would not
answer is missing only where the driver says so; for any other silence nothing is known, and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpumond.model.change import Change, ChangeKind, Level, Subject, SubjectKind
from gpumond.model.reading import UnreadableReason
from gpumond.model.topology import Gpu, Nic, SilentGpu, Snapshot
from gpumond.topology.compare.culprits import (
    BELOW_A_SWITCH,
    HOST,
    SEVERAL,
    all_of,
    gpu_subject,
    switch_groups,
)
from gpumond.topology.compare.matching import Comparison

_LOST = frozenset({UnreadableReason.GPU_LOST, UnreadableReason.RESET_REQUIRED})
_UNASKED = frozenset({UnreadableReason.ASLEEP, UnreadableReason.NOT_ASKED})


def presence_changes(comparison: Comparison) -> Iterator[Change]:
    """What is there on one side only, GPUs first."""
    before, after = comparison.before, comparison.after
    missing, added = unseen(comparison)
    if not comparison.is_same_container:
        return  # who looked was allowed to see something else: a matter of visibility
    yield from _gpus(missing, before, ChangeKind.GPU_MISSING)
    yield from _gpus(added, after, ChangeKind.GPU_ADDED)
    yield from _nics(comparison, _left(comparison.nics.gone, missing), before, ChangeKind.NIC_GONE)
    yield from _nics(comparison, _left(comparison.nics.new, added), after, ChangeKind.NIC_ADDED)


def unseen(comparison: Comparison) -> tuple[list[Gpu], list[Gpu]]:
    """The GPUs that are there only before, and only after; not those of which the other side says why it is silent."""
    gone = [gpu for gpu in comparison.gpus.gone if silence_of(gpu, comparison.after) is None]
    return gone, [gpu for gpu in comparison.gpus.new if silence_of(gpu, comparison.before) is None]


def silence_of(gpu: Gpu, other: Snapshot) -> SilentGpu | None:
    """Why `other` does not say whether it has this GPU; None where it has it not."""
    here = [silent for silent in other.silent_gpus if silent.pci_bus_id == gpu.pci_bus_id]
    # A silent GPU without an address may be any of them.
    nameless = [silent for silent in other.silent_gpus if silent.pci_bus_id is None]
    return next((silent for silent in here or nameless if silent.cause.reason not in _LOST), None)


def is_unasked(silent: SilentGpu) -> bool:
    """A GPU that sleeps is left alone on purpose."""
    return silent.cause.reason in _UNASKED


def _gpus(gpus: Sequence[Gpu], snapshot: Snapshot, kind: ChangeKind) -> Iterator[Change]:
    """`snapshot` is the one that has them."""
    left: dict[str, Gpu] = {gpu.uuid: gpu for gpu in gpus}
    if len(gpus) >= SEVERAL and len(gpus) == len(snapshot.gpus):
        yield _gpu_change(kind, HOST, all_of(len(gpus), "GPUs"), list(gpus))
        return
    for group in switch_groups(snapshot):
        if group <= left.keys():
            members = [left.pop(uuid) for uuid in sorted(group) if uuid in left]
            subject = Subject(SubjectKind.GPUS, tuple(sorted(group)))
            yield _gpu_change(kind, subject, f"the {len(members)} GPUs below one PCIe switch", members)
    for gpu in left.values():
        yield _gpu_change(kind, gpu_subject(gpu.uuid), f"GPU {gpu.pci_bus_id}", [gpu])


def _gpu_change(kind: ChangeKind, subject: Subject, name: str, gpus: list[Gpu]) -> Change:
    there = ", ".join(f"{gpu.pci_bus_id} {gpu.uuid}" for gpu in gpus)
    if kind is ChangeKind.GPU_MISSING:
        return Change(kind, Level.CRITICAL, subject, f"{name}: missing", there, "absent or lost")
    return Change(kind, Level.INFO, subject, f"{name}: not in the accepted state", "absent or lost", there)


def _left(nics: Sequence[Nic], gpus: Sequence[Gpu]) -> list[Nic]:
    """Without those that hang below the same switch as a GPU that has come or gone."""
    uuids = {gpu.uuid for gpu in gpus}
    return [
        nic
        for nic in nics
        if not any(uuid in uuids and level in BELOW_A_SWITCH for uuid, level in nic.levels.items())
    ]


def _nics(comparison: Comparison, nics: list[Nic], snapshot: Snapshot, kind: ChangeKind) -> Iterator[Change]:
    if len(nics) == len(snapshot.nics) >= SEVERAL:
        yield _nic_change(kind, HOST, all_of(len(nics), "NICs"), nics, is_only=True)
        return
    for nic in nics:
        subject = Subject(SubjectKind.NIC, (comparison.nic_key(nic),))
        yield _nic_change(kind, subject, f"NIC {nic.name}", [nic], is_only=len(snapshot.nics) == 1)


def _nic_change(kind: ChangeKind, subject: Subject, name: str, nics: list[Nic], *, is_only: bool) -> Change:
    there = ", ".join(f"{nic.name} {nic.pci_bus_id or ''} {nic.node_guid}" for nic in nics)
    if kind is ChangeKind.NIC_GONE:
        level = Level.CRITICAL if is_only else Level.WARNING
        return Change(kind, level, subject, f"{name}: gone", there, "absent")
    return Change(kind, Level.INFO, subject, f"{name}: not in the accepted state", "absent", there)
