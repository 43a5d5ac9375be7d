"""The laws of diff, for any combination of faults on any host: nothing from itself, mirrors, blindness is no change."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from snapshot_edits import (
    OFF,
    ON,
    as_amd,
    edited,
    fabric,
    gpu,
    host,
    label,
    links,
    nic,
    nic_to_gpu,
    p2p,
    pairs,
    pcie,
    reboot,
    renamed_gpu,
    without_gpus,
    without_nics,
    xgmi_down,
)

from gpumond.model.change import MIRROR, ChangeKind, SubjectKind, is_of_hardware
from gpumond.model.reading import NOT_SUPPORTED, NotSupported, Unreadable, UnreadableReason, Value
from gpumond.model.topology import P2pCapability, P2pStatus, PathLevel
from gpumond.simulate.scenario import load_scenario
from gpumond.simulate.snapshot import render_snapshot
from gpumond.topology.diff import diff

AT = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)
NVIDIA = tuple(
    render_snapshot(load_scenario(name), taken_at=AT)
    for name in ("hgx-h200-8", "dgx1-v100-cube-mesh", "rtxpro6000-8-pcie", "h200-2-vm")
)
HOSTS = (*NVIDIA, as_amd(NVIDIA[0]))
FAST = settings(max_examples=80, deadline=None)

places = st.integers(0, 7)
lanes = st.sampled_from([1, 4, 8, 16]).map(Value)
ways = st.lists(st.tuples(places, places), min_size=1, max_size=12)
statuses = st.sampled_from([*P2pStatus, NOT_SUPPORTED])
capabilities = st.lists(st.sampled_from(list(P2pCapability)), min_size=1, max_size=3)
flags = st.sampled_from([ON, OFF, NOT_SUPPORTED])


def maybe(edit):
    """An edit that does nothing on a host that has no such thing."""

    def attempt(snapshot):
        try:
            return edit(snapshot)
        except (AttributeError, IndexError):
            return snapshot

    return attempt


def all_links_of(place):
    return maybe(links(place, is_up=OFF))


GPU_EDITS = st.one_of(
    st.builds(lambda it, mode: gpu(it, mig_mode=mode), places, flags),
    st.builds(lambda it, mode: gpu(it, mig_mode_pending=mode), places, flags),
    st.builds(lambda it, mode: gpu(it, ecc_mode=mode, ecc_mode_pending=mode), places, flags),
    st.builds(lambda it, action: gpu(it, recovery_action=Value(action)), places, st.integers(0, 3)),
    st.builds(lambda it, node: gpu(it, numa_node=Value(node)), places, st.integers(0, 2)),
    st.builds(lambda it, cpus: gpu(it, cpu_affinity=Value(cpus)), places, st.sampled_from(["0-7", "8-15"])),
    st.builds(lambda it, now, most: pcie(it, width_lanes=now, width_lanes_max=most), places, lanes, lanes),
    st.builds(lambda it, most: pcie(it, generation_max=Value(most)), places, st.integers(1, 5)),
    st.builds(
        lambda it, now: edited_both(gpu(it, utilisation_ratio=Value(0.8)), pcie(it, generation=Value(now))),
        places,
        st.integers(1, 5),
    ),
    st.builds(lambda it, mask: maybe(fabric(it, health_mask=mask)), places, st.sampled_from([0, 1, 4, 1024])),
    st.builds(lambda state: maybe(fabric(state=state)), st.integers(0, 3)),
    st.builds(lambda it: gpu(it, remapped_rows_pending=ON, remapped_rows_failure=ON), places),
    st.builds(lambda it: gpu(it, pci_bus_id=f"0000:f{it}:00.0"), places),
    st.builds(lambda it: maybe(renamed_gpu(it, f"GPU-new-{it}")), places),
    st.builds(lambda some: maybe(without_gpus(*some)), st.sets(places, max_size=4)),
)


def edited_both(first, second):
    return lambda snapshot: second(first(snapshot))


LINK_EDITS = st.one_of(
    st.builds(
        lambda it, some: maybe(links(it, *some, is_up=OFF)), places, st.sets(st.integers(0, 17), min_size=1)
    ),
    st.builds(all_links_of, places),
    st.builds(
        lambda it, speed: maybe(links(it, 1, 2, speed_bytes_per_second=Value(speed))),
        places,
        st.sampled_from([1, 26_562_000_000]),
    ),
    st.builds(lambda it: gpu(it, nvlinks=NOT_SUPPORTED), places),
    st.builds(
        lambda some, text: maybe(label(text, *some)), ways, st.sampled_from(["NV4", "NV17", "PIX", "SYS"])
    ),
    st.builds(label, st.sampled_from(["NV4", "NODE"])),
    st.builds(
        lambda status, some, which: maybe(p2p(status, *some, capabilities=which)),
        statuses,
        ways,
        capabilities,
    ),
    st.builds(p2p, statuses),
    st.builds(lambda it, some: maybe(xgmi_down(it, *some)), places, st.sets(st.integers(0, 7))),
    st.builds(lambda some: maybe(pairs(*some, xgmi=NOT_SUPPORTED)), ways),
    st.builds(lambda it: gpu(it, xgmi_hive=Value("0xb2")), places),
    st.builds(lambda it: gpu(it, compute_partition=Value("CPX")), places),
)
NIC_NAMES = st.sampled_from(["mlx5_0", "mlx5_3", "mlx5_7"])
OTHER_EDITS = st.one_of(
    st.builds(lambda name: nic(name, ports_up={1: False}), NIC_NAMES),
    st.builds(lambda name: nic(name, name=f"{name}_new"), NIC_NAMES),
    st.builds(lambda name: nic(name, node_guid="ffff:0000:0000:0001"), NIC_NAMES),
    st.builds(lambda name: nic(name, pci_bus_id="0000:fe:00.0"), NIC_NAMES),
    st.builds(
        lambda name, rate: nic(name, rate_bits_per_second=Value(rate)), NIC_NAMES, st.sampled_from([1, 2])
    ),
    st.builds(lambda names: without_nics(*names), st.sets(NIC_NAMES)),
    st.builds(lambda it, level: maybe(nic_to_gpu(it, level)), places, st.sampled_from(list(PathLevel))),
    st.builds(lambda version: host(driver_version=Value(version)), st.sampled_from(["580.1", "590.1"])),
    st.just(reboot()),
)
EDITS = st.lists(st.one_of(GPU_EDITS, LINK_EDITS, OTHER_EDITS), max_size=6)


class Case(tuple):
    """Snapshots of one host; printed as what differs, since a whole snapshot is 80 kB."""

    __slots__ = ()

    def __repr__(self):
        told = [
            [(change.kind.value, str(change.subject)) for change in diff(*it)] for it in (self, self[::-1])
        ]
        return f"{self[0].simulated}: {told[0]} / {told[1]}"


@st.composite
def snapshots_of_one_host(draw):
    base = draw(st.sampled_from(HOSTS))
    return Case(edited(base, *draw(EDITS)) for _ in range(2))


def kinds(changes):
    return Counter(change.kind for change in changes if MIRROR[change.kind] is not None)


@FAST
@given(snapshots_of_one_host())
def test_a_snapshot_does_not_differ_from_itself(snapshots):
    snapshot, _ = snapshots
    later = replace(snapshot, taken_at=datetime(2026, 11, 30, tzinfo=UTC), duration_seconds=9.0)
    assert diff(snapshot, later) == ()


@FAST
@given(snapshots_of_one_host())
def test_seen_from_the_other_side_each_difference_is_its_mirror(snapshots):
    one, other = snapshots
    assert kinds(diff(one, other)) == Counter(
        {MIRROR[kind]: count for kind, count in kinds(diff(other, one)).items()}
    )


@FAST
@given(snapshots_of_one_host())
def test_no_two_changes_have_the_same_kind_and_subject(snapshots):
    keys = [change.key for change in diff(*snapshots)]
    assert len(keys) == len(set(keys))


@FAST
@given(snapshots_of_one_host())
def test_every_change_is_told(snapshots):
    for change in diff(*snapshots):
        assert change.sentence
        assert change.before != change.after
        assert "\n" not in change.sentence


# --- blindness ---------------------------------------------------------------------------------------------------------

READING = (Value, NotSupported, Unreadable)
CAUSES = st.sampled_from([Unreadable(reason, "made up") for reason in UnreadableReason])


def blinded(node, draw, *, keep=("driver",)):
    """`node` with some of its readings unreadable, at any depth; identities stay."""
    if isinstance(node, READING):
        if draw(st.integers(0, 9)) == 0:
            return draw(CAUSES)
        return Value(blinded(node.value, draw)) if isinstance(node, Value) else node
    if isinstance(node, tuple):
        return tuple(blinded(item, draw) for item in node)
    if isinstance(node, dict):
        return {key: blinded(item, draw) for key, item in node.items()}
    if is_dataclass(node):
        return replace(
            node,
            **{it.name: blinded(getattr(node, it.name), draw) for it in fields(node) if it.name not in keep},
        )
    return node


SMALL = (NVIDIA[3], edited(NVIDIA[1], without_gpus(3, 4, 5, 6, 7)))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SMALL), st.data())
def test_a_reading_that_could_not_be_had_changes_nothing_and_is_told_once_a_gpu_and_cause(snapshot, data):
    blind = blinded(snapshot, data.draw)
    changes = diff(snapshot, blind)
    assert {change.kind for change in changes} <= {ChangeKind.VISIBILITY_LOST}
    assert {change.subject.kind for change in changes} <= {SubjectKind.READINGS}
    assert max(Counter(change.subject.ids for change in changes).values(), default=0) <= 1
    assert diff(blind, snapshot) == ()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SMALL), EDITS, st.data())
def test_blindness_hides_differences_and_makes_up_none(snapshot, edits, data):
    """Of one GPU: a cause that cannot be seen any more may uncover what it explained, on the pairs only."""
    changed = edited(snapshot, *edits)
    seen = {change.kind for change in diff(snapshot, changed)}
    blind = replace(changed, gpus=blinded(changed.gpus, data.draw))
    explained = {
        ChangeKind.P2P_LOST, ChangeKind.P2P_GAINED, ChangeKind.AFFINITY, ChangeKind.LINK_LOST,
        ChangeKind.LINK_GAINED, ChangeKind.LINK_DOWNGRADED, ChangeKind.LINK_IMPROVED,
    }  # fmt: skip
    hardware = {change.kind for change in diff(snapshot, blind) if is_of_hardware(change)}
    assert hardware <= seen | explained


def test_every_kind_has_a_mirror_whose_mirror_it_is():
    assert MIRROR.keys() == set(ChangeKind)
    for kind, mirror in MIRROR.items():
        assert mirror is None or MIRROR[mirror] is kind
