"""Where the driver's word on P2P is not what it was when the state was accepted. Pure.

Raw and at once: what a change is, how bad, and whether it lasts, is for gpumond.topology.diff and the debounce to say.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpumond.model.reading import Reading, Value
from gpumond.model.status import P2pExpectation
from gpumond.model.topology import P2pCapability, P2pStatus, Snapshot

COMPARED = (P2pCapability.READ, P2pCapability.WRITE, P2pCapability.NVLINK)


def p2p_expectations(accepted: Snapshot, now: Snapshot) -> tuple[P2pExpectation, ...]:
    """Of the pairs in both, those of which one says OK and the other something else. Unreadable is no difference."""
    return tuple(_differences(accepted, now))


def _differences(accepted: Snapshot, now: Snapshot) -> Iterator[P2pExpectation]:
    current = {(pair.gpu, pair.peer): pair for pair in now.pairs}
    for pair in accepted.pairs:
        twin = current.get((pair.gpu, pair.peer))
        if twin is None:
            continue
        for capability in COMPARED:
            was, is_now = _is_supported(pair.p2p.get(capability)), _is_supported(twin.p2p.get(capability))
            if was is not None and is_now is not None and was != is_now:
                yield P2pExpectation(pair.gpu, pair.peer, capability, was)


def _is_supported(reading: Reading[P2pStatus] | None) -> bool | None:
    """None where the driver gives no answer; U is none either."""
    if not isinstance(reading, Value) or reading.value is P2pStatus.U:
        return None
    return reading.value is P2pStatus.OK
