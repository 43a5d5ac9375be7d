from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from history_values import StandingClock, store_one

from gpumond.store.sqlite import Store


@pytest.fixture
def clock():
    return StandingClock()


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def store(directory, clock):
    with Store.open(directory, clock=clock) as opened:
        yield opened


@pytest.fixture
def filled(directory, clock):
    """A closed store with one finished run; returns the run."""
    with Store.open(directory, clock=clock) as opened:
        return store_one(opened)


@pytest.fixture
def public_directory():
    """A directory that every user may enter; pytest's own is closed to others."""
    path = Path(tempfile.mkdtemp(prefix="gpumond-test-"))
    path.chmod(0o755)
    yield path
    for place in (path, *path.rglob("*")):
        if place.is_dir():
            place.chmod(0o755)
    shutil.rmtree(path)


@pytest.fixture
def as_user():
    """`with as_user(uid):` what runs inside has that user's rights, as the kernel and SQLite see it. Needs root."""

    @contextlib.contextmanager
    def become(uid: int):
        groups = os.getgroups()
        os.setgroups([])
        os.setegid(uid)
        os.seteuid(uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(groups)

    return become


@pytest.fixture
def as_ordinary_user(as_user):
    """`with as_ordinary_user():` rights that file modes can refuse; nothing to do where the tests have no root."""
    return (lambda: as_user(65_534)) if os.geteuid() == 0 else contextlib.nullcontext
