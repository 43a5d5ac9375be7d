"""The inputs of a measurement that may move its numbers, and what changed between two of them. Pure.

A fingerprint is text by key. What could not be read is empty, and keeps its last known value (DESIGN rule 4): it is
never a change. A key that was not there before is learned, not a change either, but for the variables of the libraries:
one that is not set is not there, so that setting NCCL_P2P_DISABLE and unsetting it both are changes. Keys are grouped by
what a change of them means; a key that no pattern knows counts as software.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import IntEnum
from typing import Final

from gpumond.model.baseline import InputChange

UNREADABLE: Final = frozenset({"", "?", "unreadable", "unknown", "n/a", "none"})


class InputGroup(IntEnum):
    """What kind of thing a key is, the most likely cause of a lost bandwidth first."""

    HOST = 0  # another host altogether
    HARDWARE = 1  # GPUs, links, firmware, partitions: always asked
    LIBRARY = 2  # NCCL or RCCL, and its settings
    DRIVER = 3
    BENCHMARK = 4
    SYSTEM = 5  # kernel, command line, CUDA
    SETTING = 6  # limits and modes


_PATTERNS: Final = (
    (InputGroup.HOST, r"machine[._-]?id|host[._-]?(name|id)|^host$|^node$"),
    (InputGroup.SETTING, r"power|clock|persistence|ecc"),
    (
        InputGroup.HARDWARE,
        r"uuid|serial|vbios|ifwi|topolog|link|gpu[._-]?(model|name|count)|^gpus?$|pci|mig|partition|nic",
    ),
    (InputGroup.LIBRARY, r"(^|[._-])(nccl|rccl|hsa)([._-](?!test)|$)|conf"),
    (InputGroup.DRIVER, r"driver|fabric|gsp|peermem"),
    (InputGroup.BENCHMARK, r"bench|test|tool|engine|sha256|binary"),
    (InputGroup.SYSTEM, r"kernel|cmdline|command|cuda|rocm|os|boot|iommu|bios"),
)
_COMPILED: Final = tuple((group, re.compile(pattern)) for group, pattern in _PATTERNS)
_UUIDS: Final = re.compile(r"GPU-[0-9A-Za-z-]+")
_VARIABLE: Final = re.compile(r"(^|[._])(NCCL|RCCL|HSA)_(?!VERSION)[A-Z0-9_]+$")
"""As it is written in an environment; `nccl_version` in small letters is none."""
_NOT_SET: Final = ""


def group_of(key: str) -> InputGroup:
    """By the first pattern that occurs in the key."""
    lowered = key.lower()
    return next((group for group, pattern in _COMPILED if pattern.search(lowered)), InputGroup.SYSTEM)


def carried(last: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """`now`, with the last known value of everything that could not be read. A `now` without any key was not recorded."""
    readable = {key: value for key, value in now.items() if value.strip().lower() not in UNREADABLE}
    kept = {key: value for key, value in last.items() if not now or key in now or not _VARIABLE.search(key)}
    return {**kept, **readable}


def changed_keys(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Keys with different values that both know, and variables that only one has, in the order of their groups."""
    if before == after or not before or not after:
        return ()
    changed = [key for key, value in before.items() if key in after and after[key] != value]
    changed += [key for key in before.keys() ^ after.keys() if _VARIABLE.search(key)]
    return ranked(changed)


def ranked(keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(keys), key=lambda key: (group_of(key), key)))


def changes_between(
    before: Mapping[str, str], after: Mapping[str, str], at: datetime
) -> tuple[InputChange, ...]:
    return tuple(
        InputChange(at, key, before.get(key, _NOT_SET), after.get(key, _NOT_SET))
        for key in changed_keys(before, after)
    )


def needs_person(changes: Iterable[InputChange]) -> bool:
    """Other hardware is another machine in all but name: nobody may call its numbers normal but a person."""
    return any(group_of(change.key) <= InputGroup.HARDWARE for change in changes)


def is_other_host(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a baseline was learned elsewhere: another machine, or not one GPU in common."""
    if before == after:
        return False
    if any(group_of(key) is InputGroup.HOST for key in changed_keys(before, after)):
        return True
    old, new = _uuids(before), _uuids(after)
    return len(old) > 1 and len(new) > 0 and not old & new


def _uuids(fingerprint: Mapping[str, str]) -> set[str]:
    texts = (value for key, value in fingerprint.items() if "uuid" in key.lower())
    return {uuid for text in texts for uuid in _UUIDS.findall(text)}
