"""What is different between the snapshot that an operator accepted and the newest one: typed, levelled, with evidence.

A change is identified by its kind and its subject; level, sentence and evidence may be revised while it lasts. The
kinds are a contract (metric labels, rows in the store): they are added to, never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias


class Level(StrEnum):
    """How bad it is, mildest first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class ChangeKind(StrEnum):
    """What changed, with the accepted state as the starting point."""

    GPU_MISSING = "gpu_missing"
    GPU_ADDED = "gpu_added"
    GPU_MOVED = "gpu_moved"  # the same UUID at another PCI bus id
    GPU_REPLACED = "gpu_replaced"  # another UUID in the same place
    GPU_MODEL = "gpu_model"
    VBIOS = "vbios"
    DRIVER = "driver"
    NVLINK_DOWN = "nvlink_down"
    NVLINK_UP = "nvlink_up"
    NVLINK_SLOWER = "nvlink_slower"
    NVLINK_FASTER = "nvlink_faster"
    XGMI_DOWN = "xgmi_down"
    XGMI_UP = "xgmi_up"
    XGMI_FARTHER = "xgmi_farther"  # more weight, so more hops
    XGMI_NEARER = "xgmi_nearer"
    XGMI_HIVE = "xgmi_hive"
    LINK_LOST = "link_lost"  # NV# or xGMI became a PCIe path
    LINK_GAINED = "link_gained"
    LINK_DOWNGRADED = "link_downgraded"  # NV18 -> NV17, PIX -> SYS
    LINK_IMPROVED = "link_improved"
    P2P_LOST = "p2p_lost"
    P2P_GAINED = "p2p_gained"
    FABRIC_FAULT = "fabric_fault"
    FABRIC_RECOVERED = "fabric_recovered"
    FABRIC_CLIQUE = "fabric_clique"
    PCIE_WIDTH_LOWER = "pcie_width_lower"
    PCIE_WIDTH_HIGHER = "pcie_width_higher"
    PCIE_GENERATION_MAX_LOWER = "pcie_generation_max_lower"
    PCIE_GENERATION_MAX_HIGHER = "pcie_generation_max_higher"
    PCIE_GENERATION_LOW_UNDER_LOAD = "pcie_generation_low_under_load"
    NUMA_NODE = "numa_node"
    AFFINITY = "affinity"
    MIG_MODE = "mig_mode"
    MIG_PENDING = "mig_pending"
    MIG_SETTLED = "mig_settled"
    ECC_MODE = "ecc_mode"
    ECC_PENDING = "ecc_pending"
    ECC_SETTLED = "ecc_settled"
    ROW_REMAP_PENDING = "row_remap_pending"
    ROW_REMAP_DONE = "row_remap_done"
    ROW_REMAP_FAILED = "row_remap_failed"
    ROW_REMAP_FAILURE_GONE = "row_remap_failure_gone"
    RECOVERY_NEEDED = "recovery_needed"
    RECOVERY_DONE = "recovery_done"
    PARTITION_MODE = "partition_mode"  # AMD: SPX, CPX, NPS1, NPS4
    NIC_GONE = "nic_gone"
    NIC_ADDED = "nic_added"
    NIC_REPLACED = "nic_replaced"
    NIC_RENAMED = "nic_renamed"
    NIC_MOVED = "nic_moved"
    NIC_PORT_DOWN = "nic_port_down"
    NIC_PORT_UP = "nic_port_up"
    NIC_SLOWER = "nic_slower"
    NIC_FASTER = "nic_faster"
    NIC_PATH_LONGER = "nic_path_longer"
    NIC_PATH_SHORTER = "nic_path_shorter"
    VISIBILITY_LOST = "visibility_lost"  # could-not-read: never a change of the hardware, never green


_OPPOSITES = (
    (ChangeKind.GPU_MISSING, ChangeKind.GPU_ADDED),
    (ChangeKind.NVLINK_DOWN, ChangeKind.NVLINK_UP),
    (ChangeKind.NVLINK_SLOWER, ChangeKind.NVLINK_FASTER),
    (ChangeKind.XGMI_DOWN, ChangeKind.XGMI_UP),
    (ChangeKind.XGMI_FARTHER, ChangeKind.XGMI_NEARER),
    (ChangeKind.LINK_LOST, ChangeKind.LINK_GAINED),
    (ChangeKind.LINK_DOWNGRADED, ChangeKind.LINK_IMPROVED),
    (ChangeKind.P2P_LOST, ChangeKind.P2P_GAINED),
    (ChangeKind.FABRIC_FAULT, ChangeKind.FABRIC_RECOVERED),
    (ChangeKind.PCIE_WIDTH_LOWER, ChangeKind.PCIE_WIDTH_HIGHER),
    (ChangeKind.PCIE_GENERATION_MAX_LOWER, ChangeKind.PCIE_GENERATION_MAX_HIGHER),
    (ChangeKind.MIG_PENDING, ChangeKind.MIG_SETTLED),
    (ChangeKind.ECC_PENDING, ChangeKind.ECC_SETTLED),
    (ChangeKind.ROW_REMAP_PENDING, ChangeKind.ROW_REMAP_DONE),
    (ChangeKind.ROW_REMAP_FAILED, ChangeKind.ROW_REMAP_FAILURE_GONE),
    (ChangeKind.RECOVERY_NEEDED, ChangeKind.RECOVERY_DONE),
    (ChangeKind.NIC_GONE, ChangeKind.NIC_ADDED),
    (ChangeKind.NIC_PORT_DOWN, ChangeKind.NIC_PORT_UP),
    (ChangeKind.NIC_SLOWER, ChangeKind.NIC_FASTER),
    (ChangeKind.NIC_PATH_LONGER, ChangeKind.NIC_PATH_SHORTER),
)

# What the other direction cannot show: that a value is readable again is no change, and an idle GPU is no proof that
# its link is fast.
_ONE_WAY = frozenset({ChangeKind.VISIBILITY_LOST, ChangeKind.PCIE_GENERATION_LOW_UNDER_LOAD})

MIRROR: dict[ChangeKind, ChangeKind | None] = {
    **{kind: kind for kind in ChangeKind},
    **dict.fromkeys(_ONE_WAY),
    **dict(_OPPOSITES),
    **{second: first for first, second in _OPPOSITES},
}
"""The kind of the same difference seen from the other side; None where it shows from one side only."""


_ONLY_CRITICAL = frozenset(
    {
        ChangeKind.GPU_MISSING,
        ChangeKind.NVLINK_DOWN,
        ChangeKind.XGMI_DOWN,
        ChangeKind.XGMI_FARTHER,
        ChangeKind.LINK_LOST,
        ChangeKind.ROW_REMAP_FAILED,
        ChangeKind.RECOVERY_NEEDED,
    }
)
_ONLY_WARNING = frozenset(
    {
        ChangeKind.GPU_REPLACED,
        ChangeKind.NVLINK_SLOWER,
        ChangeKind.PCIE_GENERATION_MAX_LOWER,
        ChangeKind.PCIE_GENERATION_LOW_UNDER_LOAD,
        ChangeKind.NUMA_NODE,
        ChangeKind.AFFINITY,
        ChangeKind.MIG_MODE,
        ChangeKind.MIG_PENDING,
        ChangeKind.ECC_MODE,
        ChangeKind.ECC_PENDING,
        ChangeKind.ROW_REMAP_PENDING,
        ChangeKind.PARTITION_MODE,
        ChangeKind.NIC_REPLACED,
        ChangeKind.NIC_SLOWER,
        ChangeKind.NIC_PATH_LONGER,
    }
)
_OF_SEVERAL_LEVELS = {
    ChangeKind.GPU_MOVED: (Level.INFO, Level.WARNING),
    ChangeKind.NIC_MOVED: (Level.INFO, Level.WARNING),
    ChangeKind.VISIBILITY_LOST: (Level.INFO, Level.WARNING),
    ChangeKind.XGMI_HIVE: (Level.INFO, Level.CRITICAL),
    ChangeKind.FABRIC_FAULT: (Level.INFO, Level.CRITICAL),
    ChangeKind.LINK_DOWNGRADED: (Level.WARNING, Level.CRITICAL),
    ChangeKind.P2P_LOST: (Level.WARNING, Level.CRITICAL),
    ChangeKind.PCIE_WIDTH_LOWER: (Level.WARNING, Level.CRITICAL),
    ChangeKind.NIC_GONE: (Level.WARNING, Level.CRITICAL),
    ChangeKind.NIC_PORT_DOWN: (Level.WARNING, Level.CRITICAL),
}


def levels_of(kind: ChangeKind) -> tuple[Level, ...]:
    """How bad a change of this kind can be, mildest first. What comes back, and most of what is new, is info only."""
    if kind in _ONLY_CRITICAL:
        return (Level.CRITICAL,)
    if kind in _ONLY_WARNING:
        return (Level.WARNING,)
    return _OF_SEVERAL_LEVELS.get(kind, (Level.INFO,))


class SubjectKind(StrEnum):
    """What a change happened to."""

    HOST = "host"
    GPU = "gpu"
    GPUS = "gpus"  # those below one PCIe switch
    PAIR = "pair"
    WAY = "way"  # one direction of a pair
    SWITCH = "switch"  # an NVSwitch
    NIC = "nic"
    READINGS = "readings"  # what cannot be read of one GPU, by cause


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """`ids`: none for the host; UUIDs of GPUs; the PCI bus id of a switch; a node GUID (or name) of a NIC.

    READINGS has a UUID (none where all GPUs are meant) and the cause.
    """

    kind: SubjectKind
    ids: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.kind.value, *self.ids))


ChangeKey: TypeAlias = tuple[ChangeKind, Subject]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `sentence` is for a person; `before` and `after` are the evidence, as text."""

    kind: ChangeKind
    level: Level
    subject: Subject
    sentence: str
    before: str
    after: str

    @property
    def key(self) -> ChangeKey:
        return self.kind, self.subject


@dataclass(frozen=True, slots=True)
class OpenChange:
    """A change that enough readings have confirmed, and that has not gone since."""

    change: Change
    opened_at: datetime


@dataclass(frozen=True, slots=True)
class ChangeCount:
    """How often changes of this kind and level have opened since the store was made."""

    kind: ChangeKind
    level: Level
    count: int


def is_of_hardware(change: Change) -> bool:
    """False for what only says that something could not be read."""
    return change.kind is not ChangeKind.VISIBILITY_LOST
