"""A page an alert: what it means, what to look at, what to do, with commands that exist."""

import shlex
from pathlib import Path

import pytest

from gpumond.cli.main import _parse

PAGES = sorted((Path(__file__).parents[3] / "docs/runbooks").glob("*.md"))
HEADINGS = ["## What it means", "## What to look at", "## What to do"]
MEASURED = ("Busbw", "WrongResults", "FleetOutlier", "SweepFailed", "SweepFailing", "LinkDown", "P2pLost")
"""Alerts that a measurement confirms or ends: their pages say how to measure now."""


def commands(page):
    """The lines of the code blocks."""
    return [line.strip() for line in page.read_text().splitlines() if line.startswith("    ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_its_parts(page):
    text = page.read_text()
    lines = text.splitlines()
    assert lines[0] == f"# {page.stem}"
    headings = [line for line in lines if line.startswith("## ")]
    assert headings[:3] == HEADINGS
    assert headings[3:] in ([], ["## Measure again"])
    assert commands(page), "what to look at is a command"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_exists(page):
    for line in commands(page):
        # `sudo -u gpumond gpumond ...` and a remark behind the command are allowed.
        words = shlex.split(line, comments=True)
        if "gpumond" in words and words[0] in ("gpumond", "sudo"):
            _parse(words[words.index("gpumond", words[0] == "sudo" and words.index("gpumond") + 1) + 1 :])


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(word in page.stem for word in MEASURED)],
    ids=lambda page: page.stem,
)
def test_a_page_about_a_result_says_how_to_measure_now(page):
    _, _, again = page.read_text().partition("## Measure again")
    assert "    gpumond sweep\n" in again
    assert "    gpumond sweep --collective all_reduce --min-size 1GiB --max-size 1GiB\n" in again
