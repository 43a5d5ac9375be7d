"""Every difference between the accepted snapshot and another one, each typed, each told once. Pure.

Laws, held by properties (tests/unit/topology/test_diff.py):
- a snapshot does not differ from itself;
- seen from the other side each difference is its mirror (gpumond.model.change.MIRROR);
- a reading that could not be had changes nothing, and is told at most once for each GPU and cause;
- no two changes have the same kind and subject.

Causes come before what follows from them: a GPU before its links, links before pairs, pairs before P2P.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpumond.model.change import Change, ChangeKind, Level
from gpumond.model.topology import Snapshot
from gpumond.topology.compare.culprits import HOST
from gpumond.topology.compare.gpus import gpu_changes
from gpumond.topology.compare.matching import Comparison, changed, compare
from gpumond.topology.compare.nics import nic_changes
from gpumond.topology.compare.nvlinks import nvlink_changes
from gpumond.topology.compare.pairs import Explained, pair_changes
from gpumond.topology.compare.presence import presence_changes
from gpumond.topology.compare.visibility import driver_visibility, visibility_changes
from gpumond.topology.compare.xgmi import xgmi_changes

_WORST_FIRST = (Level.CRITICAL, Level.WARNING, Level.INFO)


def diff(accepted: Snapshot, current: Snapshot) -> tuple[Change, ...]:
    """What is different in `current`, worst first."""
    blind = driver_visibility(accepted, current)
    found = _changes(compare(accepted, current)) if blind is None else blind
    return tuple(sorted(found, key=lambda change: (_WORST_FIRST.index(change.level), *change.key)))


def _changes(comparison: Comparison) -> Iterator[Change]:
    yield from _host(comparison)
    yield from presence_changes(comparison)
    yield from gpu_changes(comparison)
    nvlinks, xgmi = nvlink_changes(comparison), xgmi_changes(comparison)
    yield from nvlinks.changes
    yield from xgmi.changes
    explained = Explained(nvlinks.losers | xgmi.losers, nvlinks.gainers | xgmi.gainers)
    yield from pair_changes(comparison, explained)
    yield from nic_changes(comparison)
    yield from visibility_changes(comparison)


def _host(comparison: Comparison) -> Iterator[Change]:
    versions = changed(comparison.before.host.driver_version, comparison.after.host.driver_version)
    if versions is not None:
        sentence = f"the driver is {versions[1]}, accepted is {versions[0]}"
        yield Change(ChangeKind.DRIVER, Level.INFO, HOST, sentence, *versions)
