"""The NVLinks of one opened GPU. What they add up to between two GPUs is counted in `nvlink`.

States, speeds and error counters of all links come from one field-value call: 18 links by single calls cost 164 calls
of about 0.9 ms for their error counters alone (measured on 2 x H200).
"""

from __future__ import annotations

from typing import Any

from gpumond.model.identity import PciBusId, normalise_pci_bus_id
from gpumond.model.reading import NOT_SUPPORTED, NotSupported, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.topology import NvLink, NvLinkRemote
from gpumond.probe.nvml import FieldId, Handle, NvmlLibrary
from gpumond.probe.readings import mapped, then

NVLINKS_MAX = 64  # 36 in the newest driver; bounds the search on a driver that never says no

_LINK_COUNT: FieldId = (91, 0)
_SPEED_MBPS = 164
_STATE = 165
_STATES_UP = frozenset({1, 2})  # active, and asleep for want of traffic; 3 is "active, traffic disabled"

# 161-163 up to Hopper, the others from Blackwell on. Never the legacy ids 32-87: on Hopper they read 0 with success
# (DataDog/datadog-agent#55966).
_ERRORS = {
    161: "replay",
    162: "recovery",
    163: "crc",
    206: "malformed_packet",
    207: "buffer_overrun",
    208: "receive",
    209: "receive_remote",
    210: "receive_general",
    211: "local_link_integrity",
    212: "transmit_discard",
    214: "recovery_failed",
    219: "effective",
    221: "symbol",
}
# nvmlDeviceGetNvLinkErrorCounter, for GPUs before Hopper; about 1 ms a call.
_LEGACY_ERRORS = {0: "replay", 1: "recovery", 2: "crc_flit", 3: "crc_data", 4: "ecc_data"}

_NO_BUS_ID_DOMAIN = 0xFFFFFFFF


def read_nvlinks(library: NvmlLibrary, handle: Handle, *, with_errors: bool) -> Reading[tuple[NvLink, ...]]:
    """Every NVLink that this GPU has, up or not; not supported where it has none."""
    count = _count_links(library, handle)
    return then(count, lambda number: Value(_read_links(library, handle, number, with_errors=with_errors)))


def _count_links(library: NvmlLibrary, handle: Handle) -> Reading[int]:
    count = library.fields(handle, [_LINK_COUNT])[_LINK_COUNT]
    if isinstance(count, NotSupported):
        count = _count_by_trying(library, handle)
    return NOT_SUPPORTED if count == Value(0) else count


def _count_by_trying(library: NvmlLibrary, handle: Handle) -> Reading[int]:
    """For drivers without the field: a link that does not exist is refused."""
    for link in range(NVLINKS_MAX):
        state = library.ask("nvmlDeviceGetNvLinkState", handle, link, convert=bool)
        if isinstance(state, NotSupported):
            return Value(link)
        if isinstance(state, Unreadable) and link == 0:
            return state
    return Value(NVLINKS_MAX)


def _read_links(library: NvmlLibrary, handle: Handle, count: int, *, with_errors: bool) -> tuple[NvLink, ...]:
    wanted = (_STATE, _SPEED_MBPS, *(_ERRORS if with_errors else ()))
    values = library.fields(handle, [(field, link) for field in wanted for link in range(count)])
    return tuple(_read_link(library, handle, link, values, with_errors=with_errors) for link in range(count))


def _read_link(
    library: NvmlLibrary, handle: Handle, link: int, values: dict[FieldId, Reading[int]], *, with_errors: bool
) -> NvLink:
    return NvLink(
        link=link,
        is_up=_read_is_up(library, handle, link, values[_STATE, link]),
        remote_type=then(
            library.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link, convert=int), _remote_type
        ),
        remote_pci_bus_id=then(
            library.ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link, convert=lambda info: info), _bus_id
        ),
        version=library.ask("nvmlDeviceGetNvLinkVersion", handle, link, convert=int),
        speed_bytes_per_second=mapped(values[_SPEED_MBPS, link], lambda speed: speed * 10**6),
        errors=_read_errors(library, handle, link, values)
        if with_errors
        else Unreadable(UnreadableReason.NOT_ASKED, "error counters are read in every Nth snapshot"),
    )


def _read_is_up(library: NvmlLibrary, handle: Handle, link: int, state: Reading[int]) -> Reading[bool]:
    if isinstance(state, NotSupported):  # before Hopper
        return library.ask("nvmlDeviceGetNvLinkState", handle, link, convert=bool)
    return mapped(state, lambda number: number in _STATES_UP)


def _read_errors(
    library: NvmlLibrary, handle: Handle, link: int, values: dict[FieldId, Reading[int]]
) -> Reading[dict[str, int]]:
    readings = {name: values[field, link] for field, name in _ERRORS.items()}
    if all(isinstance(reading, NotSupported) for reading in readings.values()):
        readings = {
            name: library.ask("nvmlDeviceGetNvLinkErrorCounter", handle, link, counter, convert=int)
            for counter, name in _LEGACY_ERRORS.items()
        }
    return _gathered(readings)


def _gathered(readings: dict[str, Reading[int]]) -> Reading[dict[str, int]]:
    """The counters that exist; a single one that could not be read would look like a counter that vanished."""
    unreadable = next((reading for reading in readings.values() if isinstance(reading, Unreadable)), None)
    if unreadable is not None:
        return unreadable
    counts = {name: reading.value for name, reading in readings.items() if isinstance(reading, Value)}
    return Value(counts) if counts else NOT_SUPPORTED


def _remote_type(number: int) -> Reading[NvLinkRemote]:
    known = {it.value for it in NvLinkRemote}
    return Value(NvLinkRemote(number) if number in known else NvLinkRemote.UNKNOWN)


def _bus_id(info: Any) -> Reading[PciBusId]:
    """All ones in a virtual machine, where the other end is not a device of this host (captures of 2 x H200)."""
    if info.domain == _NO_BUS_ID_DOMAIN:
        return NOT_SUPPORTED
    bus_id = info.busId
    return Value(
        normalise_pci_bus_id(bus_id.decode("ascii", "replace") if isinstance(bus_id, bytes) else bus_id)
    )
