"""Who may read and write: read-only places, other users' files, and root beside a daemon with a user of its own."""

from __future__ import annotations

import os
import subprocess

import pytest
from history_values import store_one

from gpumond.errors import StoreError, StoreErrorKind
from gpumond.store.sqlite import Store

DAEMON = 61_234
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes users: root only")


def owners_in(directory):
    return {path.name: path.stat().st_uid for path in directory.iterdir()}


def test_what_is_made_is_closed_to_others_whatever_the_umask(directory, clock):
    old = os.umask(0)
    try:
        Store.open(directory, clock=clock).close()
    finally:
        os.umask(old)
    assert directory.stat().st_mode & 0o7777 == 0o750
    assert (directory / "history.db").stat().st_mode & 0o7777 == 0o640


def test_an_existing_directory_keeps_its_mode(directory, clock):
    directory.mkdir(mode=0o711)
    Store.open(directory, clock=clock).close()
    assert directory.stat().st_mode & 0o7777 == 0o711


def test_a_missing_directory_that_cannot_be_made(public_directory, clock, as_ordinary_user):
    public_directory.chmod(0o555)
    with as_ordinary_user(), pytest.raises(StoreError) as caught:
        Store.open(public_directory / "a" / "b", clock=clock)
    assert caught.value.kind is StoreErrorKind.READ_ONLY
    assert "cannot make the state directory" in caught.value.message
    assert f"{public_directory} belongs to uid {os.geteuid()}" in caught.value.hint


def test_a_directory_that_is_not_writable(public_directory, clock, as_ordinary_user):
    public_directory.chmod(0o555)
    with as_ordinary_user(), pytest.raises(StoreError) as caught:
        Store.open(public_directory, clock=clock)
    assert caught.value.kind is StoreErrorKind.READ_ONLY
    assert "another state directory" in caught.value.hint
    assert list(public_directory.iterdir()) == []


def test_a_history_that_is_not_writable(public_directory, clock, as_ordinary_user):
    Store.open(public_directory, clock=clock).close()
    public_directory.chmod(0o777)
    (public_directory / "history.db").chmod(0o444)
    with as_ordinary_user(), pytest.raises(StoreError) as caught:
        Store.open(public_directory, clock=clock)
    assert caught.value.kind is StoreErrorKind.READ_ONLY
    assert "history.db belongs to uid" in caught.value.hint


@pytest.mark.parametrize("is_daemon_running", [True, False])
def test_who_may_only_read_reads(public_directory, clock, as_ordinary_user, is_daemon_running):
    """Also a directory in which a reader cannot make the WAL files that SQLite wants."""
    store = Store.open(public_directory, clock=clock)
    run = store_one(store)
    if not is_daemon_running:
        store.close()
    for path in public_directory.iterdir():
        path.chmod(0o444)
    public_directory.chmod(0o555)
    with as_ordinary_user(), Store.open(public_directory, clock=clock, read_only=True) as reader:
        assert reader.run(run.id) == run
    store.close()


def test_a_history_that_is_not_even_readable(public_directory, clock, as_ordinary_user):
    Store.open(public_directory, clock=clock).close()
    public_directory.chmod(0o000)
    with as_ordinary_user(), pytest.raises(StoreError, match="cannot look at") as caught:
        Store.open(public_directory, clock=clock, read_only=True)
    assert caught.value.kind is StoreErrorKind.UNAVAILABLE
    assert "belongs to uid" in caught.value.hint


def test_a_reader_cannot_write(store, directory, clock):
    with Store.open(directory, clock=clock, read_only=True) as reader:
        with pytest.raises(StoreError) as caught:
            reader.increment("counter")
        assert caught.value.kind is StoreErrorKind.READ_ONLY


@needs_root
def test_what_root_makes_belongs_to_the_daemon(public_directory, clock, as_user):
    """`sudo gpumond sweep` on a new host must not lock out the daemon that starts afterwards."""
    os.chown(public_directory, DAEMON, DAEMON)
    with Store.open(public_directory, clock=clock) as store:
        run = store_one(store)
        assert set(owners_in(public_directory)) == {"history.db", "history.db-wal", "history.db-shm"}
        assert set(owners_in(public_directory).values()) == {DAEMON}
        with as_user(DAEMON), Store.open(public_directory, clock=clock) as daemon:
            assert daemon.run(run.id) == run
            daemon.check_writable()


@needs_root
@pytest.mark.parametrize("read_only", [True, False])
def test_root_beside_a_daemon_that_has_stopped_leaves_it_a_writable_history(
    public_directory, clock, as_user, read_only
):
    os.chown(public_directory, DAEMON, DAEMON)
    with as_user(DAEMON), Store.open(public_directory, clock=clock) as daemon:
        run = store_one(daemon)
    with Store.open(public_directory, clock=clock, read_only=read_only) as root:
        assert root.run(run.id) == run
        assert set(owners_in(public_directory).values()) == {DAEMON}
    assert set(owners_in(public_directory).values()) == {DAEMON}
    with as_user(DAEMON), Store.open(public_directory, clock=clock) as daemon:
        daemon.check_writable()


@needs_root
def test_what_root_moves_aside_and_copies_belongs_to_the_daemon(public_directory, clock):
    os.chown(public_directory, DAEMON, DAEMON)
    Store.open(public_directory, clock=clock).close()
    (public_directory / "history.db").write_bytes(b"garbage")
    with Store.open(public_directory, clock=clock) as store:
        assert store.recovered_from is not None
    assert len(owners_in(public_directory)) == 2
    assert set(owners_in(public_directory).values()) == {DAEMON}


@needs_root
def test_root_does_not_follow_a_link_that_the_daemons_user_has_laid(public_directory, clock, tmp_path):
    victim = tmp_path / "shadow"
    victim.write_text("secret")
    os.chown(public_directory, DAEMON, DAEMON)
    (public_directory / "history.db").symlink_to(victim)
    with pytest.raises(StoreError, match="not a regular file"):
        Store.open(public_directory, clock=clock)
    assert victim.read_text() == "secret"
    assert victim.stat().st_uid == 0


@needs_root
def test_a_read_only_file_system(public_directory, clock):
    """Modes do not stop root, a mount does."""
    with Store.open(public_directory, clock=clock) as store:
        run = store_one(store)
    bind = ["mount", "--bind", public_directory, public_directory]
    remount = ["mount", "-o", "remount,ro,bind", public_directory]
    if subprocess.run(bind, capture_output=True, check=False).returncode != 0:
        pytest.skip("this root may not mount")
    try:
        subprocess.run(remount, check=True, capture_output=True)
        with pytest.raises(StoreError) as caught:
            Store.open(public_directory, clock=clock)
        assert caught.value.kind is StoreErrorKind.READ_ONLY
        with Store.open(public_directory, clock=clock, read_only=True) as reader:
            assert reader.run(run.id) == run
    finally:
        subprocess.run(["umount", public_directory], check=True, capture_output=True)
