"""docs/configuration.md is what the schema says, and what it says is valid."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gpumond.config.document import render_markdown
from gpumond.config.keys import ANY_NAME, sections
from gpumond.config.load import parse
from gpumond.config.schema import Config

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"

EXAMPLES = [
    pytest.param(section, key, example, id=f"{section.name}.{key.name}={example}"[:60])
    for section in sections()
    for key in section.keys
    for example in key.examples
]


NEEDED_BY = {"when": {"after": '["boot"]'}, "process_per_gpu": {"launcher": '["mpirun"]'}}
"""Keys that mean nothing without another."""


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == render_markdown(), (
        "python -m gpumond.config.document > docs/configuration.md"
    )


def test_every_key_has_a_heading_and_an_example():
    page = render_markdown()
    for section in sections():
        assert f"\n## `{section.header}`\n" in page
        for key in section.keys:
            assert f"\n### `{key.name}`\n" in page
            assert key.examples, f"{section.header} {key.name}"


@pytest.mark.parametrize(("section", "key", "example"), EXAMPLES)
def test_every_example_loads_and_is_no_repetition_of_the_default(section, key, example):
    header = section.header.replace(ANY_NAME, "a")
    required = {each.name: each.examples[0] for each in section.keys if each.is_required and each is not key}
    rows = {**required, **NEEDED_BY.get(key.name, {}), key.name: example}
    sets = "[gpu_sets]\nnuma0 = { numa_node = 0 }\n" if ANY_NAME not in section.path else ""
    text = sets + header + "\n" + "".join(f"{name} = {value}\n" for name, value in rows.items())
    assert isinstance(parse(text, name="example"), Config)
    assert example != key.default


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.name)
def test_every_default_can_be_written(section):
    for key in section.keys:
        if key.default is not None:
            assert list(tomllib.loads(f"{key.name} = {key.default}")) == [key.name]


def test_restart_is_said_where_it_is_needed():
    marked = {
        f"{section.name}.{key.name}" for section in sections() for key in section.keys if key.needs_restart
    }
    assert marked == {
        "store.directory",
        "web.enabled",
        "web.listen_address",
        "textfile.file",
        "textfile.interval",
        "benchmark.lock_file",
        "simulate.scenario",
        "simulate.faults",
        "simulate.pace",
    }
    assert render_markdown().count("*restart*") == len(marked) + 1
