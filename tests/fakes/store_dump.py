"""Prints a filled history as SQL, as tests/data/store/v1.sql was made: `python tests/fakes/store_dump.py > v2.sql`.

Once, when a schema version is released; tests/component/store/test_migrations.py says what must be in it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import tempfile
from pathlib import Path

from history_values import (
    NIGHT,
    StandingClock,
    ended,
    make_point,
    make_run,
    make_snapshot,
    make_sweep,
    measured,
)

from gpumond.judge.assessment import Assessment, Basis
from gpumond.model.baseline import Baseline, Scope, ScopeMemory, Track, TrackKey
from gpumond.model.change import Change, ChangeKind, Level, OpenChange, Subject, SubjectKind
from gpumond.model.finding import Finding, FindingKind
from gpumond.model.identity import PciBusId
from gpumond.model.kernel_log import KernelEventKind, KernelTally
from gpumond.model.run import Verdict
from gpumond.model.status import InventoryEntry
from gpumond.store.records import BaselineDecisionKind, ChangeEnding, JudgeRecord
from gpumond.store.sqlite import Store


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        with Store.open(Path(directory), clock=StandingClock()) as store:
            fill(store)
        with contextlib.closing(sqlite3.connect(Path(directory) / "history.db")) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            sys.stdout.writelines(f"{line}\n" for line in connection.iterdump())
            sys.stdout.write(f"PRAGMA user_version = {version};\n")


def judge(store: Store, run_id: str) -> None:
    scope, key = Scope("nightly", "nccl-tests", "all"), TrackKey("all_reduce", "float", "sum", 2, "p1")
    baseline = Baseline({64 << 20: 267.3e9}, {8: 1e-5}, 0.002, 0.1, 21, NIGHT, {"driver": "580"})
    memory = ScopeMemory({key: Track(baseline=baseline)})
    store.set_fingerprint(run_id, {"driver": "580"})
    store.record_judgement(
        scope,
        JudgeRecord(1, ScopeMemory(), memory),
        verdicts={
            run_id: Assessment(Verdict.OK, "within_noise", "99.9% of the baseline", 0.999, Basis.BASELINE)
        },
        remarks={},
        findings=(),
    )
    store.decide_baseline(scope, BaselineDecisionKind.ACCEPT, memory, (), by="root", reason="commissioned")


def kernel_log(store: Store) -> None:
    tally = KernelTally(
        KernelEventKind.XID,
        PciBusId("0000:3b:00.0"),
        "79",
        Level.CRITICAL,
        2,
        NIGHT,
        NIGHT,
        "fallen off the bus",
    )
    store.add_kernel_tallies([tally], cursor="s=1;i=1")


def fill(store: Store) -> None:
    kernel_log(store)
    store.record_snapshot(make_snapshot())
    inventory = [InventoryEntry(0, "GPU-a", "0000:01:00.0", "NVIDIA H200")]
    store.accept_inventory(inventory, by="gpumond", reason="first seen")
    store.accept_snapshot(make_snapshot(), inventory, by="gpumond", reason="first seen")
    store.reject_snapshot(make_snapshot(), by="alice", reason="the link is being repaired")
    gpu = Subject(SubjectKind.GPU, ("GPU-a",))
    change = Change(ChangeKind.NVLINK_DOWN, Level.CRITICAL, gpu, "NVLink 3 is down", "18", "17")
    store.record_changes([OpenChange(change, NIGHT)], ending=ChangeEnding.GONE)
    sweep = make_sweep(id="20261129T020000Z-000001")
    store.start_sweep(sweep)
    run = measured(make_run(sweep, id="20261129T020000Z-000002"), make_point(8), make_point(16))
    store.finish_run(run, output=b"raw output")
    store.finish_sweep(ended(sweep))
    judge(store, run.id)
    store.add_request("pause", {"until": NIGHT.isoformat()}, by="root")
    store.increment("sweep_preemptions", {"sweep": "nightly"})
    store.record_finding(
        Finding(
            FindingKind.P2P_PATH, Level.CRITICAL, "all", "it hangs with P2P", "futex_do_wait", NIGHT, NIGHT
        )
    )
    store.set_pause(by="root", reason="maintenance")


if __name__ == "__main__":
    main()
