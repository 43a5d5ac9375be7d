"""What a reload would change, and the fingerprint of a configuration. Pure.

Changes are named by key and never hold a value: an environment may carry a secret. Sweeps and GPU sets are matched by
name, so that a new one in front does not change the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpumond.config.keys import restart_keys
from gpumond.config.schema import Config, SweepConfig
from gpumond.config.table import Table


@dataclass(frozen=True, slots=True)
class ConfigDiff:
    """The keys that differ, sorted; `needs_restart` are those among them that a reload cannot change."""

    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not self.changed


def diff(old: Config, new: Config) -> ConfigDiff:
    changed = tuple(sorted(_changes("", old, new)))
    return ConfigDiff(changed, tuple(key for key in changed if _needs_restart(key)))


def hash_of(config: Config) -> str:
    """Equal for equal settings, whatever the order and the wording of the file."""
    tree = config.model_dump(mode="json", by_alias=True)
    tree["sweep"] = {sweep["name"]: sweep for sweep in tree["sweep"]}
    canonical = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _changes(path: str, old: Any, new: Any) -> Iterator[str]:
    """The innermost keys that differ; a table that only one side has counts as one key."""
    if old == new:
        return
    before, after = _inside(old), _inside(new)
    if before is None or after is None:
        yield path
        return
    for key in before.keys() | after.keys():
        yield from _changes(f"{path}.{key}" if path else key, before.get(key), after.get(key))


def _inside(value: Any) -> Mapping[str, Any] | None:
    """What a table holds, by name; None for a value that is no table."""
    if isinstance(value, Table):
        fields = type(value).model_fields.items()
        return {field.alias or name: getattr(value, name) for name, field in fields}
    if isinstance(value, tuple) and all(isinstance(each, SweepConfig) for each in value):
        return {sweep.name: sweep for sweep in value}
    return value if isinstance(value, Mapping) else None


def _needs_restart(key: str) -> bool:
    return any(fixed == key or fixed.startswith(f"{key}.") for fixed in restart_keys())
