"""SQL of the request table, through which the command line speaks to a running daemon. Inside its caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta

from gpumond.store.records import Request, RequestState
from gpumond.store.rows import request_of, text
from gpumond.store.session import Session, to_microseconds

WAITING_SECONDS_MAX = 60.0
"""A daemon takes a request within 2 s (DESIGN rule 2). One that is this old when a daemon starts was meant for another
moment: nobody who asked for a sweep last night wants it now."""


def write_request(session: Session, kind: str, arguments: Mapping[str, str], *, by: str, at: datetime) -> int:
    number = session.execute(
        "INSERT INTO request (kind, arguments, requested_by, at_us, state, answer)"
        " VALUES (?, ?, ?, ?, 'waiting', '')",
        (kind, json.dumps(dict(arguments)), text(by), to_microseconds(at)),
    ).lastrowid
    if number is None:
        raise AssertionError("a request was just written")
    return number


def is_any_waiting(session: Session) -> bool:
    return session.execute("SELECT 1 FROM request WHERE state = 'waiting' LIMIT 1").fetchone() is not None


def claim_next(session: Session) -> Request | None:
    """Take the oldest waiting request. The caller's transaction holds the write lock, so nobody else can take it."""
    row = session.execute("SELECT * FROM request WHERE state = 'waiting' ORDER BY id LIMIT 1").fetchone()
    if row is None:
        return None
    session.execute("UPDATE request SET state = 'claimed' WHERE id = ?", (row["id"],))
    return read_request(session, row["id"])


def finish(session: Session, request_id: int, state: RequestState, answer: str, at: datetime) -> None:
    """Raises ValueError where the request is not claimed, or where `state` ends nothing."""
    if state not in (RequestState.DONE, RequestState.FAILED):
        raise ValueError(f"a request does not end as {state}")
    changed = session.execute(
        "UPDATE request SET state = ?, answer = ?, finished_at_us = ? WHERE id = ? AND state = 'claimed'",
        (state, text(answer), to_microseconds(at), request_id),
    ).rowcount
    if changed != 1:
        raise ValueError(f"request {request_id} is not claimed")


def withdraw(session: Session, request_id: int, at: datetime) -> bool:
    """Take back a request that nobody has claimed; False where it is too late."""
    changed = session.execute(
        "UPDATE request SET state = 'failed', answer = 'withdrawn', finished_at_us = ?"
        " WHERE id = ? AND state = 'waiting'",
        (to_microseconds(at), request_id),
    ).rowcount
    return changed == 1


def fail_abandoned(session: Session, now: datetime) -> int:
    """End what a dead daemon had claimed, and what waited too long; returns how many. For the start of a daemon."""
    oldest = to_microseconds(now - timedelta(seconds=WAITING_SECONDS_MAX))
    return session.execute(
        "UPDATE request SET state = 'failed', finished_at_us = ?, answer = CASE state"
        " WHEN 'claimed' THEN 'the daemon stopped before it had finished this' ELSE 'no daemon took this in time' END"
        " WHERE state = 'claimed' OR (state = 'waiting' AND at_us < ?)",
        (to_microseconds(now), oldest),
    ).rowcount


def read_request(session: Session, request_id: int) -> Request | None:
    row = session.execute("SELECT * FROM request WHERE id = ?", (request_id,)).fetchone()
    return None if row is None else request_of(row)


def delete_finished(session: Session, before: datetime) -> int:
    return session.execute(
        "DELETE FROM request WHERE finished_at_us < ?", (to_microseconds(before),)
    ).rowcount
