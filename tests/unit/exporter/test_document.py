from __future__ import annotations

import os
from pathlib import Path

from gpumond.exporter.catalogue import AT_SCRAPE, PROCESS, STEADY
from gpumond.exporter.document import render_markdown

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_the_page_is_what_the_catalogue_says():
    if os.environ.get("UPDATE_GOLDENS"):
        PAGE.write_text(render_markdown())
    assert PAGE.read_text() == render_markdown()


def test_the_page_names_every_metric_and_who_reads_it():
    page = render_markdown()
    for family in (*STEADY, *AT_SCRAPE):
        assert f"### `{family.name}" in page
        assert f"Read by `{family.read_by}`." in page
    assert all(f"`{name}`" in page for name in PROCESS)
