"""What a user may see, and what doctor says where it may not."""

import re
from pathlib import Path

import pytest

from gpumond.config.guards_schema import SlurmMode
from gpumond.doctor.checks import NOT_EVALUATED, Level
from gpumond.doctor.privileges import check_processes, check_slurm, check_user
from gpumond.process.ask import Answer

PAGE = Path(__file__).parents[3] / "docs" / "privileges.md"
USERS = {"root": 0, "gpumond": 990}


@pytest.mark.parametrize(
    ("uid", "users", "says"),
    [
        (990, USERS, []),
        (0, {"root": 0}, []),  # nothing installed: nothing to compare with
        (0, USERS, ["this is root; the service runs as gpumond, and may see less or more"]),
        (1234, USERS, ["this is 1234; the service runs as gpumond, and may see less or more"]),
    ],
)
def test_whoever_asks_is_told_where_the_service_is_somebody_else(uid, users, says):
    assert [check.detail for check in check_user(uid, users)] == says


def test_hidden_processes(tmp_path):
    assert check_processes(Path("/proc")).level is Level.OK
    hidden = check_processes(tmp_path)
    assert hidden.level is Level.WARNING
    assert hidden.detail.startswith(NOT_EVALUATED)


@pytest.mark.parametrize(
    ("answer", "mode", "level", "says"),
    [
        (Answer("PrivateData             = none\n", "", ""), SlurmMode.LOOK, Level.OK, "answers; mode look"),
        (Answer("PrivateData = jobs,usage\n", "", ""), SlurmMode.LOOK, Level.WARNING, NOT_EVALUATED),
        (Answer("PrivateData = jobs,usage\n", "", ""), SlurmMode.JOB, Level.OK, "answers; mode job"),
        (
            Answer("", "slurm_load: munge is down\n", "status 1"),
            SlurmMode.JOB,
            Level.MISSING,
            "munge is down",
        ),
        (Answer("", "", "not found"), SlurmMode.JOB, Level.MISSING, "not found"),
    ],
)
def test_slurm(answer, mode, level, says):
    check = check_slurm(lambda _words: answer, "n1", mode)
    assert check.level is level
    assert says in check.detail
    assert (check.hint != "") == (level is not Level.OK)


def test_the_page_names_checks_and_drop_ins_that_exist():
    text = PAGE.read_text()
    sources = "".join(path.read_text() for path in (PAGE.parents[1] / "gpumond/doctor").rglob("*.py"))
    named = re.findall(r"doctor: `([^`]+)`", text)
    assert len(set(named)) >= 5
    for name in named:
        assert f'"{name}"' in sources, name
    drop_ins = {path.name for path in (PAGE.parents[1] / "deploy/systemd/gpumond.service.d").glob("*.conf")}
    assert set(re.findall(r"`([a-z-]+\.conf)`", text)) == drop_ins


def test_the_page_prints_the_exposure_that_the_drop_ins_do():
    for path in (PAGE.parents[1] / "deploy/systemd/gpumond.service.d").glob("*.conf"):
        exposure = re.search(r"^# Exposure: ([0-9.]+)", path.read_text(), re.MULTILINE)[1]
        assert re.search(
            rf"^\| `{re.escape(path.name)}` \|.*\| {exposure} \|$", PAGE.read_text(), re.MULTILINE
        )
