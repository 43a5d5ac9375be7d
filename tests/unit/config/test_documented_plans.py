"""Every configuration that the documentation shows can be copied as it stands."""

import re
from pathlib import Path

import pytest

from gpumond.config.load import parse

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLANS = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
    for number, text in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("text", PLANS)
def test_a_plan_loads(text):
    parse(text, name="documentation")


def test_there_are_some():
    assert len(PLANS) >= 5
