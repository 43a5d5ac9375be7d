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
    SLOWER = "slower"  # its slowest kind, or its fastest, is slower than before
    FASTER = "faster"
    OTHER = "other"


def transport_change(before: str, after: str) -> TransportChange:
    """NONE also where one of them is not known."""
    if not before or not after or before == after:
        return TransportChange.NONE
    old, new = kinds_of(before), kinds_of(after)
    if old == new:
        return TransportChange.NONE
    ends_old, ends_new = _ends(old), _ends(new)
    if not ends_old or not ends_new or ends_old == ends_new:
        return TransportChange.OTHER
    is_slower = any(after > before for before, after in zip(ends_old, ends_new, strict=True))
    return TransportChange.SLOWER if is_slower else TransportChange.FASTER


def kinds_of(transport: str) -> frozenset[str]:
    """The kinds that a text names; where it names none that we know, its words."""
    words = frozenset(_WORDS.findall(transport.upper()))
    return words & frozenset(_KINDS) or words


def _ends(kinds: frozenset[str]) -> tuple[int, int] | None:
    """How slow the fastest and the slowest of the known kinds are; losing NVLS costs a quarter of an all_reduce."""
    ranks = [_KINDS.index(kind) for kind in kinds & set(_KINDS)]
    return (min(ranks), max(ranks)) if ranks else None
