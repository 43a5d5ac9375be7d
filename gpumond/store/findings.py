"""SQL of findings and of the pause. Every function works inside its caller's transaction."""

from __future__ import annotations

from datetime import datetime

from gpumond.model.finding import Finding, FindingKind
from gpumond.model.status import Pause
from gpumond.store.rows import finding_of, finding_values, pause_of, text
from gpumond.store.session import Session, to_microseconds

_COLUMNS = "kind, level, subject, detail, evidence, first_at_us, last_at_us, closed_at_us, confirmed_at_us, collectives, cause"
_INSERT = f"INSERT INTO finding ({_COLUMNS}) VALUES (:{_COLUMNS.replace(', ', ', :')})"  # noqa: S608 - constants
_RENEW = """
UPDATE finding SET level = :level, detail = :detail, evidence = :evidence, last_at_us = :last_at_us,
  confirmed_at_us = :confirmed_at_us, collectives = :collectives, cause = :cause
WHERE kind = :kind AND subject = :subject AND closed_at_us IS NULL
"""
# A subject of the judge names the event, so that one row stands for it, open or closed.
_REPLACE = """
UPDATE finding SET level = :level, detail = :detail, evidence = :evidence, first_at_us = :first_at_us,
  last_at_us = :last_at_us, closed_at_us = :closed_at_us, confirmed_at_us = :confirmed_at_us,
  collectives = :collectives, cause = :cause
WHERE id = (SELECT max(id) FROM finding WHERE kind = :kind AND subject = :subject)
"""


def record_finding(session: Session, finding: Finding) -> None:
    """Open it, or renew the open one of this kind and subject, which keeps when it was first seen."""
    values = finding_values(finding)
    if session.execute(_RENEW, values).rowcount == 0:
        session.execute(_INSERT, values)


def replace_finding(session: Session, finding: Finding) -> None:
    """Store what is known of an event now, whether it is open or not."""
    values = finding_values(finding)
    if session.execute(_REPLACE, values).rowcount == 0:
        session.execute(_INSERT, values)


def close_finding(session: Session, kind: FindingKind, subject: str, at: datetime) -> bool:
    """Whether there was an open one."""
    closed = session.execute(
        "UPDATE finding SET closed_at_us = ? WHERE kind = ? AND subject = ? AND closed_at_us IS NULL",
        (to_microseconds(at), kind, text(subject)),
    )
    return closed.rowcount > 0


def read_findings(session: Session, *, open_only: bool, limit: int) -> tuple[Finding, ...]:
    """Newest first."""
    condition = "closed_at_us IS NULL" if open_only else "TRUE"
    rows = session.execute(
        f"SELECT * FROM finding WHERE {condition} ORDER BY id DESC LIMIT ?",  # noqa: S608 - constants
        (limit,),
    )
    return tuple(finding_of(row) for row in rows)


def write_pause(session: Session, pause: Pause) -> None:
    """A pause that is there already stays as it is: it is the older one that counts."""
    session.execute(
        "INSERT OR IGNORE INTO pause (id, at_us, paused_by, reason) VALUES (1, ?, ?, ?)",
        (to_microseconds(pause.at), text(pause.by), text(pause.reason)),
    )


def delete_pause(session: Session) -> bool:
    """Whether there was one."""
    return session.execute("DELETE FROM pause").rowcount > 0


def read_pause(session: Session) -> Pause | None:
    row = session.execute("SELECT * FROM pause").fetchone()
    return None if row is None else pause_of(row)
