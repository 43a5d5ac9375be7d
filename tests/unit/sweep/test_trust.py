"""Who may give us a program, as a table; and that real files are read as they are."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpumond.errors import HostError
from gpumond.model.benchmark import Collective
from gpumond.sweep.engines.nccl_tests import NcclTests
from gpumond.sweep.engines.trust import Ownership, objection, require_trusted

ROOT, ALICE = 0, 1000
FILE, DIRECTORY = stat.S_IFREG, stat.S_IFDIR
PROGRAM = Path("/opt/nccl-tests/build/all_reduce_perf")


def chain(uid=ROOT, mode=FILE | 0o755, directory_uid=ROOT, directory_mode=DIRECTORY | 0o755):
    return [Ownership(PROGRAM, uid, mode), Ownership(PROGRAM.parent, directory_uid, directory_mode)]


@pytest.mark.parametrize(
    ("items", "euid", "trusted", "said"),
    [
        (chain(), ROOT, (), ""),
        (chain(uid=ALICE), ROOT, (), "belongs to user 1000"),
        (chain(directory_uid=ALICE), ROOT, (), "build belongs to user 1000"),
        (chain(uid=ALICE, directory_uid=ALICE), ROOT, (ALICE,), ""),
        (chain(mode=FILE | 0o757), ROOT, (), "all_reduce_perf is writable for everybody"),
        (chain(mode=FILE | 0o757), ROOT, (ALICE,), "is writable for everybody"),
        (chain(directory_mode=DIRECTORY | 0o777), ROOT, (), "build is writable for everybody"),
        (chain(directory_mode=DIRECTORY | 0o1777), ROOT, (), ""),  # /tmp
        (chain(mode=FILE | 0o4755), ROOT, (), "set-user-ID"),
        (chain(mode=FILE | 0o4755), ALICE, (), "set-user-ID"),
        (chain(mode=FILE | 0o2755), ALICE, (), "set-user-ID or set-group-ID"),
        (chain(directory_mode=DIRECTORY | 0o2755), ROOT, (), ""),  # means something else for a directory
        (chain(uid=1001, mode=FILE | 0o757), ALICE, (), ""),
    ],
)
def test_who_may_give_us_a_program(items, euid, trusted, said):
    found = objection(items, euid=euid, trusted_uids=trusted)
    assert said in found
    assert bool(found) == bool(said)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "all_reduce_perf"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_real_files(program):
    mine = (os.getuid(),)
    require_trusted(program, trusted_uids=mine, euid=ROOT)
    program.chmod(0o757)
    with pytest.raises(HostError, match="is writable for everybody") as raised:
        require_trusted(program, trusted_uids=mine, euid=ROOT)
    assert "engines.trusted_owners" in raised.value.hint


def test_a_link_is_as_good_as_what_it_leads_to(program, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(program)
    program.chmod(0o4755)
    with pytest.raises(HostError, match="set-user-ID"):
        require_trusted(link)


def test_the_engine_refuses_a_set_user_id_program(program):
    program.chmod(0o4755)
    with pytest.raises(HostError, match="set-user-ID"):
        NcclTests(directory=program.parent).find(Collective.ALL_REDUCE)
