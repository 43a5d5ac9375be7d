"""What was read when the state was accepted and cannot be read now: one change for each GPU and cause. Pure.

Could-not-read is never a change of the hardware. It is told once, because a host that nobody can see into is not a
healthy one either. That a value can be read again is not told at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from gpumond.model.change import Change, ChangeKind, Level, Subject, SubjectKind
from gpumond.model.reading import NotSupported, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import Gpu, P2pCapability, Snapshot
from gpumond.topology.compare.culprits import HOST, SEVERAL, all_of, gpu_names
from gpumond.topology.compare.matching import Comparison, PairTwin, Twin, changed
from gpumond.topology.compare.nvlinks import links_of
from gpumond.topology.compare.presence import is_unasked, silence_of, unseen

NOT_SUPPORTED_CAUSE = "not_supported"
CONTAINER_CAUSE = "other_container"
"""The probe was given other GPUs than when the state was accepted."""
_ITSELF = "the GPU itself"

_ON_PURPOSE = frozenset({UnreadableReason.NOT_ASKED, UnreadableReason.ASLEEP})


def visibility_changes(comparison: Comparison) -> Iterator[Change]:
    lost: dict[tuple[str, str], set[str]] = defaultdict(set)
    names = gpu_names(comparison)
    for twin in comparison.gpus.twins:
        for field, cause in _lost_of_gpu(twin):
            lost[twin.key, cause].add(field)
    for pair in comparison.pairs:
        for field, cause in _lost_of_pair(pair):
            lost[pair.gpu, cause].add(field)
    for key in _changed_mig(comparison):
        # MIG itself takes away what it does not support.
        lost.pop((key, NOT_SUPPORTED_CAUSE), None)
    for gpu in comparison.gpus.gone:
        silent = silence_of(gpu, comparison.after)
        if silent is not None and not is_unasked(silent):
            names[gpu.uuid] = f"GPU {gpu.pci_bus_id}"
            lost[gpu.uuid, silent.cause.reason.value].add(_ITSELF)
    if not comparison.is_same_container:
        for gpu in unseen(comparison)[0]:
            names[gpu.uuid] = f"GPU {gpu.pci_bus_id}"
            lost[gpu.uuid, CONTAINER_CAUSE].add(_ITSELF)
    yield from _changes(lost, names)


def driver_visibility(before: Snapshot, after: Snapshot) -> tuple[Change, ...] | None:
    """Where one driver could not be asked at all nothing can be compared: then this is everything there is to say."""
    if isinstance(after.driver, Unreadable) and not isinstance(before.driver, Unreadable):
        cause = after.driver
        sentence = f"the GPU driver cannot be asked: {cause.detail or cause.reason.value}"
        evidence = ("readable", cause.reason.value)
        return (Change(ChangeKind.VISIBILITY_LOST, Level.WARNING, HOST, sentence, *evidence),)
    return () if isinstance(before.driver, Unreadable) or isinstance(after.driver, Unreadable) else None


def _changed_mig(comparison: Comparison) -> list[str]:
    return [
        twin.key
        for twin in comparison.gpus.twins
        if changed(twin.before.mig_mode, twin.after.mig_mode) is not None
    ]


def _changes(lost: dict[tuple[str, str], set[str]], names: dict[str, str]) -> Iterator[Change]:
    by_cause: dict[str, dict[str, str]] = defaultdict(dict)
    for (key, cause), fields in lost.items():
        by_cause[cause][key] = ", ".join(sorted(fields))
    for cause, by_gpu in by_cause.items():
        if len(by_gpu) >= SEVERAL and by_gpu.keys() == names.keys():
            fields_of_all = "; ".join(sorted(set(by_gpu.values())))
            subject = Subject(SubjectKind.READINGS, (cause,))
            yield _change(Level.WARNING, subject, all_of(len(by_gpu), "GPUs"), fields_of_all, cause)
            continue
        for key, of_gpu in by_gpu.items():
            level = Level.WARNING if of_gpu == _ITSELF else Level.INFO
            subject = Subject(SubjectKind.READINGS, (key, cause))
            yield _change(level, subject, names[key], of_gpu, cause)


def _change(level: Level, subject: Subject, name: str, fields: str, cause: str) -> Change:
    sentence = f"{name}: no longer readable ({cause.replace('_', ' ')}): {fields}"
    return Change(ChangeKind.VISIBILITY_LOST, level, subject, sentence, fields, cause)


def _lost_of_gpu(twin: Twin[Gpu]) -> Iterator[tuple[str, str]]:
    """Name and cause of each reading that is lost."""
    before, after = _readings(twin.before), _readings(twin.after)
    for field, reading in before.items():
        cause = _cause(reading, after[field])
        if cause is not None:
            yield field, cause
    yield from _lost_of_links(twin)


def _lost_of_links(twin: Twin[Gpu]) -> Iterator[tuple[str, str]]:
    """A GPU that answers `not supported` has no NVLinks: that is a change, and reported as one."""
    if isinstance(twin.before.nvlinks, Value) and isinstance(twin.after.nvlinks, Unreadable):
        cause = _cause(twin.before.nvlinks, twin.after.nvlinks)
        if cause is not None:
            yield "NVLinks", cause
    before, after = links_of(twin.before) or {}, links_of(twin.after) or {}
    for number, link in before.items():
        other = after.get(number)
        if other is not None and isinstance(other.is_up, Unreadable):
            cause = _cause(link.is_up, other.is_up)
            if cause is not None:
                yield "state of NVLinks", cause


def _lost_of_pair(twin: PairTwin) -> Iterator[tuple[str, str]]:
    cause = _cause(twin.before.level, twin.after.level)
    if cause is not None:
        yield "PCIe paths", cause
    if isinstance(
        twin.after.xgmi, Unreadable
    ):  # `not supported` is how a PCIe path answers: that is a change
        cause = _cause(twin.before.xgmi, twin.after.xgmi)
        if cause is not None:
            yield "xGMI paths", cause
    for capability in P2pCapability:
        was, now = twin.before.p2p.get(capability), twin.after.p2p.get(capability)
        cause = _cause(was, now) if was is not None and now is not None else None
        if cause is not None:
            yield f"P2P {capability.value}", cause


def _cause(before: Reading[Any], after: Reading[Any]) -> str | None:
    """Why a value that was read is not read now; None where nothing is lost."""
    if not isinstance(before, Value):
        return None
    match after:
        case Unreadable(reason=reason):
            return None if reason in _ON_PURPOSE else reason.value
        case NotSupported():
            return NOT_SUPPORTED_CAUSE
        case _:
            return None


def _readings(gpu: Gpu) -> dict[str, Reading[Any]]:
    """Everything about a GPU that some rule compares, by the name that a person knows."""
    return {
        "name": gpu.name,
        "VBIOS version": gpu.vbios_version,
        "PCIe width": gpu.pcie.width_lanes,
        "PCIe maximum width": gpu.pcie.width_lanes_max,
        "PCIe maximum generation": gpu.pcie.generation_max,
        "NVLink fabric": gpu.fabric,
        "NUMA node": gpu.numa_node,
        "CPU affinity": gpu.cpu_affinity,
        "memory affinity": gpu.memory_affinity,
        "MIG mode": gpu.mig_mode,
        "pending MIG mode": gpu.mig_mode_pending,
        "ECC mode": gpu.ecc_mode,
        "pending ECC mode": gpu.ecc_mode_pending,
        "pending row remapping": gpu.remapped_rows_pending,
        "failed row remapping": gpu.remapped_rows_failure,
        "recovery action": gpu.recovery_action,
        "xGMI link states": gpu.xgmi_links,
        "xGMI hive": gpu.xgmi_hive,
        "compute partition": gpu.compute_partition,
        "memory partition": gpu.memory_partition,
    }
