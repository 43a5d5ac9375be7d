"""How many NVLinks lead from one GPU to another. Pure: from what the links themselves say.

A count that is one short raises a false alarm, so a link that could not be read makes the count unreadable.
"""

from __future__ import annotations

from gpumond.model.identity import PciBusId
from gpumond.model.reading import NotSupported, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import NvLink, NvLinkRemote


def nvlinks_between(
    links: Reading[tuple[NvLink, ...]],
    peer_links: Reading[tuple[NvLink, ...]],
    peer_pci_bus_id: PciBusId,
) -> Reading[int]:
    """Active links of a GPU towards a peer: directly, or through switches that the peer is linked to as well.

    Behind NVSwitch the remote bus id names a switch, or nothing at all (all ones in a virtual machine), so that the
    remote *type* decides.
    """
    if not isinstance(links, Value):
        return links
    count = 0
    for link in links.value:
        leads = _leads_to(link, peer_links, peer_pci_bus_id)
        if not isinstance(leads, Value):
            return leads
        count += leads.value
    return Value(count)


def _leads_to(
    link: NvLink, peer_links: Reading[tuple[NvLink, ...]], peer_pci_bus_id: PciBusId
) -> Value[bool] | Unreadable:
    if isinstance(link.is_up, Unreadable):
        return link.is_up
    if isinstance(link.is_up, NotSupported) or not link.is_up.value:
        return Value(value=False)
    if isinstance(link.remote_type, Unreadable):
        return link.remote_type
    if link.remote_type == Value(NvLinkRemote.SWITCH):
        return _has_switch_link(peer_links)
    if link.remote_type == Value(NvLinkRemote.NPU):
        return Value(value=False)
    return _ends_at(link, peer_pci_bus_id)


def _ends_at(link: NvLink, pci_bus_id: PciBusId) -> Value[bool] | Unreadable:
    """For a link to a GPU, and for one whose driver cannot name the type of its remote end."""
    match link.remote_pci_bus_id:
        case Value(remote):
            return Value(remote == pci_bus_id)
        case Unreadable() as cause:
            return cause
        case NotSupported():
            return Unreadable(
                UnreadableReason.MALFORMED, f"NVLink {link.link} is up and does not say where it leads"
            )


def _has_switch_link(links: Reading[tuple[NvLink, ...]]) -> Value[bool] | Unreadable:
    if isinstance(links, Unreadable):
        return links
    if isinstance(links, NotSupported):
        return Value(value=False)
    return Value(
        any(
            it.is_up == Value(value=True) and it.remote_type == Value(NvLinkRemote.SWITCH)
            for it in links.value
        )
    )
