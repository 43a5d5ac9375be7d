from __future__ import annotations

import pytest

from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.probe.numa import numa_node_of

TWO_NODES = {0: frozenset(range(32)), 1: frozenset(range(32, 64))}
DENIED = Unreadable(UnreadableReason.NO_PERMISSION)


@pytest.mark.parametrize(
    ("sysfs_node", "memory", "cpus", "expected"),
    [
        (1, Value("0"), Value("0-31"), Value(1)),  # sysfs is trusted first
        (0, Value("1"), Value("32-63"), Value(0)),  # also where it says 0
        (None, Value("0"), Value("32-63"), Value(0)),  # the VM of the capture: -1 in sysfs
        (None, Value("8"), NOT_SUPPORTED, Value(8)),  # POWER9: ids are labels
        (None, NOT_SUPPORTED, Value("32-63"), Value(1)),
        (None, NOT_SUPPORTED, Value("40,42"), Value(1)),
        (None, Value("0-1"), Value("0-63"), NOT_SUPPORTED),  # both nodes is no answer
        (None, Value("0-1"), Value("0-31"), Value(0)),
        (None, NOT_SUPPORTED, NOT_SUPPORTED, NOT_SUPPORTED),
        (None, DENIED, NOT_SUPPORTED, DENIED),  # it exists, and we may not see it
        (None, DENIED, Value("0-31"), Value(0)),
    ],
)
def test_the_node_comes_from_the_best_source_that_knows(sysfs_node, memory, cpus, expected):
    assert numa_node_of(sysfs_node, memory, cpus, TWO_NODES) == expected


def test_a_host_without_nodes_in_sysfs_knows_no_node_of_a_cpu():
    assert numa_node_of(None, NOT_SUPPORTED, Value("0-31"), {}) == NOT_SUPPORTED
