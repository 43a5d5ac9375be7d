"""Old files come up to date with their rows, or stay exactly as they were."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from history_values import NIGHT

from gpumond.store.migrations import MIGRATIONS, SCHEMA_VERSION
from gpumond.store.sqlite import Store, migrate

DUMPS = Path(__file__).parents[2] / "data" / "store"
NEXT = (
    "ALTER TABLE run ADD COLUMN host TEXT NOT NULL DEFAULT ''",
    "CREATE TABLE extra (id INTEGER PRIMARY KEY)",
)


def restore(version, path):
    """A file as gpumond of schema `version` had left it."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript((DUMPS / f"v{version}.sql").read_text())
        connection.execute("PRAGMA journal_mode = WAL")


def schema_of(connection):
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
    )
    return {name: " ".join(sql.split()) for name, sql in rows}


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_history_of_every_older_version_keeps_its_rows(directory, clock, version):
    directory.mkdir()
    restore(version, directory / "history.db")
    with Store.open(directory, clock=clock) as store:
        (run,) = store.runs(limit=9)
        assert (run.id, run.sweep, run.collective, len(run.points)) == (
            "20261129T020000Z-000002",
            "nightly",
            "all_reduce",
            2,
        )
        assert store.raw_output(run.id) == b"raw output"
        assert store.sweep(run.sweep_id).outcome == "success"
        assert store.sweep_history("nightly").runs == 1
        assert [entry.uuid for entry in store.accepted_inventory()] == ["GPU-a"]
        assert len(store.latest_snapshot().gpus) == 2
        assert store.request(1).kind == "pause"
        assert [point.size_bytes for point in store.latest_points()] == [8, 16]
        store.check_writable()


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_released_migration_is_never_edited(version, tmp_path):
    """Else two files of one version would differ. Change the schema in a new migration; `v{n}.sql` stays."""
    restore(version, tmp_path / "dumped.db")
    with (
        contextlib.closing(sqlite3.connect(tmp_path / "dumped.db")) as dumped,
        contextlib.closing(sqlite3.connect(tmp_path / "made.db", isolation_level=None)) as made,
    ):
        migrate(made, tmp_path / "made.db", NIGHT, MIGRATIONS[:version])
        assert schema_of(made) == schema_of(dumped)
        assert dumped.execute("PRAGMA user_version").fetchone() == (version,)


@pytest.fixture
def connection(directory, filled):
    with contextlib.closing(sqlite3.connect(directory / "history.db", isolation_level=None)) as opened:
        yield opened


def test_a_migration_keeps_the_rows_and_a_copy_of_the_old_file(connection, directory, filled):
    migrate(connection, directory / "history.db", NIGHT, (*MIGRATIONS, NEXT))
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION + 1,)
    assert connection.execute("SELECT id, host FROM run").fetchall() == [(filled.id, "")]
    copy = directory / f"history.db.before-v{SCHEMA_VERSION + 1}-20261129T020000Z"
    assert copy.stat().st_mode & 0o777 == 0o640
    with contextlib.closing(sqlite3.connect(copy)) as old:
        assert old.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert old.execute("SELECT id FROM run").fetchall() == [(filled.id,)]


@pytest.mark.parametrize("broken", range(len(NEXT) + 1))
def test_a_migration_that_fails_anywhere_leaves_nothing(connection, directory, filled, broken):
    statements = [*NEXT]
    statements.insert(broken, "CREATE TABLE run (id INTEGER)")
    before = schema_of(connection)
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        migrate(connection, directory / "history.db", NIGHT, (*MIGRATIONS, tuple(statements)))
    assert not connection.in_transaction
    assert schema_of(connection) == before
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    assert connection.execute("SELECT id FROM run").fetchall() == [(filled.id,)]


def test_a_history_that_is_up_to_date_is_not_touched(connection, directory):
    before = (directory / "history.db").stat().st_mtime_ns
    migrate(connection, directory / "history.db", NIGHT)
    assert (directory / "history.db").stat().st_mtime_ns == before
    assert [path.name for path in directory.iterdir() if "before" in path.name] == []
