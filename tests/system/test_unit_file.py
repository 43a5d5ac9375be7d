"""systemd reads our unit without a word, and finds it well confined."""

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "gpumond.service"
EXPOSURE_MAX = 20  # tenths


@pytest.fixture
def unit(tmp_path):
    """The unit with a program that exists here: verify refuses one that does not."""
    path = tmp_path / "gpumond.service"
    path.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text(), flags=re.MULTILINE))
    return path


def test_verify_says_nothing(unit):
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_its_exposure_is_at_most_two(unit):
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(unit)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
