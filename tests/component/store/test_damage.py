"""Damaged, foreign and half-made files: moved aside or refused, reported, never deleted, never silently empty."""

from __future__ import annotations

import os
import sqlite3

import pytest
from history_values import StandingClock

from gpumond.errors import ExitCode, StoreError, StoreErrorKind
from gpumond.store.sqlite import Store


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def garbage(path):
    path.write_bytes(os.urandom(20_000))


def empty(path):
    path.write_bytes(b"")


def one_byte(path):
    path.write_bytes(b"S")


def wreck_a_page(path):
    with path.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * 4096)


DAMAGES = [truncate, garbage, empty, one_byte, wreck_a_page]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_history_is_moved_aside_and_a_new_one_begins(directory, clock, filled, damage):
    path = directory / "history.db"
    damage(path)
    damaged = path.read_bytes()
    with Store.open(directory, clock=clock) as store:
        assert store.recovered_from.path == directory / "history.db.corrupt-20261129T020000Z"
        assert store.recovered_from.path.read_bytes() == damaged
        assert store.recovered_from.reason
        assert store.runs(limit=9) == ()
        store.check_writable()
    with Store.open(directory, clock=clock) as again:
        assert again.recovered_from is None


def test_damage_twice_in_a_second_keeps_both_files(directory, clock, filled):
    for _ in range(2):
        garbage(directory / "history.db")
        Store.open(directory, clock=clock).close()
    assert sorted(path.name for path in directory.iterdir()) == [
        "history.db",
        "history.db.corrupt-20261129T020000Z",
        "history.db.corrupt-20261129T020000Z.2",
    ]


def test_the_wal_goes_with_its_damaged_history(directory, clock, filled):
    """Else its changes would be applied to the new one."""
    path = directory / "history.db"
    garbage(path)
    (directory / "history.db-wal").write_bytes(b"what was not yet in the file")
    with Store.open(directory, clock=clock) as store:
        aside = store.recovered_from.path
    assert aside.with_name(aside.name + "-wal").read_bytes() == b"what was not yet in the file"


def test_a_history_that_is_open_elsewhere_is_not_moved_away(directory, clock, store):
    """A daemon would go on writing into a file that nobody reads."""
    garbage(store.path)
    damaged = store.path.read_bytes()
    with pytest.raises(StoreError) as caught:
        Store.open(directory, clock=clock)
    assert caught.value.kind is StoreErrorKind.CORRUPT
    assert "start the daemon" in caught.value.hint
    assert store.path.read_bytes() == damaged


def test_a_healthy_history_is_kept(directory, clock, filled):
    with Store.open(directory, clock=clock) as store:
        assert store.recovered_from is None
        assert store.run(filled.id) == filled


def test_damage_that_shows_later_is_a_store_error(directory, clock, filled):
    with Store.open(directory, clock=clock, read_only=True) as store:
        truncate(store.path)
        with pytest.raises(StoreError) as caught:
            store.run(filled.id)
        assert caught.value.kind is StoreErrorKind.CORRUPT


def test_a_reader_refuses_a_damaged_history_and_touches_nothing(directory, clock, filled):
    garbage(directory / "history.db")
    damaged = (directory / "history.db").read_bytes()
    with pytest.raises(StoreError) as caught:
        Store.open(directory, clock=clock, read_only=True)
    assert caught.value.kind is StoreErrorKind.CORRUPT
    assert (directory / "history.db").read_bytes() == damaged


@pytest.mark.parametrize("read_only", [True, False])
def test_a_newer_history_is_refused_and_kept_as_it_is(directory, clock, filled, read_only):
    path = directory / "history.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        Store.open(directory, clock=clock, read_only=read_only)
    assert caught.value.kind is StoreErrorKind.NEWER_SCHEMA
    assert "99" in caught.value.message
    assert "newer gpumond" in caught.value.hint
    assert caught.value.exit_code is ExitCode.STORE
    assert path.read_bytes() == before


def test_a_newer_history_that_is_open_elsewhere_is_refused_at_once(directory, clock, store):
    store._database.connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError) as caught:
        Store.open(directory, clock=clock)
    assert caught.value.kind is StoreErrorKind.NEWER_SCHEMA
    assert clock.monotonic() == 0.0


def test_an_older_history_under_a_running_daemon_is_refused_after_a_while(directory, clock, store):
    """An upgraded command line must not migrate it under the daemon of yesterday."""
    store._database.connection.execute("PRAGMA user_version = 0")
    with pytest.raises(StoreError) as caught:
        Store.open(directory, clock=clock)
    assert caught.value.kind is StoreErrorKind.BUSY
    assert "Restart the daemon" in caught.value.hint
    assert clock.monotonic() >= 5.0


def test_a_reader_does_not_migrate(directory, clock, filled):
    with sqlite3.connect(directory / "history.db") as connection:
        connection.execute("PRAGMA user_version = 0")
    connection.close()
    with pytest.raises(StoreError, match="schema version 0") as caught:
        Store.open(directory, clock=clock, read_only=True)
    assert "Start the daemon" in caught.value.hint


def test_a_reader_makes_nothing(tmp_path, clock):
    with pytest.raises(StoreError, match="there is no history in") as caught:
        Store.open(tmp_path, clock=clock, read_only=True)
    assert caught.value.kind is StoreErrorKind.UNAVAILABLE
    assert caught.value.hint
    with pytest.raises(StoreError, match="there is no history in"):
        Store.open(tmp_path / "nowhere", clock=clock, read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_history_that_was_begun_and_not_finished_is_finished(directory, clock):
    """The daemon died between making the file and its first migration."""
    directory.mkdir()
    with sqlite3.connect(directory / "history.db") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    with Store.open(directory, clock=clock) as store:
        assert store.recovered_from is None
        store.check_writable()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to("/etc/hostname")])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_history_that_is_no_file_is_refused(directory, clock, make, read_only):
    directory.mkdir()
    make(directory / "history.db")
    with pytest.raises(StoreError, match="is not a regular file"):
        Store.open(directory, clock=clock, read_only=read_only)


def test_a_state_directory_that_is_a_file_is_refused(tmp_path, clock):
    (tmp_path / "state").write_text("")
    with pytest.raises(StoreError, match="is not a directory"):
        Store.open(tmp_path / "state", clock=clock)


def test_a_history_deleted_under_us_is_noticed_at_the_next_write(store):
    store.check_writable()
    store.path.unlink()
    with pytest.raises(StoreError, match="was moved or deleted while it was open"):
        store.check_writable()


def test_a_closed_store_says_so(store):
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.latest_points()


def test_the_settings_that_the_promises_rest_on(store):
    def pragma(name):
        return store._database.pragma(name)

    assert (pragma("synchronous"), pragma("foreign_keys"), pragma("auto_vacuum")) == (2, 1, 2)
    assert pragma("busy_timeout") == 5000
    assert store._database.connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_odd_characters_in_the_path_are_no_uri(tmp_path):
    directory = tmp_path / "a?mode=ro#b%41 c"
    with Store.open(directory, clock=StandingClock()) as store:
        store.check_writable()
    assert (directory / "history.db").is_file()
