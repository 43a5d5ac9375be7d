"""Which NUMA node a GPU belongs to, from sources that may not know. Pure.

Order of trust: sysfs, the driver's memory affinity, its CPU affinity. Firmware without SRAT data, and most virtual
machines, leave -1 in sysfs although the driver knows the node (NVIDIA/cuCascade#119, captures of 2 x H200).
"""

from __future__ import annotations

from collections.abc import Mapping

from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, Value
from gpumond.probe.lists import members_of_list


def numa_node_of(
    sysfs_node: int | None,
    memory_affinity: Reading[str],
    cpu_affinity: Reading[str],
    cpus_of_node: Mapping[int, frozenset[int]],
) -> Reading[int]:
    """The node; unreadable only where a source that could have told was not readable."""
    if sysfs_node is not None:
        return Value(sysfs_node)
    node = _only_node(memory_affinity)
    if node is None:
        node = _node_holding(cpu_affinity, cpus_of_node)
    if node is not None:
        return Value(node)
    return memory_affinity if isinstance(memory_affinity, Unreadable) else NOT_SUPPORTED


def _only_node(memory_affinity: Reading[str]) -> int | None:
    if not isinstance(memory_affinity, Value):
        return None
    nodes = members_of_list(memory_affinity.value)
    return next(iter(nodes)) if len(nodes) == 1 else None


def _node_holding(cpu_affinity: Reading[str], cpus_of_node: Mapping[int, frozenset[int]]) -> int | None:
    if not isinstance(cpu_affinity, Value):
        return None
    cpus = members_of_list(cpu_affinity.value)
    holding = [node for node, members in cpus_of_node.items() if cpus and cpus <= members]
    return holding[0] if len(holding) == 1 else None
