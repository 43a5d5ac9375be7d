"""Whether NCCL takes another path than when the baseline was learned. Pure.

A transport is text that names the kinds in use (`P2P/CUMEM:24`, `SHM`, `P2P NET/Socket`); numbers and sub-kinds may
differ from run to run and say nothing. A change of the kinds needs no statistics.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

_KINDS: Final = ("NVLS", "P2P", "SHM", "NET")
"""Fastest first."""
_WORDS: Final = re.compile(r"[A-Z][A-Z0-9]*")


class TransportChange(Enum):
    NONE = "none"
    SLOWER = "slower"
    OTHER = "other"


def transport_change(before: str, after: str) -> TransportChange:
    """NONE also where one of them is not known."""
    if not before or not after or before == after:
        return TransportChange.NONE
    old, new = kinds_of(before), kinds_of(after)
    if old == new:
        return TransportChange.NONE
    known_old, known_new = old & set(_KINDS), new & set(_KINDS)
    if known_old and known_new and _slowest(known_new) > _slowest(known_old):
        return TransportChange.SLOWER
    return TransportChange.OTHER


def kinds_of(transport: str) -> frozenset[str]:
    """The kinds that a text names; where it names none that we know, its words."""
    words = frozenset(_WORDS.findall(transport.upper()))
    return words & frozenset(_KINDS) or words


def _slowest(kinds: frozenset[str]) -> int:
    return max(_KINDS.index(kind) for kind in kinds)
