"""What a snapshot did not ask stays as it was: the last value of a reading that was left out on purpose. Pure.

Link error counters are too dear for every snapshot, and a sleeping GPU is not woken only to be looked at. Neither is a
change. A value that could not be read although it was asked for stays unreadable: that is news.
"""

from __future__ import annotations

from dataclasses import replace

from gpumond.model.reading import Unreadable, UnreadableReason, Value
from gpumond.model.topology import Gpu, NvLink, Snapshot


def carry_over(previous: Snapshot | None, current: Snapshot) -> Snapshot:
    """`current`, completed by what `previous` knew and `current` was not asked."""
    if previous is None:
        return current
    known = {gpu.uuid: gpu for gpu in previous.gpus}
    gpus = [_with_known_errors(known[gpu.uuid], gpu) if gpu.uuid in known else gpu for gpu in current.gpus]
    answered = {gpu.pci_bus_id for gpu in gpus}
    asleep = {
        silent.pci_bus_id
        for silent in current.silent_gpus
        if silent.cause.reason is UnreadableReason.ASLEEP and silent.pci_bus_id not in answered
    }
    sleeping = [gpu for gpu in previous.gpus if gpu.pci_bus_id in asleep]
    if not sleeping:
        return replace(current, gpus=tuple(gpus))
    uuids = {gpu.uuid for gpu in sleeping}
    pairs = [pair for pair in previous.pairs if pair.gpu in uuids or pair.peer in uuids]
    present = {gpu.uuid for gpu in gpus} | uuids
    return replace(
        current,
        gpus=tuple(sorted([*gpus, *sleeping], key=lambda gpu: gpu.pci_bus_id)),
        pairs=(*current.pairs, *(pair for pair in pairs if {pair.gpu, pair.peer} <= present)),
    )


def _with_known_errors(previous: Gpu, current: Gpu) -> Gpu:
    if not isinstance(current.nvlinks, Value) or not isinstance(previous.nvlinks, Value):
        return current
    known = {link.link: link for link in previous.nvlinks.value}
    links = tuple(_link_with_errors(known.get(link.link), link) for link in current.nvlinks.value)
    return replace(current, nvlinks=Value(links))


def _link_with_errors(previous: NvLink | None, current: NvLink) -> NvLink:
    was_asked = not (
        isinstance(current.errors, Unreadable) and current.errors.reason is UnreadableReason.NOT_ASKED
    )
    return current if was_asked or previous is None else replace(current, errors=previous.errors)
