"""Small edits of a snapshot, each a function of one: `edited(snapshot, gpu(0, mig_mode=on), no_nic("mlx5_3"))`.

What a driver answers after a fault is the business of gpumond.simulate.faults; these are for what no fault of a
scenario does.
"""

from __future__ import annotations

from dataclasses import replace

from gpumond.model.reading import Unreadable, UnreadableReason, Value
from gpumond.model.topology import (
    Nic,
    NvLinkRemote,
    P2pCapability,
    P2pStatus,
    PathLevel,
    Snapshot,
    XgmiLinkState,
    XgmiPath,
)

ON, OFF = Value(value=True), Value(value=False)
LOST = Unreadable(UnreadableReason.ERROR, "it was asked for and did not come")
FOUR_READ_WRITE = (P2pCapability.READ, P2pCapability.WRITE)


def edited(snapshot: Snapshot, *edits) -> Snapshot:
    for edit in edits:
        snapshot = edit(snapshot)
    return snapshot


def host(**changes):
    return lambda snapshot: replace(snapshot, host=replace(snapshot.host, **changes))


def reboot(**changes):
    return host(boot_id="another boot", uptime_seconds=3600.0, **changes)


def gpu(*places, **changes):
    """The GPUs at these places; none means all. A change may be a function of the old GPU."""

    def edit(snapshot):
        gpus = tuple(
            replace(it, **{name: new(it) if callable(new) else new for name, new in changes.items()})
            if place in (places or range(len(snapshot.gpus)))
            else it
            for place, it in enumerate(snapshot.gpus)
        )
        return replace(snapshot, gpus=gpus)

    return edit


def pcie(*places, **changes):
    return gpu(*places, pcie=lambda it: replace(it.pcie, **changes))


def fabric(*places, **changes):
    return gpu(*places, fabric=lambda it: Value(replace(it.fabric.value, **changes)))


def links(place, *numbers, **changes):
    """NVLinks of one GPU; no number means all."""

    def new(it):
        return Value(
            tuple(
                replace(link, **changes) if not numbers or link.link in numbers else link
                for link in it.nvlinks.value
            )
        )

    return gpu(place, nvlinks=new)


def switch_down(bus_id):
    """The NVSwitch at `bus_id` is dead: every link to it is down, and every count is short."""

    def edit(snapshot):
        def new(it):
            return Value(
                tuple(
                    replace(link, is_up=OFF) if link.remote_pci_bus_id == Value(bus_id) else link
                    for link in it.nvlinks.value
                )
            )

        return with_counts(gpu(nvlinks=new)(snapshot))

    return edit


def with_counts(snapshot):
    """Pairs behind NVSwitch, with as many NVLinks as their GPU has up."""
    up = {
        it.uuid: sum(link.is_up == ON for link in it.nvlinks.value)
        for it in snapshot.gpus
        if isinstance(it.nvlinks, Value)
    }
    assert all(
        link.remote_type == Value(NvLinkRemote.SWITCH) for it in snapshot.gpus for link in it.nvlinks.value
    )
    return replace(snapshot, pairs=tuple(replace(it, nvlinks=Value(up[it.gpu])) for it in snapshot.pairs))


def pairs(*ways, **changes):
    """Directed ways by the places of their GPUs; none means all. A change may be a function of the old pair."""

    def edit(snapshot):
        uuids = [it.uuid for it in snapshot.gpus]
        wanted = {(uuids[a], uuids[b]) for a, b in ways}
        return replace(
            snapshot,
            pairs=tuple(
                replace(it, **{name: new(it) if callable(new) else new for name, new in changes.items()})
                if not ways or (it.gpu, it.peer) in wanted
                else it
                for it in snapshot.pairs
            ),
        )

    return edit


def both_ways(*pairs_of_places):
    return [way for a, b in pairs_of_places for way in ((a, b), (b, a))]


def p2p(status, *ways, capabilities=FOUR_READ_WRITE):
    answer = status if not isinstance(status, P2pStatus) else Value(status)
    return pairs(*ways, p2p=lambda it: it.p2p | dict.fromkeys(capabilities, answer))


def label(text, *ways):
    """`NV17`, or a PCIe level in the place of NVLinks."""
    if text.startswith("NV"):
        return pairs(*ways, nvlinks=Value(int(text[2:])))
    return pairs(*ways, nvlinks=Value(0), level=Value(PathLevel(text)))


def without_gpus(*places):
    def edit(snapshot):
        gone = {snapshot.gpus[place].uuid for place in places}
        return replace(
            snapshot,
            gpus=tuple(it for it in snapshot.gpus if it.uuid not in gone),
            pairs=tuple(it for it in snapshot.pairs if not {it.gpu, it.peer} & gone),
            nics=tuple(
                replace(it, levels={uuid: level for uuid, level in it.levels.items() if uuid not in gone})
                for it in snapshot.nics
            ),
        )

    return edit


def renamed_gpu(place, uuid):
    """Another GPU in the same place."""

    def edit(snapshot):
        old = snapshot.gpus[place].uuid

        def new(it):
            return uuid if it == old else it

        return replace(
            snapshot,
            gpus=tuple(replace(it, uuid=new(it.uuid)) for it in snapshot.gpus),
            pairs=tuple(replace(it, gpu=new(it.gpu), peer=new(it.peer)) for it in snapshot.pairs),
            nics=tuple(
                replace(it, levels={new(gpu): level for gpu, level in it.levels.items()})
                for it in snapshot.nics
            ),
        )

    return edit


def nic(which, /, **changes):
    """The NIC of that name, or every one for None. A change may be a function of the old NIC."""

    def edit(snapshot):
        nics = tuple(
            replace(it, **{key: new(it) if callable(new) else new for key, new in changes.items()})
            if which in (None, it.name)
            else it
            for it in snapshot.nics
        )
        return replace(snapshot, nics=nics)

    return edit


def without_nics(*names):
    """No name means all."""

    def edit(snapshot):
        return replace(snapshot, nics=tuple(it for it in snapshot.nics if names and it.name not in names))

    return edit


def only_nic(name):
    return lambda snapshot: replace(snapshot, nics=tuple(it for it in snapshot.nics if it.name == name))


def nic_to_gpu(place, level, *names):
    """The path from these NICs (all, where none is named) to the GPU at that place."""

    def edit(snapshot):
        uuid = snapshot.gpus[place].uuid

        def new(it: Nic):
            return it.levels | {uuid: level} if not names or it.name in names else it.levels

        return nic(None, levels=new)(snapshot)

    return edit


def as_amd(snapshot: Snapshot) -> Snapshot:
    """The same host with xGMI in the place of NVLink: seven links a GPU, one hive."""
    states = (*(XgmiLinkState.UP,) * 7, XgmiLinkState.DISABLED)
    path = XgmiPath(Value(15), Value(50 * 10**9), Value(50 * 10**9), Value(()))
    return edited(
        snapshot,
        gpu(
            nvlinks=Value(()),
            fabric=LOST,
            xgmi_links=Value(states),
            xgmi_hive=Value("0xa1"),
            compute_partition=Value("SPX"),
            memory_partition=Value("NPS1"),
        ),
        pairs(nvlinks=Value(0), xgmi=Value(path)),
    )


def xgmi_down(place, *numbers):
    def new(it):
        return Value(
            tuple(
                XgmiLinkState.DOWN if at in numbers else state for at, state in enumerate(it.xgmi_links.value)
            )
        )

    return gpu(place, xgmi_links=new)
