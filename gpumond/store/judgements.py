"""SQL of the judge: fingerprints, assessments, what it remembers, and decisions of people. In its caller's transaction.

What is remembered of a scope is stored as JSON, a row a track: the judge reads all of it and writes all of it back, and
nobody ever searches in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from gpumond.codec import decode, encode
from gpumond.judge.assessment import Assessment
from gpumond.model.baseline import Scope, ScopeMemory, Track, TrackKey
from gpumond.model.benchmark import Collective
from gpumond.model.finding import Finding
from gpumond.model.identity import RunId
from gpumond.model.run import Engine
from gpumond.model.status import CollectiveScore
from gpumond.store import findings
from gpumond.store.records import (
    BaselineDecision,
    BaselineDecisionKind,
    JudgeRecord,
    NumberedRun,
)
from gpumond.store.rows import finite, text
from gpumond.store.runs import read_run
from gpumond.store.session import Row, Session, from_microseconds, optional_instant, to_microseconds

_THIS_SCOPE = "sweep = ? AND engine = ? AND gpu_set = ?"

_LATEST_SCORES = """
WITH newest AS (
  SELECT sweep, engine, gpu_set, collective, max(number) AS number
  FROM run INDEXED BY run_finished WHERE ended_at_us IS NOT NULL AND purpose = 'measurement'
  GROUP BY sweep, engine, gpu_set, collective
)
SELECT newest.*, assessment.score FROM newest JOIN assessment ON assessment.run = newest.number
WHERE assessment.score IS NOT NULL ORDER BY sweep, engine, gpu_set, collective
"""


# Fingerprints


def write_fingerprint(session: Session, run_id: RunId, inputs: Mapping[str, str]) -> None:
    document = text(json.dumps(dict(inputs), sort_keys=True, ensure_ascii=False))
    session.execute("INSERT OR IGNORE INTO fingerprint (document) VALUES (?)", (document,))
    session.execute(
        "UPDATE run SET fingerprint = (SELECT id FROM fingerprint WHERE document = ?) WHERE id = ?",
        (document, run_id),
    )


def read_fingerprint(session: Session, run_id: RunId) -> dict[str, str] | None:
    row = session.execute(
        "SELECT document FROM fingerprint JOIN run ON run.fingerprint = fingerprint.id WHERE run.id = ?",
        (run_id,),
    ).fetchone()
    return None if row is None else dict(json.loads(row["document"]))


# Runs to judge


def read_runs_to_judge(session: Session, scope: Scope, first_run: int) -> tuple[NumberedRun, ...]:
    """Finished measurements of a scope from a number on, oldest first."""
    rows = session.execute(
        f"SELECT number, id FROM run WHERE {_THIS_SCOPE} AND number >= ? AND ended_at_us IS NOT NULL"  # noqa: S608
        " AND purpose = 'measurement' ORDER BY number",
        (*_columns(scope), first_run),
    ).fetchall()
    found = []
    for row in rows:
        run = read_run(session, RunId(row["id"]))
        if run is not None:
            found.append(NumberedRun(row["number"], run, read_fingerprint(session, run.id)))
    return tuple(found)


def read_measured_scopes(session: Session, sweep: str) -> tuple[Scope, ...]:
    rows = session.execute(
        "SELECT DISTINCT engine, gpu_set FROM run INDEXED BY run_finished"
        " WHERE sweep = ? AND ended_at_us IS NOT NULL AND purpose = 'measurement' ORDER BY engine, gpu_set",
        (sweep,),
    )
    return tuple(Scope(sweep, row["engine"], row["gpu_set"]) for row in rows)


def next_run_number(session: Session) -> int:
    """What the next run of any scope will have at least."""
    row = session.execute("SELECT max(number) AS last FROM run").fetchone()
    return int(row["last"] or 0) + 1


# What is remembered


def read_scopes(session: Session) -> tuple[Scope, ...]:
    rows = session.execute("SELECT sweep, engine, gpu_set FROM judge_scope ORDER BY sweep, engine, gpu_set")
    return tuple(Scope(row["sweep"], row["engine"], row["gpu_set"]) for row in rows)


def read_record(session: Session, scope: Scope) -> JudgeRecord:
    """An empty one for a scope that was never judged."""
    head = session.execute(
        f"SELECT * FROM judge_scope WHERE {_THIS_SCOPE}",  # noqa: S608 - constants
        _columns(scope),
    ).fetchone()
    if head is None:
        return JudgeRecord(0, ScopeMemory(), ScopeMemory())
    before: dict[TrackKey, Track] = {}
    now: dict[TrackKey, Track] = {}
    for row in session.execute(f"SELECT * FROM judge_track WHERE {_THIS_SCOPE}", _columns(scope)):  # noqa: S608
        key = decode(TrackKey, row["track_key"])
        now[key] = decode(Track, row["track"])
        if row["track_before"] is not None:
            before[key] = decode(Track, row["track_before"])
    return JudgeRecord(
        first_run=head["first_run"],
        before=ScopeMemory(before, decode(tuple[Finding, ...], head["findings_before"])),
        memory=ScopeMemory(now, _open_findings(session, scope)),
    )


def write_record(session: Session, scope: Scope, record: JudgeRecord) -> None:
    columns = _columns(scope)
    session.execute(
        "INSERT OR REPLACE INTO judge_scope (sweep, engine, gpu_set, first_run, findings_before) VALUES (?, ?, ?, ?, ?)",
        (*columns, record.first_run, encode(record.before.findings).decode()),
    )
    session.execute(f"DELETE FROM judge_track WHERE {_THIS_SCOPE}", columns)  # noqa: S608 - constants
    session.executemany(
        "INSERT INTO judge_track (sweep, engine, gpu_set, track_key, track_before, track) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (
                *columns,
                encode(key).decode(),
                _optional_track(record.before.tracks.get(key)),
                encode(track).decode(),
            )
            for key, track in record.memory.tracks.items()
        ],
    )


def write_findings(
    session: Session, scope: Scope, changed: Iterable[Finding], still_open: Iterable[Finding], at: datetime
) -> None:
    """Store what changed, and end what an earlier look at the same night had opened and a later one has not confirmed."""
    for finding in changed:
        findings.replace_finding(session, finding)
    known = {(finding.kind, finding.subject) for finding in still_open}
    for finding in _open_findings(session, scope):
        if (finding.kind, finding.subject) not in known:
            findings.close_finding(session, finding.kind, finding.subject, at)


def write_assessment(session: Session, run_id: RunId, assessment: Assessment, *, is_verdict: bool) -> None:
    """Keep the numbers; `is_verdict`: this is the verdict on the run, and not only a remark about one that failed."""
    score = None if assessment.score is None else finite("score", assessment.score)
    session.execute(
        "INSERT OR REPLACE INTO assessment (run, score, document) SELECT number, ?, ? FROM run WHERE id = ?",
        (score, encode(assessment).decode(), run_id),
    )
    if is_verdict:
        session.execute(
            "UPDATE run SET verdict = ?, reason = ?, detail = ? WHERE id = ?",
            (assessment.verdict, assessment.reason, text(assessment.detail), run_id),
        )


def read_assessment(session: Session, run_id: RunId) -> Assessment | None:
    row = session.execute(
        "SELECT document FROM assessment JOIN run ON run.number = assessment.run WHERE run.id = ?", (run_id,)
    ).fetchone()
    return None if row is None else decode(Assessment, row["document"])


def read_latest_scores(session: Session) -> tuple[CollectiveScore, ...]:
    """Of the newest run of each collective, where it has one."""
    return tuple(
        CollectiveScore(
            sweep=row["sweep"],
            engine=Engine(row["engine"]),
            gpu_set=row["gpu_set"],
            collective=Collective(row["collective"]),
            score=row["score"],
        )
        for row in session.execute(_LATEST_SCORES)
    )


# Decisions of people


def write_decision(
    session: Session,
    scope: Scope,
    kind: BaselineDecisionKind,
    before: Mapping[TrackKey, Track],
    *,
    by: str,
    reason: str,
    at: datetime,
) -> int:
    number = session.execute(
        "INSERT INTO baseline_decision"
        " (kind, sweep, engine, gpu_set, at_us, decided_by, reason, tracks_before, undone_by, undone_reason)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, '', '')",
        (kind.value, *_columns(scope), to_microseconds(at), text(by), text(reason), _tracks_text(before)),
    ).lastrowid
    if number is None:
        raise AssertionError("a decision was just written")
    return number


def read_decisions(session: Session, limit: int) -> tuple[BaselineDecision, ...]:
    """Newest first."""
    rows = session.execute("SELECT * FROM baseline_decision ORDER BY id DESC LIMIT ?", (limit,))
    return tuple(_decision(row) for row in rows)


def take_back(
    session: Session, scope: Scope, *, by: str, reason: str, at: datetime
) -> tuple[BaselineDecision, dict[TrackKey, Track]] | None:
    """Mark the newest decision on a scope that stands as undone; with the tracks as they were before it."""
    row = session.execute(
        f"SELECT * FROM baseline_decision WHERE {_THIS_SCOPE} AND undone_at_us IS NULL ORDER BY id DESC LIMIT 1",  # noqa: S608
        _columns(scope),
    ).fetchone()
    if row is None:
        return None
    session.execute(
        "UPDATE baseline_decision SET undone_at_us = ?, undone_by = ?, undone_reason = ? WHERE id = ?",
        (to_microseconds(at), text(by), text(reason), row["id"]),
    )
    return _decision(row), _tracks_of(row["tracks_before"])


def _decision(row: Row) -> BaselineDecision:
    return BaselineDecision(
        id=row["id"],
        kind=BaselineDecisionKind(row["kind"]),
        scope=Scope(row["sweep"], row["engine"], row["gpu_set"]),
        at=from_microseconds(row["at_us"]),
        by=row["decided_by"],
        reason=row["reason"],
        undone_at=optional_instant(row["undone_at_us"]),
        undone_by=row["undone_by"],
        undone_reason=row["undone_reason"],
    )


def _tracks_text(tracks: Mapping[TrackKey, Track]) -> str:
    return encode(tuple(tracks.items())).decode()


def _tracks_of(document: str) -> dict[TrackKey, Track]:
    return dict(decode(tuple[tuple[TrackKey, Track], ...], document))


def _optional_track(track: Track | None) -> str | None:
    return None if track is None else encode(track).decode()


def _open_findings(session: Session, scope: Scope) -> tuple[Finding, ...]:
    """Those of the judge, whose subjects begin with the scope; oldest first."""
    prefix = f"{scope} since "
    everything: Sequence[Finding] = findings.read_findings(session, open_only=True, limit=-1)
    return tuple(finding for finding in reversed(everything) if finding.subject.startswith(prefix))


def _columns(scope: Scope) -> tuple[str, str, str]:
    return scope.sweep, scope.engine, scope.gpu_set
