"""config.example.toml: it loads, it holds every key of the schema with its default, and nothing else."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from gpumond.config.advice import advise
from gpumond.config.durations import parse_duration
from gpumond.config.keys import ANY_NAME, sections
from gpumond.config.load import LARGEST_FILE_BYTES, default_config, load, parse
from gpumond.config.schema import SweepConfig

EXAMPLE = Path(__file__).parents[3] / "config.example.toml"
COMMENTED = re.compile(r"^#(?=[a-z_0-9]+ = |\[)", re.MULTILINE)


@pytest.fixture(scope="module")
def everything():
    """The example with all that is commented out switched on."""
    return COMMENTED.sub("", EXAMPLE.read_text(encoding="utf-8"))


def test_it_is_the_defaults_and_a_nightly_sweep():
    config = load(EXAMPLE)
    assert config.sweeps == (SweepConfig(name="nightly"),)
    assert config.model_copy(update={"sweeps": ()}) == default_config()
    assert advise(config) == ()
    assert EXAMPLE.stat().st_size < LARGEST_FILE_BYTES / 50


def test_it_loads_with_everything_switched_on(everything):
    config = parse(everything, name="everything")
    assert set(config.gpu_sets) == {"pair", "numa0", "rest"}
    assert config.simulate is not None
    assert config.sweeps[0].total_deadline == 600.0


def test_every_key_of_the_schema_occurs(everything):
    assert keys_of_the_file(tomllib.loads(everything)) == {
        ".".join((*section.path, key.name)) for section in sections() for key in section.keys
    }


def test_every_written_default_is_the_default(everything):
    """Also where it is commented out, as in [simulate]."""
    document = tomllib.loads(everything)
    for section in sections():
        if ANY_NAME in section.path:
            continue
        table = document
        for part in section.path:
            table = table[part]
        table = table[0] if section.is_array else table
        for key in section.keys:
            if key.default is not None:
                written = tomllib.loads(f"default = {key.default}")["default"]
                assert same(table[key.name], written), f"{section.header} {key.name}"


def same(one, other):
    """`60s` and `1m` are the same."""
    try:
        return parse_duration(one) == parse_duration(other)
    except (TypeError, ValueError):
        return one == other


def keys_of_the_file(document):
    found = set()
    tables_inside = {section.name for section in sections()}
    for section in sections():
        tables = [document]
        for part in section.path:
            tables = [
                inner
                for table in tables
                for inner in (table.values() if part == ANY_NAME else [table.get(part, {})])
            ]
        for table in tables:
            rows = table if isinstance(table, list) else [table]
            found |= {
                ".".join((*section.path, name)) for row in rows if isinstance(row, dict) for name in row
            }
    return found - tables_inside
