"""systemd reads our unit without a word, and finds it well confined."""

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "gpumond.service"
DROP_IN = UNIT.with_name("gpumond-delegate.conf")
EXPOSURE_MAX = 20  # tenths


@pytest.fixture(params=["alone", "with its drop-in"])
def unit(tmp_path, request):
    """The unit with a program that exists here: verify refuses one that does not."""
    path = tmp_path / "gpumond.service"
    path.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text(), flags=re.MULTILINE))
    if request.param != "alone":
        drop_in = tmp_path / "gpumond.service.d" / "delegate.conf"
        drop_in.parent.mkdir()
        drop_in.write_text(DROP_IN.read_text())
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
