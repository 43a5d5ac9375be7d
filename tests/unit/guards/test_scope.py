"""Who must be idle: the set, whatever shares a PCIe switch with it, and behind NVSwitch the whole board."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpumond.guards.scope import guard_scope
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.topology import PathLevel
from gpumond.simulate.scenario import load_scenario, scenario_names
from gpumond.simulate.snapshot import render_snapshot


def uuids_of(snapshot):
    return [gpu.uuid for gpu in sorted(snapshot.gpus, key=lambda gpu: gpu.pci_bus_id)]


def without_nvlinks(snapshot):
    return replace(snapshot, gpus=tuple(replace(gpu, nvlinks=NOT_SUPPORTED) for gpu in snapshot.gpus))


def with_level(snapshot, one, other, level):
    pairs = tuple(
        replace(pair, level=level) if {pair.gpu, pair.peer} == {one, other} else pair
        for pair in snapshot.pairs
    )
    return replace(snapshot, pairs=pairs)


def all_apart(snapshot):
    pairs = tuple(replace(pair, level=Value(PathLevel.SYS)) for pair in snapshot.pairs)
    return replace(without_nvlinks(snapshot), pairs=pairs)


def test_behind_nvswitch_the_whole_board_must_be_idle(eight_gpus):
    uuids = uuids_of(eight_gpus)
    assert guard_scope(eight_gpus, uuids[:2]) == tuple(uuids)


def test_beside_jobs_only_neighbours_on_the_same_pcie_switch(eight_gpus):
    uuids = uuids_of(eight_gpus)
    assert guard_scope(eight_gpus, uuids[:2], beside_jobs=True) == tuple(uuids[:2])
    joined = with_level(eight_gpus, uuids[1], uuids[5], Value(PathLevel.PXB))
    assert guard_scope(joined, uuids[:2], beside_jobs=True) == (*uuids[:2], uuids[5])


@pytest.mark.parametrize("level", [PathLevel.PIX, PathLevel.PXB])
def test_a_shared_pcie_switch_is_shared(eight_gpus, level):
    uuids = uuids_of(eight_gpus)
    host = with_level(all_apart(eight_gpus), uuids[0], uuids[3], Value(level))
    assert guard_scope(host, uuids[:1]) == (uuids[0], uuids[3])


@pytest.mark.parametrize("level", [PathLevel.PHB, PathLevel.NODE, PathLevel.SYS])
def test_a_path_through_a_host_bridge_is_not(eight_gpus, level):
    uuids = uuids_of(eight_gpus)
    host = with_level(all_apart(eight_gpus), uuids[0], uuids[3], Value(level))
    assert guard_scope(host, uuids[:1]) == (uuids[0],)


def test_what_cannot_be_read_may_be_shared(eight_gpus):
    uuids = uuids_of(eight_gpus)
    unreadable = Unreadable(UnreadableReason.TIMEOUT)
    host = with_level(all_apart(eight_gpus), uuids[0], uuids[3], unreadable)
    assert guard_scope(host, uuids[:1]) == (uuids[0], uuids[3])
    silent = replace(
        all_apart(eight_gpus),
        gpus=tuple(replace(gpu, nvlinks=unreadable) for gpu in eight_gpus.gpus),
    )
    assert guard_scope(silent, uuids[:1]) == tuple(uuids)


@pytest.mark.parametrize("name", scenario_names())
def test_a_set_is_always_in_its_own_scope(name):
    snapshot = render_snapshot(load_scenario(name), taken_at=datetime(2026, 11, 29, tzinfo=UTC))
    uuids = uuids_of(snapshot)
    for uuid in uuids:
        for beside_jobs in (False, True):
            assert uuid in guard_scope(snapshot, [uuid], beside_jobs=beside_jobs)
    assert guard_scope(snapshot, uuids) == tuple(uuids)
