"""The topology of a snapshot as people know it from `nvidia-smi topo -m`. Pure: a snapshot in, text out.

Cells, columns and words are nvidia-smi's. Ours differ in three ways: columns are aligned with blanks, since tabs fuse
when a table is pasted; a cell that could not be read is `?` and not a guess; and below the legend stand the facts that
the table cannot hold (which UUID a number is, which GPUs are silent, what the driver says of P2P).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from gpumond.model.identity import GpuUuid
from gpumond.model.reading import NotSupported, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import (
    Gpu,
    GpuPair,
    Nic,
    P2pCapability,
    PathLevel,
    Snapshot,
    link_label,
)

UNKNOWN = "?"
SELF = "X"
NOT_AVAILABLE = "N/A"

AFFINITY_COLUMNS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")

P2P_EXCEPTIONS_SHOWN_MAX = 8

LEGEND = """\
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
  XGMI = Connection traversing xGMI links (AMD Infinity Fabric)
  ?    = Could not be read"""

# A silent GPU of these is still one of ours: the others keep their numbers. One that the driver does not know, or will
# not show us (seven of eight in a container), never had a number here.
_KEEPS_NUMBER = frozenset(
    {
        UnreadableReason.GPU_LOST,
        UnreadableReason.RESET_REQUIRED,
        UnreadableReason.TIMEOUT,
        UnreadableReason.ASLEEP,
    }
)


def numbers_by_bus_id(snapshot: Snapshot) -> dict[GpuUuid, int]:
    """The number of each GPU where no accepted inventory says otherwise: its place, ordered by PCI bus id."""
    lost = [silent.pci_bus_id for silent in snapshot.silent_gpus if silent.cause.reason in _KEEPS_NUMBER]
    places = sorted({*(gpu.pci_bus_id for gpu in snapshot.gpus), *(bus_id for bus_id in lost if bus_id)})
    return {gpu.uuid: places.index(gpu.pci_bus_id) for gpu in snapshot.gpus}


def gpu_names(snapshot: Snapshot, numbers: Mapping[GpuUuid, int]) -> dict[GpuUuid, str]:
    """In the order of the numbers. A GPU without a number is new: it goes by its bus id, behind the others."""
    ordered = sorted(
        snapshot.gpus,
        key=lambda gpu: (numbers.get(gpu.uuid, len(numbers) + len(snapshot.gpus)), gpu.pci_bus_id),
    )
    return {
        gpu.uuid: f"GPU{numbers[gpu.uuid]}" if gpu.uuid in numbers else str(gpu.pci_bus_id) for gpu in ordered
    }


def cells_of(snapshot: Snapshot, numbers: Mapping[GpuUuid, int]) -> dict[tuple[str, str], str]:
    """Every cell of the table by row and column, the diagonal left out: `("GPU0", "NIC1")` -> `PIX`."""
    names = gpu_names(snapshot, numbers)
    cells = {}
    for one in snapshot.gpus:
        for other in snapshot.gpus:
            if one is not other:
                cells[names[one.uuid], names[other.uuid]] = _label(snapshot.pair(one.uuid, other.uuid))
    for place, nic in enumerate(snapshot.nics):
        for uuid, name in names.items():
            level = _level(nic.levels.get(uuid))
            cells[name, f"NIC{place}"] = cells[f"NIC{place}", name] = level
        for peer_place, peer in enumerate(snapshot.nics):
            if peer is not nic:
                cells[f"NIC{place}", f"NIC{peer_place}"] = _level(nic.nic_levels.get(peer.name))
    return cells


def link_labels(snapshot: Snapshot, numbers: Mapping[GpuUuid, int]) -> dict[str, str]:
    """`GPU0-GPU1` -> `NV18`; as `GPU0->GPU1` and `GPU1->GPU0` where the two directions differ."""
    cells = cells_of(snapshot, numbers)
    labels = {}
    for (row, column), label in cells.items():
        back = cells[column, row]
        if back != label:
            labels[f"{row}->{column}"] = label
        elif f"{column}-{row}" not in labels:
            labels[f"{row}-{column}"] = label
    return labels


def render_matrix(snapshot: Snapshot, numbers: Mapping[GpuUuid, int] | None = None) -> str:
    """The whole text. `numbers` are those of the accepted inventory, where there is one."""
    numbers = numbers_by_bus_id(snapshot) if numbers is None else numbers
    parts = [
        _table(snapshot, numbers) if snapshot.gpus else "",
        LEGEND if snapshot.gpus else "",
        _nic_legend(snapshot.nics),
        _gpu_legend(snapshot, numbers),
        _silent(snapshot),
        _p2p(snapshot, numbers),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _label(pair: GpuPair | None) -> str:
    return UNKNOWN if pair is None else link_label(pair)


def _level(level: PathLevel | None) -> str:
    return UNKNOWN if level is None else level.value


# --- the table ---


def _table(snapshot: Snapshot, numbers: Mapping[GpuUuid, int]) -> str:
    cells = cells_of(snapshot, numbers)
    names = gpu_names(snapshot, numbers)
    nics = [f"NIC{place}" for place, _ in enumerate(snapshot.nics)]
    devices = [*names.values(), *nics]
    rows = [["", *devices, *AFFINITY_COLUMNS]]
    gpus = {names[gpu.uuid]: gpu for gpu in snapshot.gpus}
    for device in devices:
        path = [SELF if column == device else cells[device, column] for column in devices]
        rows.append([device, *path, *(_affinity(gpus[device]) if device in gpus else ())])
    return _aligned(rows)


def _affinity(gpu: Gpu) -> tuple[str, str, str]:
    numa = gpu.memory_affinity
    if not isinstance(numa, Value) and isinstance(gpu.numa_node, Value):
        numa = Value(str(gpu.numa_node.value))
    return _text(gpu.cpu_affinity), _text(numa), _text(gpu.gpu_numa_id)


def _text(reading: Reading[str] | Reading[int]) -> str:
    match reading:
        case Value(value):
            return str(value)
        case NotSupported():
            return NOT_AVAILABLE
        case Unreadable():
            return UNKNOWN


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths: dict[int, int] = defaultdict(int)
    for row in rows:
        for place, cell in enumerate(row):
            widths[place] = max(widths[place], len(cell))
    lines = ("  ".join(cell.ljust(widths[place]) for place, cell in enumerate(row)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


# --- below the table ---


def _nic_legend(nics: Sequence[Nic]) -> str:
    if not nics:
        return ""
    return "\n".join(("NIC Legend:", "", *(f"  NIC{place}: {nic.name}" for place, nic in enumerate(nics))))


def _gpu_legend(snapshot: Snapshot, numbers: Mapping[GpuUuid, int]) -> str:
    if not snapshot.gpus:
        return ""
    names = gpu_names(snapshot, numbers)
    gpus = {gpu.uuid: gpu for gpu in snapshot.gpus}
    rows = [
        ["", f"{name}:", uuid, gpus[uuid].pci_bus_id, _text(gpus[uuid].name)] for uuid, name in names.items()
    ]
    return f"GPU Legend (numbers follow the PCI bus id, not the driver's index):\n\n{_aligned(rows)}"


def _silent(snapshot: Snapshot) -> str:
    if not snapshot.silent_gpus:
        return ""
    rows = [
        [
            "",
            silent.pci_bus_id or f"index {silent.index}",
            silent.cause.reason.value.replace("_", " "),
            silent.cause.detail,
        ]
        for silent in snapshot.silent_gpus
    ]
    return f"Silent GPUs (present, but they do not answer):\n\n{_aligned(rows)}"


def _p2p(snapshot: Snapshot, numbers: Mapping[GpuUuid, int]) -> str:
    """One line a capability: what most pairs answer, then the exceptions, each with its direction."""
    if not snapshot.pairs:
        return ""
    names = gpu_names(snapshot, numbers)
    rows = [
        ["", capability.value, _p2p_line(snapshot.pairs, capability, names)] for capability in P2pCapability
    ]
    return f"P2P, as the driver claims it (not proven by a copy):\n\n{_aligned(rows)}"


def _p2p_line(pairs: Sequence[GpuPair], capability: P2pCapability, names: Mapping[GpuUuid, str]) -> str:
    by_word: dict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        way = f"{names.get(pair.gpu, pair.gpu)}->{names.get(pair.peer, pair.peer)}"
        by_word[_p2p_word(pair, capability)].append(way)
    most, *others = sorted(by_word, key=lambda word: (-len(by_word[word]), word))
    if not others:
        return f"{most} for all pairs"
    exceptions = "; ".join(f"{word} for {_some(by_word[word])}" for word in others)
    return f"{most} for {len(by_word[most])} of {len(pairs)} pairs; {exceptions}"


def _p2p_word(pair: GpuPair, capability: P2pCapability) -> str:
    match pair.p2p.get(capability):
        case Value(status):
            return status.value
        case NotSupported():
            return "NS"
        case _:
            return UNKNOWN


def _some(ways: Sequence[str]) -> str:
    shown = ", ".join(ways[:P2P_EXCEPTIONS_SHOWN_MAX])
    more = len(ways) - P2P_EXCEPTIONS_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
