"""The history of a host in one SQLite file: the only door to sqlite3, and the store that everybody uses.

Owns connections, transactions and the translation of every sqlite3 error into a StoreError. What the rows mean is the
business of the modules beside it; they get a `Session` inside a transaction and never see sqlite3.

Invariants:
- Every change is one BEGIN IMMEDIATE transaction: a deferred one that reads first fails at once with
  SQLITE_BUSY_SNAPSHOT when another process has written meanwhile (engineering.md section 4).
- A commit that returned is on the disk (WAL with synchronous=FULL).
- One connection per store, used by one thread at a time.
- A damaged history is moved aside, never deleted, and never under a process that has it open.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from gpumond.clock import Clock
from gpumond.errors import StoreError, StoreErrorKind
from gpumond.store import cleanup, files, requests
from gpumond.store.history import History
from gpumond.store.migrations import MIGRATIONS, SCHEMA_VERSION
from gpumond.store.records import Recovery
from gpumond.store.retention import RetentionPolicy, RetentionReport, expired
from gpumond.store.session import Session, from_microseconds

BUSY_TIMEOUT_SECONDS = 5.0
_MAGIC = b"SQLite format 3\0"
_RETENTION_CHUNK_RUNS = 100
_VACUUM_CHUNK_PAGES = 1000

_KINDS = {
    sqlite3.SQLITE_FULL: StoreErrorKind.FULL,
    sqlite3.SQLITE_BUSY: StoreErrorKind.BUSY,
    sqlite3.SQLITE_LOCKED: StoreErrorKind.BUSY,
    sqlite3.SQLITE_CORRUPT: StoreErrorKind.CORRUPT,
    sqlite3.SQLITE_NOTADB: StoreErrorKind.CORRUPT,
    sqlite3.SQLITE_READONLY: StoreErrorKind.READ_ONLY,
}


class Database:
    """One connection: transactions, and errors that people understand."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self.connection.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """All reads of the block see one state of the file."""
        with self._transaction("BEGIN") as session:
            yield session

    @contextlib.contextmanager
    def writing(self) -> Iterator[Session]:
        """All of the block is stored, or nothing."""
        with self._transaction("BEGIN IMMEDIATE") as session:
            yield session

    def script(self, sql: str) -> None:
        """Run statements to their end outside of a transaction. `execute` would stop incremental_vacuum after a page."""
        with self._lock, _translated(self.path):
            self.connection.executescript(sql)

    def pragma(self, name: str) -> int:
        with self._lock, _translated(self.path):
            return int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[Session]:
        with self._lock, _translated(self.path):
            self.connection.execute(begin)
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                # A full disk has rolled back already.
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise ValueError(f"the history refuses that row: {error}") from error
    except sqlite3.Error as error:
        raise _store_error(path, error) from error


def _store_error(path: Path, error: sqlite3.Error) -> StoreError:
    kind = _kind_of(error)
    return StoreError(f"{path}: {error}", kind=kind, hint=files.hint_for(kind, path))


def _code_of(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0))  # an error of the module itself has none


def _kind_of(error: sqlite3.Error) -> StoreErrorKind:
    code = _code_of(error)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return StoreErrorKind.FULL  # no room for the index of the WAL
    return _KINDS.get(code & 0xFF, StoreErrorKind.UNAVAILABLE)


def _connect(path: Path, options: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?{options}",
        uri=True,
        timeout=BUSY_TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,  # Database guards it
    )
    connection.row_factory = sqlite3.Row
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _refuse_newer(path: Path, version: int) -> None:
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version}, this gpumond knows versions up to {SCHEMA_VERSION}",
            kind=StoreErrorKind.NEWER_SCHEMA,
            hint=files.hint_for(StoreErrorKind.NEWER_SCHEMA, path),
        )


def migrate(
    connection: sqlite3.Connection,
    path: Path,
    now: datetime,
    migrations: Sequence[Sequence[str]] = MIGRATIONS,
) -> None:
    """Bring the schema up to date, wholly or not at all; an older history is copied first.

    Statements run one by one: executescript() would commit what came before a failing one.
    """
    version = _version(connection)
    if version == len(migrations):
        return
    if version > 0:
        copy = files.free_name(path, f"before-v{len(migrations)}", now)
        connection.execute("VACUUM INTO ?", (str(copy),))
        files.adopt_file(copy)
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in migrations[version:]:
            for statement in migration:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _damage_of(path: Path) -> str:
    """Why an existing history cannot be used; empty where it can."""
    if not files.starts_with(path, _MAGIC):
        # Not left to SQLite: it takes a file that is too short for an empty one, and removes the WAL of a foreign one.
        return "the file is no SQLite database"
    with contextlib.closing(_connect(path, "mode=ro")) as connection:
        try:
            _refuse_newer(path, _version(connection))
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        except sqlite3.DatabaseError as error:
            if _kind_of(error) is not StoreErrorKind.CORRUPT:
                raise
            return str(error)
    return "" if found == "ok" else found


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _prepare(path: Path, now: datetime) -> Recovery | None:
    """Make, check and migrate the history; the caller is alone with it."""
    recovery = None
    if files.size_of(path) is not None:
        damage = _damage_of(path)
        if damage:
            recovery = Recovery(files.move_aside(path, now), damage)
    if files.size_of(path) is None:
        files.make_file(path)
    with contextlib.closing(_connect(path, "mode=rw")) as connection:
        # Only on an empty file, and only before WAL (engineering.md section 4); later it is ignored.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        _configure(connection)
        migrate(connection, path, now)
    return recovery


def _is_ready(path: Path) -> bool:
    """Whether a history that others have open can be used as it is."""
    if not files.size_of(path):
        return False
    with contextlib.closing(_connect(path, "mode=rw")) as connection:
        version = _version(connection)
    _refuse_newer(path, version)
    return version == SCHEMA_VERSION


def _prepare_with_others(path: Path, lock: files.DirectoryLock, clock: Clock) -> Recovery | None:
    """Prepare the history, or see that somebody else has."""
    deadline = clock.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        if lock.acquire():
            return _prepare(path, clock.now())
        if _is_ready(path):
            return None
        # Whoever was preparing it has died, or a daemon of another version holds it.
        lock.give_up()
        if clock.monotonic() >= deadline:
            raise StoreError(
                f"{path} is missing, or is of an older gpumond that still has it open",
                kind=StoreErrorKind.BUSY,
                hint="Restart the daemon: it makes or migrates the history when it starts.",
            )
        clock.sleep(files.LOCK_POLL_SECONDS)


def _open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, beside a daemon or without one."""
    if files.size_of(path) is None:
        raise StoreError(
            f"there is no history in {path.parent}",
            kind=StoreErrorKind.UNAVAILABLE,
            hint="The daemon makes it when it first starts. --state-directory names another place.",
        )
    connection = _connect(path, "mode=ro")
    try:
        version = _version(connection)
    except sqlite3.OperationalError:
        connection.close()
        if files.has_wal(path):
            raise
        # This user may not make the WAL files that even a reader needs, and nobody has any: the file is at rest.
        # A daemon that starts now writes to its WAL; the file itself stays as it is until the first checkpoint.
        connection = _connect(path, "mode=ro&immutable=1")
        version = _version(connection)
    _refuse_newer(path, version)
    if version < SCHEMA_VERSION:
        connection.close()
        raise StoreError(
            f"{path} has schema version {version}, this gpumond reads version {SCHEMA_VERSION}",
            kind=StoreErrorKind.UNAVAILABLE,
            hint="Start the daemon once: it migrates the history.",
        )
    return connection


class Store(History):
    """The history in `directory`/history.db. A context manager; close() may be called twice."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        lock: files.DirectoryLock | None,
        recovered_from: Recovery | None,
    ) -> None:
        super().__init__(database, clock)
        self._database = database
        self._directory_lock = lock
        self._identity = files.identity_of(database.path)
        self.recovered_from = recovered_from

    @classmethod
    def open(cls, directory: Path, *, clock: Clock, read_only: bool = False) -> Self:
        """Open the history, and make it where it is missing (unless `read_only`). Raises StoreError."""
        directory = directory.absolute()
        path = directory / files.HISTORY_NAME
        if read_only:
            with _translated(path):
                return cls(Database(path, _open_for_reading(path)), clock, None, None)
        files.make_directory(directory)
        files.refuse_network_file_system(directory)
        files.require_writable(path)
        lock = files.DirectoryLock(directory, clock)
        try:
            with _translated(path):
                recovery = _prepare_with_others(path, lock, clock)
                connection = _connect(path, "mode=rw")
                _configure(connection)
            lock.share()
        except BaseException:
            lock.release()
            raise
        return cls(Database(path, connection), clock, lock, recovery)

    @property
    def path(self) -> Path:
        return self._database.path

    def close(self) -> None:
        self._database.close()
        if self._directory_lock is not None:
            self._directory_lock.release()
            self._directory_lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def check_writable(self) -> None:
        """Write and commit a row of no meaning. Raises StoreError where that fails, or reaches no file that anybody reads."""
        if files.identity_of(self.path) != self._identity:
            # SQLite does not notice in WAL mode: it goes on writing to a file without a name.
            raise StoreError(
                f"{self.path} was moved or deleted while it was open",
                kind=StoreErrorKind.UNAVAILABLE,
                hint="Restart the daemon: it opens what is there now, or begins a new history.",
            )
        self.write_check()

    def last_write_check(self) -> datetime | None:
        """When `check_writable` last succeeded in any process; None where it never did. A daemon does it all the time."""
        with self._database.reading() as session:
            row = session.execute("SELECT at_us FROM write_check").fetchone()
        return None if row is None else from_microseconds(row["at_us"])

    def free_bytes(self) -> int:
        """What may still be written to the file system of the history."""
        return files.free_bytes(self.path.parent)

    def apply_retention(self, now: datetime, policy: RetentionPolicy) -> RetentionReport:
        """Delete what is too old, a few runs a transaction so that nobody waits long, and give the space back."""
        with self._database.reading() as session:
            gone = expired(cleanup.read_run_ages(session), now, policy)
        for numbers in _chunks(gone.outputs):
            with self._database.writing() as session:
                cleanup.delete_outputs(session, numbers)
        for numbers in _chunks(gone.runs):
            with self._database.writing() as session:
                cleanup.delete_runs(session, numbers)
        with self._database.writing() as session:
            report = RetentionReport(
                runs=len(gone.runs),
                outputs=len(gone.outputs),
                sweeps=cleanup.delete_sweeps(session, now - policy.results),
                requests=requests.delete_finished(session, now - policy.requests),
                snapshots=cleanup.delete_snapshots(session, now - policy.results),
                changes=cleanup.delete_changes(session, now - policy.results),
            )
        self._give_space_back()
        return report

    def _give_space_back(self) -> None:
        while (free := self._database.pragma("freelist_count")) > 0:
            self._database.script(f"PRAGMA incremental_vacuum({_VACUUM_CHUNK_PAGES})")
            if self._database.pragma("freelist_count") >= free:
                break  # a file from before auto_vacuum
        self._database.script("PRAGMA wal_checkpoint(TRUNCATE)")


def _chunks(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), _RETENTION_CHUNK_RUNS):
        yield numbers[start : start + _RETENTION_CHUNK_RUNS]
