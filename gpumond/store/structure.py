"""The structure of a host: its snapshot without what changes all the time, with last known values where unreadable.

Decides one thing: does a snapshot say something new, so that its document is worth keeping? What a change means is the
business of gpumond.topology. Pure. A field that nobody lists here is structure: forgetting one costs disk, not a change.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from gpumond.codec import encode
from gpumond.model.topology import Snapshot

_VOLATILE = {
    "snapshot": frozenset({"taken_at", "duration_seconds"}),
    "host": frozenset({"uptime_seconds", "boot_id"}),
    "gpu": frozenset(
        {"memory_used_bytes", "utilisation_ratio", "processes", "performance_state", "ecc_errors"}
    ),
    "pcie": frozenset({"generation", "replays"}),  # the current generation drops at idle on purpose
    "nvlink": frozenset({"errors"}),
}
_UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Structure:
    """Canonical JSON, so that equal structures are equal bytes."""

    document: bytes

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.document).hexdigest()


def structure_of(snapshot: Snapshot, last: Structure | None) -> Structure:
    """The structure in `snapshot`; a field that could not be read keeps its value of `last` (DESIGN rule 4)."""
    tree = _without_volatile(json.loads(encode(snapshot)))
    if last is not None:
        tree = _with_last_known(tree, json.loads(last.document))
    return Structure(json.dumps(tree, sort_keys=True, separators=(",", ":")).encode())


def _without_volatile(document: dict[str, Any]) -> dict[str, Any]:
    tree = _without(document, "snapshot")
    tree["host"] = _without(tree["host"], "host")
    # Things by what they are: a list that is ordered anew is no change, and last known values find their place.
    tree["gpus"] = {gpu["uuid"]: _gpu(gpu) for gpu in tree["gpus"]}
    tree["pairs"] = {f"{pair['gpu']} {pair['peer']}": pair for pair in tree["pairs"]}
    tree["nics"] = {nic["name"]: nic for nic in tree["nics"]}
    tree["silent_gpus"] = sorted(
        (str(gpu["pci_bus_id"]), str(gpu["index"]), gpu["cause"]["reason"]) for gpu in tree["silent_gpus"]
    )
    return tree


def _gpu(gpu: dict[str, Any]) -> dict[str, Any]:
    tree = _without(gpu, "gpu")
    tree["pcie"] = _without(tree["pcie"], "pcie")
    nvlinks = tree["nvlinks"]
    if nvlinks["state"] == "value":
        links = {str(link["link"]): _without(link, "nvlink") for link in nvlinks["value"]}
        tree["nvlinks"] = {**nvlinks, "value": links}
    return tree


def _without(node: dict[str, Any], kind: str) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name not in _VOLATILE[kind]}


def _with_last_known(tree: Any, last: Any) -> Any:
    """`tree` with every unreadable reading replaced by what `last` has in its place."""
    if not isinstance(tree, dict) or not isinstance(last, dict):
        return tree
    if tree.get("state") == _UNREADABLE:
        # Both unreadable: the first reason stays, or each new reason would be a change.
        return last if "state" in last else tree
    return {name: _with_last_known(value, last.get(name)) for name, value in tree.items()}
