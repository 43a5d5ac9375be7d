"""What the store keeps, as operations: each is one transaction. Knows no SQLite, no file and no connection.

`Store` (gpumond/store/sqlite.py) adds those. Methods that begin something take the model value itself; methods that end
it are safe to repeat, because after a failure nobody can tell whether the commit had reached the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from gpumond.model.benchmark import Collective, Point
from gpumond.model.change import OpenChange
from gpumond.model.finding import Finding, FindingKind
from gpumond.model.identity import RunId
from gpumond.model.kernel_log import KernelTally
from gpumond.model.run import Engine, Run, SeriesKey, Sweep
from gpumond.model.status import (
    CollectiveTransport,
    CollectiveVerdict,
    DurationCounts,
    InventoryEntry,
    LatestPoint,
    LoadedPcieLink,
    Pause,
)
from gpumond.model.topology import Snapshot
from gpumond.store import changes, decisions, findings, kernel_log, latest, requests, runs, snapshots, tallies
from gpumond.store.judge_history import JudgeHistory
from gpumond.store.records import (
    AcceptedSnapshot,
    ChangeEnding,
    ChangeRecord,
    Counter,
    Decision,
    Request,
    RequestState,
    SeriesPoint,
    SnapshotPeriod,
    SweepHistory,
)
from gpumond.store.session import to_microseconds

SERIES_LIMIT = 10_000
FINDINGS_LIMIT = 1000


class History(JudgeHistory):
    """Every operation raises StoreError where the history cannot be read or written, ValueError for impossible values."""

    # Topology

    def record_snapshot(self, snapshot: Snapshot) -> None:
        """Keep the document where the structure of the host is new, else note that it was seen again."""
        with self._transactions.writing() as session:
            snapshots.write_snapshot(session, snapshot)

    def latest_snapshot(self) -> Snapshot | None:
        """The document of the newest structure: as it was when that structure was first seen."""
        with self._transactions.reading() as session:
            return snapshots.read_latest_snapshot(session)

    def snapshot_periods(self, *, limit: int) -> tuple[SnapshotPeriod, ...]:
        """From when to when each structure was seen, newest first."""
        with self._transactions.reading() as session:
            return snapshots.read_periods(session, limit)

    def accepted_inventory(self) -> tuple[InventoryEntry, ...]:
        with self._transactions.reading() as session:
            return snapshots.read_inventory(session)

    def accept_inventory(self, entries: Iterable[InventoryEntry], *, by: str, reason: str) -> None:
        """Make `entries` the accepted inventory; what was accepted before stays on record."""
        with self._transactions.writing() as session:
            snapshots.write_acceptance(session, entries, by=by, reason=reason, at=self._clock.now())

    # What the topology is compared with, and how it differs

    def accepted_snapshot(self) -> AcceptedSnapshot | None:
        """The acceptance that is in force; None before the first."""
        with self._transactions.reading() as session:
            return decisions.read_accepted(session)

    def accept_snapshot(
        self, snapshot: Snapshot, inventory: Iterable[InventoryEntry], *, by: str, reason: str
    ) -> Decision:
        """Make this state, and with it this inventory, the accepted one; earlier ones stay on record."""
        at = self._clock.now()
        with self._transactions.writing() as session:
            return decisions.accept(session, snapshot, inventory, by=by, reason=reason, at=at)

    def reject_snapshot(self, snapshot: Snapshot, *, by: str, reason: str) -> Decision:
        """Put on record that somebody looked at this state and did not accept it; the accepted one stays."""
        with self._transactions.writing() as session:
            return decisions.reject(session, snapshot, by=by, reason=reason, at=self._clock.now())

    def undo_decision(self, *, by: str, reason: str) -> Decision | None:
        """Take back the newest decision that stands; None where there is none, or only the first acceptance."""
        with self._transactions.writing() as session:
            return decisions.undo(session, by=by, reason=reason, at=self._clock.now())

    def decisions(self, *, limit: int) -> tuple[Decision, ...]:
        """Newest first."""
        with self._transactions.reading() as session:
            return decisions.read_decisions(session, limit)

    def record_changes(self, open_changes: Iterable[OpenChange], *, ending: ChangeEnding) -> None:
        """Store what is open now: what is new is counted, what is no longer open ends by `ending`. Safe to repeat."""
        with self._transactions.writing() as session:
            changes.write_open(session, tuple(open_changes), ending=ending, at=self._clock.now())

    def open_changes(self) -> tuple[OpenChange, ...]:
        with self._transactions.reading() as session:
            return changes.read_open(session)

    def changes(self, *, limit: int) -> tuple[ChangeRecord, ...]:
        """Newest first."""
        with self._transactions.reading() as session:
            return changes.read_changes(session, limit)

    def last_change_at(self) -> datetime | None:
        """When a change last opened or ended."""
        with self._transactions.reading() as session:
            return changes.read_last_change_at(session)

    # The kernel log

    def add_kernel_tallies(self, tallies: Iterable[KernelTally], *, cursor: str) -> None:
        """Count what was read, and remember how far the journal was read."""
        with self._transactions.writing() as session:
            kernel_log.add_tallies(session, tallies, cursor=cursor)

    def kernel_log_cursor(self) -> str | None:
        """None where the journal was never read."""
        with self._transactions.reading() as session:
            return kernel_log.read_cursor(session)

    def kernel_tallies(self) -> tuple[KernelTally, ...]:
        """Newest first."""
        with self._transactions.reading() as session:
            return kernel_log.read_tallies(session)

    # Sweeps and runs

    def start_sweep(self, sweep: Sweep) -> None:
        with self._transactions.writing() as session:
            runs.write_sweep(session, sweep)

    def finish_sweep(self, sweep: Sweep) -> None:
        """Store how a sweep ended and count it, once. One that was never started is stored as a whole."""
        if sweep.ended_at is None or sweep.outcome is None:
            raise ValueError(f"sweep {sweep.id} has not ended")
        with self._transactions.writing() as session:
            is_counted = runs.is_sweep_finished(session, sweep.id)
            runs.write_sweep(session, sweep)
            if not is_counted:
                tallies.tally_sweep(session, sweep)

    def start_run(self, run: Run) -> None:
        """Its sweep must have been started."""
        with self._transactions.writing() as session:
            runs.write_run(session, run)

    def set_run_process(self, run_id: RunId, *, pid: int, start_ticks: int) -> None:
        with self._transactions.writing() as session:
            runs.set_process(session, run_id, pid, start_ticks)

    def add_points(self, run_id: RunId, points: Iterable[Point]) -> None:
        """Points of a run that is not finished, for whoever follows it; finish_run replaces them."""
        with self._transactions.writing() as session:
            runs.append_points(session, run_id, points)

    def finish_run(self, run: Run, *, output: bytes) -> None:
        """Store points, verdict and raw output in one transaction."""
        if run.ended_at is None:
            raise ValueError(f"run {run.id} has not ended")
        with self._transactions.writing() as session:
            number = runs.write_run(session, run)
            runs.replace_points(session, number, run)
            runs.write_output(session, number, output)

    def import_run(self, sweep: Sweep, run: Run, *, output: bytes) -> None:
        """Store what somebody else measured: a sweep of one run, both ended, that counts nowhere."""
        if run.ended_at is None or sweep.ended_at is None:
            raise ValueError(f"run {run.id} has not ended")
        with self._transactions.writing() as session:
            runs.write_sweep(session, sweep)
            number = runs.write_run(session, run)
            runs.replace_points(session, number, run)
            runs.write_output(session, number, output)

    def open_runs(self) -> tuple[Run, ...]:
        """Runs without an end, newest first; at the start of a daemon: left by a dead one."""
        with self._transactions.reading() as session:
            return runs.read_open_runs(session)

    def open_sweeps(self) -> tuple[Sweep, ...]:
        with self._transactions.reading() as session:
            return runs.read_sweeps(session, "ended_at_us IS NULL", (), -1)

    def run(self, run_id: RunId) -> Run | None:
        with self._transactions.reading() as session:
            return runs.read_run(session, run_id)

    def runs(
        self,
        *,
        limit: int,
        sweep: str | None = None,
        collective: Collective | None = None,
        since: datetime | None = None,
    ) -> tuple[Run, ...]:
        """Newest first; `sweep` is a configured name."""
        with self._transactions.reading() as session:
            return runs.read_runs(session, limit=limit, sweep=sweep, collective=collective, since=since)

    def runs_of_sweep(self, sweep_id: RunId) -> tuple[Run, ...]:
        """In the order in which they ran."""
        with self._transactions.reading() as session:
            return runs.read_runs_of_sweep(session, sweep_id)

    def sweep(self, sweep_id: RunId) -> Sweep | None:
        with self._transactions.reading() as session:
            found = runs.read_sweeps(session, "id = ?", (sweep_id,), 1)
        return found[0] if found else None

    def sweeps(self, *, limit: int, name: str | None = None) -> tuple[Sweep, ...]:
        """Newest first."""
        with self._transactions.reading() as session:
            if name is None:
                return runs.read_sweeps(session, "TRUE", (), limit)
            return runs.read_sweeps(session, "name = ?", (name,), limit)

    def raw_output(self, run_id: RunId) -> bytes | None:
        """What the benchmark printed; None where it is not, or no longer, kept."""
        with self._transactions.reading() as session:
            return runs.read_output(session, run_id)

    # What is current

    def latest_points(self) -> tuple[LatestPoint, ...]:
        """The newest value of every exported series, once each (gpumond/store/latest.py has the rule)."""
        with self._transactions.reading() as session:
            return latest.read_latest_points(session)

    def largest_size(
        self, *, sweep: str, engine: Engine, gpu_set: str, collective: Collective, parameters_hash: str
    ) -> int | None:
        """Of the newest usable run with these parameters; None before the first."""
        with self._transactions.reading() as session:
            return latest.read_largest_size(
                session,
                sweep=sweep,
                engine=engine,
                gpu_set=gpu_set,
                collective=collective,
                parameters_hash=parameters_hash,
            )

    def latest_transports(self) -> tuple[CollectiveTransport, ...]:
        """How NCCL moved the data in the newest usable run of each collective that says so."""
        with self._transactions.reading() as session:
            return latest.read_latest_transports(session)

    def loaded_pcie_links(self) -> tuple[LoadedPcieLink, ...]:
        """The PCIe generation of each GPU at work, from the newest run that watched it."""
        with self._transactions.reading() as session:
            return latest.read_loaded_pcie_links(session)

    def latest_verdicts(self) -> tuple[CollectiveVerdict, ...]:
        """The worst verdict on each collective in the newest sweep that ran it."""
        with self._transactions.reading() as session:
            return latest.read_latest_verdicts(session)

    def series(
        self, key: SeriesKey, *, since: datetime | None = None, limit: int = SERIES_LIMIT
    ) -> tuple[SeriesPoint, ...]:
        """The newest `limit` values of one series, oldest first."""
        with self._transactions.reading() as session:
            return latest.read_series(session, key, since=since, limit=limit)

    def sweep_history(self, name: str) -> SweepHistory:
        """What is known of the configured sweep called `name`."""
        with self._transactions.reading() as session:
            return tallies.read_sweep_history(session, name)

    def record_preemption(self, seconds: float) -> None:
        """Count how long it took to give the GPUs back."""
        with self._transactions.writing() as session:
            tallies.tally_preemption(session, seconds)

    def preemptions(self) -> DurationCounts:
        with self._transactions.reading() as session:
            return tallies.read_preemptions(session)

    # Requests of the command line to a running daemon

    def add_request(self, kind: str, arguments: Mapping[str, str], *, by: str) -> int:
        with self._transactions.writing() as session:
            return requests.write_request(session, kind, arguments, by=by, at=self._clock.now())

    def request(self, request_id: int) -> Request | None:
        with self._transactions.reading() as session:
            return requests.read_request(session, request_id)

    def next_request(self) -> Request | None:
        """Claim the oldest waiting request; of several claimers one gets it."""
        with self._transactions.reading() as session:
            if not requests.is_any_waiting(session):
                return None  # asked every second: no write transaction for nothing
        with self._transactions.writing() as session:
            return requests.claim_next(session)

    def finish_request(self, request_id: int, *, state: RequestState, answer: str) -> None:
        """Answer a claimed request."""
        with self._transactions.writing() as session:
            requests.finish(session, request_id, state, answer, self._clock.now())

    def withdraw_request(self, request_id: int) -> bool:
        """Take back a request that no daemon has claimed; False where it is too late."""
        with self._transactions.writing() as session:
            return requests.withdraw(session, request_id, self._clock.now())

    def fail_abandoned_requests(self) -> int:
        """At the start of a daemon: end what a dead one had claimed, and what has waited too long."""
        with self._transactions.writing() as session:
            return requests.fail_abandoned(session, self._clock.now())

    # Counters

    def increment(self, name: str, labels: Mapping[str, str] | None = None, *, by: float = 1) -> None:
        """Let a counter grow; it is made at its first growth."""
        with self._transactions.writing() as session:
            tallies.increment(session, name, labels or {}, by)

    def counters(self, name: str | None = None) -> tuple[Counter, ...]:
        with self._transactions.reading() as session:
            return tallies.read_counters(session, name)

    # Findings and the pause

    def record_finding(self, finding: Finding) -> None:
        """Open a finding, or renew the open one of its kind and subject."""
        with self._transactions.writing() as session:
            findings.record_finding(session, finding)

    def close_finding(self, kind: FindingKind, subject: str) -> bool:
        """Whether there was an open one."""
        with self._transactions.writing() as session:
            return findings.close_finding(session, kind, subject, self._clock.now())

    def findings(self, *, open_only: bool = True, limit: int = FINDINGS_LIMIT) -> tuple[Finding, ...]:
        """Newest first."""
        with self._transactions.reading() as session:
            return findings.read_findings(session, open_only=open_only, limit=limit)

    def set_pause(self, *, by: str, reason: str) -> Pause:
        """Pause all sweeps; returns the pause in force, which may be an older one."""
        with self._transactions.writing() as session:
            findings.write_pause(session, Pause(self._clock.now(), by, reason))
            pause = findings.read_pause(session)
        if pause is None:
            raise AssertionError("a pause was just written")
        return pause

    def clear_pause(self) -> bool:
        """Whether sweeps were paused."""
        with self._transactions.writing() as session:
            return findings.delete_pause(session)

    def pause(self) -> Pause | None:
        with self._transactions.reading() as session:
            return findings.read_pause(session)

    # Health

    def write_check(self) -> None:
        """Write and commit a row of no meaning."""
        with self._transactions.writing() as session:
            session.execute(
                "INSERT OR REPLACE INTO write_check (id, at_us) VALUES (1, ?)",
                (to_microseconds(self._clock.now()),),
            )
