"""The schema as an ordered list of migrations: `MIGRATIONS[n]` leads from version n to n + 1. Text only, no I/O.

A migration that was ever released is never edited; a change is a new entry. Types are held by CHECK(typeof()), because
STRICT tables need SQLite 3.37 and RHEL 9 has 3.34 (engineering.md section 4); for the same reason there is no RETURNING.
A real is bounded by the largest finite number: SQLite stores infinity, and turns NaN into NULL, without a word.
"""

from __future__ import annotations

_FINITE = "typeof({0}) = 'real' AND {0} BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308"


def _text(name: str) -> str:
    return f"{name} TEXT NOT NULL CHECK (typeof({name}) = 'text')"


def _optional_text(name: str) -> str:
    return f"{name} TEXT CHECK (typeof({name}) IN ('text', 'null'))"


def _integer(name: str) -> str:
    return f"{name} INTEGER NOT NULL CHECK (typeof({name}) = 'integer')"


def _optional_integer(name: str) -> str:
    return f"{name} INTEGER CHECK (typeof({name}) IN ('integer', 'null'))"


def _real(name: str) -> str:
    return f"{name} REAL NOT NULL CHECK ({_FINITE.format(name)})"


def _optional_real(name: str) -> str:
    return f"{name} REAL CHECK ({name} IS NULL OR ({_FINITE.format(name)}))"


def _blob(name: str) -> str:
    return f"{name} BLOB NOT NULL CHECK (typeof({name}) = 'blob')"


def _table(name: str, *columns: str, suffix: str = "") -> str:
    body = ",\n  ".join(columns)
    return f"CREATE TABLE {name} (\n  {body}\n){suffix}"


_TOPOLOGY = (
    # `document` is the snapshot as read when the structure was first seen; `structure` holds last known values.
    _table(
        "snapshot",
        "id INTEGER PRIMARY KEY",
        _text("structure_hash"),
        _blob("structure"),
        _blob("document"),
        _integer("first_seen_us"),
        _integer("last_seen_us"),
    ),
    _table("acceptance", "id INTEGER PRIMARY KEY", _integer("at_us"), _text("accepted_by"), _text("reason")),
    _table(
        "accepted_gpu",
        "acceptance INTEGER NOT NULL REFERENCES acceptance (id) ON DELETE CASCADE",
        _integer("number"),
        _text("uuid"),
        _text("pci_bus_id"),
        _text("name"),
        "PRIMARY KEY (acceptance, number)",
        "UNIQUE (acceptance, uuid)",
        suffix=" WITHOUT ROWID",
    ),
)

_SWEEPS = (
    # `number` is the order of insertion, which no step of the clock reorders.
    _table(
        "sweep",
        "number INTEGER PRIMARY KEY",
        "id TEXT NOT NULL UNIQUE CHECK (typeof(id) = 'text')",
        _text("name"),
        _text("trigger_kind"),
        _integer("started_at_us"),
        _integer("planned_runs"),
        _optional_integer("ended_at_us"),
        _optional_real("duration_seconds"),
        "outcome TEXT",
        _text("reason"),
        _text("detail"),
    ),
    "CREATE INDEX sweep_by_name ON sweep (name, number)",
    "CREATE INDEX sweep_open ON sweep (number) WHERE ended_at_us IS NULL",
    # What monitoring must remember of a configured sweep for ever, whatever retention deletes.
    _table(
        "sweep_tally",
        "name TEXT PRIMARY KEY CHECK (typeof(name) = 'text')",
        _integer("runs"),
        _integer("consecutive_failures"),
        _integer("consecutive_skips"),
        _optional_integer("last_run_at_us"),
        _real("last_run_duration_seconds"),
        _optional_integer("last_run_success"),
        _optional_integer("last_success_at_us"),
        suffix=" WITHOUT ROWID",
    ),
)

_RUNS = (
    _table(
        "run",
        "number INTEGER PRIMARY KEY",
        "id TEXT NOT NULL UNIQUE CHECK (typeof(id) = 'text')",
        "sweep_id TEXT NOT NULL REFERENCES sweep (id) ON DELETE CASCADE",
        _text("sweep"),
        _text("engine"),
        _text("gpu_set"),
        _text("gpu_uuids"),
        _text("collective"),
        _text("parameters_hash"),
        _text("command"),
        _text("environment"),
        _integer("started_at_us"),
        _optional_integer("pid"),
        _optional_integer("start_ticks"),
        _optional_integer("ended_at_us"),
        _optional_real("duration_seconds"),
        "cause TEXT",
        _optional_integer("exit_status"),
        _text("outcome"),
        _text("verdict"),
        _text("reason"),
        _text("detail"),
        _text("tool_version"),
        _text("library_version"),
    ),
    "CREATE INDEX run_by_sweep ON run (sweep_id)",
    "CREATE INDEX run_by_name ON run (sweep, number)",
    "CREATE INDEX run_open ON run (number) WHERE ended_at_us IS NULL",
    # These two cover the searches of gpumond/store/latest.py. SQLite evaluates the condition of a partial index again, so
    # the columns of the condition are in the index too.
    """CREATE INDEX run_usable ON run
    (sweep, engine, gpu_set, collective, number, parameters_hash, ended_at_us, outcome, reason)
    WHERE ended_at_us IS NOT NULL AND outcome = 'ok' AND reason <> 'tainted'""",
    """CREATE INDEX run_finished ON run (sweep, engine, gpu_set, collective, number, sweep_id, ended_at_us)
    WHERE ended_at_us IS NOT NULL""",
    _table(
        "series",
        "id INTEGER PRIMARY KEY",
        _text("sweep"),
        _text("engine"),
        _text("gpu_set"),
        _text("collective"),
        _text("datatype"),
        _text("redop"),
        _integer("size_bytes"),
        _text("placement"),
        _text("parameters_hash"),
        "UNIQUE (sweep, engine, gpu_set, collective, parameters_hash, datatype, redop, size_bytes, placement)",
    ),
    # One benchmark may print a size several times (every root, several cycles): only its place is unique.
    _table(
        "point",
        "run INTEGER NOT NULL REFERENCES run (number) ON DELETE CASCADE",
        _integer("position"),
        "series INTEGER NOT NULL REFERENCES series (id)",
        _real("time_seconds"),
        _real("algbw_bytes_per_second"),
        _real("busbw_bytes_per_second"),
        _optional_integer("wrong_elements"),
        "PRIMARY KEY (run, position)",
        suffix=" WITHOUT ROWID",
    ),
    "CREATE INDEX point_by_series ON point (series, run)",
    _table(
        "run_output",
        "run INTEGER PRIMARY KEY REFERENCES run (number) ON DELETE CASCADE",
        _integer("size_bytes"),
        _blob("zlib"),
    ),
)

_DAEMON = (
    _table(
        "request",
        "id INTEGER PRIMARY KEY AUTOINCREMENT",
        _text("kind"),
        _text("arguments"),
        _text("requested_by"),
        _integer("at_us"),
        "state TEXT NOT NULL CHECK (state IN ('waiting', 'claimed', 'done', 'failed'))",
        _text("answer"),
        _optional_integer("finished_at_us"),
    ),
    "CREATE INDEX request_open ON request (id) WHERE state IN ('waiting', 'claimed')",
    _table(
        "counter",
        _text("name"),
        _text("labels"),
        _real("value"),
        "PRIMARY KEY (name, labels)",
        suffix=" WITHOUT ROWID",
    ),
    # Written by check_writable() only: a full disk or a lost mount shows here, not in the middle of a sweep.
    _table("write_check", "id INTEGER PRIMARY KEY CHECK (id = 1)", _integer("at_us")),
)

_GUARDS = (
    f"ALTER TABLE run ADD COLUMN {_text('purpose')} DEFAULT 'measurement'",
    f"ALTER TABLE run ADD COLUMN {_optional_text('watch')}",
    # Both again, with the purpose: a re-run after a hang is no value and no verdict.
    "DROP INDEX run_usable",
    "DROP INDEX run_finished",
    """CREATE INDEX run_usable ON run
    (sweep, engine, gpu_set, collective, number, parameters_hash, ended_at_us, outcome, reason, purpose)
    WHERE ended_at_us IS NOT NULL AND outcome = 'ok' AND reason <> 'tainted' AND purpose = 'measurement'""",
    """CREATE INDEX run_finished ON run (sweep, engine, gpu_set, collective, number, sweep_id, ended_at_us, purpose)
    WHERE ended_at_us IS NOT NULL AND purpose = 'measurement'""",
    _table(
        "finding",
        "id INTEGER PRIMARY KEY",
        _text("kind"),
        _text("level"),
        _text("subject"),
        _text("detail"),
        _text("evidence"),
        _integer("first_at_us"),
        _integer("last_at_us"),
        _optional_integer("closed_at_us"),
    ),
    "CREATE UNIQUE INDEX finding_open ON finding (kind, subject) WHERE closed_at_us IS NULL",
    # At most one row: whether sweeps are paused, since when, and by whom.
    _table(
        "pause",
        "id INTEGER PRIMARY KEY CHECK (id = 1)",
        _integer("at_us"),
        _text("paused_by"),
        _text("reason"),
    ),
)

_CHANGES = (
    # What an operator (or, of the first state ever seen, gpumond) said about a state of the host. `acceptance` is the
    # inventory that was accepted with it.
    _table(
        "snapshot_decision",
        "id INTEGER PRIMARY KEY",
        "verdict TEXT NOT NULL CHECK (verdict IN ('accepted', 'rejected'))",
        _integer("at_us"),
        _text("decided_by"),
        _text("reason"),
        _blob("document"),
        "acceptance INTEGER REFERENCES acceptance (id)",
        _optional_integer("undone_at_us"),
        _text("undone_by"),
        _text("undone_reason"),
        "CHECK ((verdict = 'accepted') = (acceptance IS NOT NULL))",
    ),
    _table(
        "topology_change",
        "id INTEGER PRIMARY KEY",
        _text("kind"),
        _text("level"),
        _text("subject_kind"),
        _text("subject_ids"),
        _text("sentence"),
        _text("evidence_before"),
        _text("evidence_after"),
        _integer("opened_at_us"),
        _optional_integer("closed_at_us"),
        _optional_text("ending"),
        "CHECK ((closed_at_us IS NULL) = (ending IS NULL))",
    ),
    "CREATE INDEX topology_change_open ON topology_change (id) WHERE closed_at_us IS NULL",
)

_TRANSPORT = (f"ALTER TABLE run ADD COLUMN {_optional_text('transport')}",)

# A run whose data arrived corrupt is the newest measurement too: its #wrong must show. One with rows that do not add up
# is none.
_MEASURED = (
    "DROP INDEX run_usable",
    """CREATE INDEX run_measured ON run
    (sweep, engine, gpu_set, collective, number, parameters_hash, ended_at_us, outcome, reason, purpose)
    WHERE ended_at_us IS NOT NULL AND outcome IN ('ok', 'wrong_results') AND reason <> 'tainted'
    AND reason <> 'unreadable_rows' AND purpose = 'measurement'""",
)

# What the judge said, what it remembers, and what people said of its baselines. `track_before` and `findings_before` are
# of the state before the newest night: that night is judged again when another run of it comes.
_JUDGE = (
    f"ALTER TABLE finding ADD COLUMN {_optional_integer('confirmed_at_us')}",
    f"ALTER TABLE finding ADD COLUMN {_text('collectives')} DEFAULT '[]'",
    f"ALTER TABLE finding ADD COLUMN {_text('cause')} DEFAULT '[]'",
    _table(
        "fingerprint",
        "id INTEGER PRIMARY KEY",
        "document TEXT NOT NULL UNIQUE CHECK (typeof(document) = 'text')",
    ),
    "ALTER TABLE run ADD COLUMN fingerprint INTEGER REFERENCES fingerprint (id)",
    _table(
        "assessment",
        "run INTEGER PRIMARY KEY REFERENCES run (number) ON DELETE CASCADE",
        _optional_real("score"),
        _text("document"),
    ),
    _table(
        "judge_scope",
        _text("sweep"),
        _text("engine"),
        _text("gpu_set"),
        _integer("first_run"),
        _text("findings_before"),
        "PRIMARY KEY (sweep, engine, gpu_set)",
        suffix=" WITHOUT ROWID",
    ),
    _table(
        "judge_track",
        _text("sweep"),
        _text("engine"),
        _text("gpu_set"),
        _text("track_key"),
        _optional_text("track_before"),
        _text("track"),
        "PRIMARY KEY (sweep, engine, gpu_set, track_key)",
        suffix=" WITHOUT ROWID",
    ),
    _table(
        "baseline_decision",
        "id INTEGER PRIMARY KEY",
        "kind TEXT NOT NULL CHECK (kind IN ('accept', 'reject', 'reset'))",
        _text("sweep"),
        _text("engine"),
        _text("gpu_set"),
        _integer("at_us"),
        _text("decided_by"),
        _text("reason"),
        _text("tracks_before"),
        _optional_integer("undone_at_us"),
        _text("undone_by"),
        _text("undone_reason"),
    ),
)

_KERNEL_LOG = (
    _table(
        "kernel_tally",
        "kind TEXT NOT NULL CHECK (kind IN ('xid', 'sxid', 'aer'))",
        _text("pci_bus_id"),
        _text("code"),
        "level TEXT NOT NULL CHECK (level IN ('info', 'warning', 'critical'))",
        _integer("count"),
        _integer("first_at_us"),
        _integer("last_at_us"),
        _text("detail"),
        "PRIMARY KEY (kind, pci_bus_id, code)",
    ),
    _table("kernel_log_cursor", "id INTEGER PRIMARY KEY CHECK (id = 1)", _text("cursor")),
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    _TOPOLOGY + _SWEEPS + _RUNS + _DAEMON,
    _GUARDS,
    _CHANGES,
    _TRANSPORT,
    _MEASURED,
    _JUDGE,
    _KERNEL_LOG,
)

SCHEMA_VERSION = len(MIGRATIONS)
