"""The kernel log between journalctl and the board: nothing counted twice, nothing lost, no access is no failure."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpumond.board import StatusBoard
from gpumond.clock import SystemClock
from gpumond.errors import StoreError, StoreErrorKind
from gpumond.model.identity import PciBusId
from gpumond.model.kernel_log import KernelEventKind
from gpumond.model.status import HostStatus
from gpumond.monitor import kernel_log
from gpumond.monitor.kernel_log import COLLECTOR, TALLIES_MAX, KernelLogMonitor
from gpumond.store.sqlite import Store

JOURNALCTL = (sys.executable, str(Path(__file__).parents[2] / "fakes/journalctl.py"))
FALLEN = "NVRM: Xid (PCI:0000:{}:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
AER = "pcieport {}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
START = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)
SWITCH = PciBusId("0000:e0:01.0")


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.touch()
        self.entries = 0

    def say(self, *messages: str) -> None:
        with self.path.open("a") as file:
            for message in messages:
                self.entries += 1
                at = round(START.timestamp() + self.entries) * 1_000_000
                entry = {
                    "__CURSOR": f"s=1;i={self.entries}",
                    "__REALTIME_TIMESTAMP": str(at),
                    "MESSAGE": message,
                }
                file.write(json.dumps(entry) + "\n")

    def say_raw(self, line: str) -> None:
        with self.path.open("a") as file:
            file.write(line + "\n")

    def rotate(self) -> None:
        self.path.write_text("")


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "journal")


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "state", clock=SystemClock()) as opened:
        yield opened


@pytest.fixture
def start(journal, store, eight_gpus):
    """`start()`: a daemon's monitor of this journal and store, with the board that it writes."""

    def call():
        board = StatusBoard(HostStatus(version="0.1.0", started_at=START, snapshot=eight_gpus))
        monitor = KernelLogMonitor(
            command=(*JOURNALCTL, str(journal.path)),
            environment={"PATH": "/usr/bin:/bin"},
            chain_of=lambda bus_id: (
                (bus_id, SWITCH) if bus_id == eight_gpus.gpus[0].pci_bus_id else (bus_id,)
            ),
            store=store,
            board=board,
            clock=SystemClock(),
        )
        monitor.restore()
        return monitor, board

    return call


def counts(board):
    return {(tally.pci_bus_id, tally.code): tally.count for tally in board.status.kernel_tallies}


def collector(board):
    (found,) = [it for it in board.status.collectors if it.name == COLLECTOR]
    return found


def take(monitor):
    monitor.take(interval_seconds=60)


def test_what_is_new_is_counted_once_also_over_a_restart(start, journal):
    monitor, board = start()
    journal.say("Linux version 6.8.0", FALLEN.format("3b"))
    take(monitor)
    take(monitor)
    assert counts(board) == {("0000:3b:00.0", "79"): 1}
    journal.say(FALLEN.format("3b"), FALLEN.format("3c"))
    again, board = start()
    assert counts(board) == {("0000:3b:00.0", "79"): 1}
    take(again)
    assert counts(board) == {("0000:3b:00.0", "79"): 2, ("0000:3c:00.0", "79"): 1}
    assert (collector(board).is_successful, collector(board).is_evaluated) == (True, True)


def test_the_processes_of_users_are_not_for_everybody_who_may_scrape(start, journal, store):
    monitor, board = start()
    journal.say("NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=secret.py, Ch 00000008, intr 10000000")
    take(monitor)
    shown = "NVRM: Xid (PCI:0000:3b:00): 31, Ch 00000008, intr 10000000"
    assert [tally.detail for tally in board.status.kernel_tallies] == [shown]
    assert "name=secret.py" in store.kernel_tallies()[0].detail
    _again, board = start()
    assert [tally.detail for tally in board.status.kernel_tallies] == [shown]


def test_a_user_without_access_is_not_evaluated(start, journal):
    monitor, board = start()
    journal.path.unlink()
    take(monitor)
    found = collector(board)
    assert (found.is_evaluated, found.is_successful, found.last_success) == (False, False, None)
    assert "insufficient permissions" in found.detail
    journal.path.touch()
    take(monitor)
    assert (collector(board).is_evaluated, collector(board).detail) == (
        False,
        "this user sees no kernel messages",
    )


def test_a_host_without_journalctl_is_not_evaluated(start, journal, monkeypatch):
    monitor, board = start()
    monkeypatch.setattr(monitor, "_command", ("/nonexistent/journalctl",))
    take(monitor)
    assert not collector(board).is_evaluated
    assert "journalctl" in collector(board).detail


def test_access_that_is_lost_is_a_failure_and_what_is_known_stays(start, journal):
    monitor, board = start()
    journal.say(FALLEN.format("3b"))
    take(monitor)
    journal.path.unlink()
    take(monitor)
    assert (collector(board).is_evaluated, collector(board).is_successful) == (True, False)
    assert counts(board) == {("0000:3b:00.0", "79"): 1}


def test_a_journal_that_began_anew_is_read_without_what_is_known(start, journal):
    monitor, board = start()
    journal.say(FALLEN.format("3b"))
    take(monitor)
    told = journal.path.read_text().replace("s=1", "s=2")
    journal.rotate()
    journal.say_raw(told.strip())
    journal.say(FALLEN.format("3b"))
    take(monitor)
    assert counts(board) == {("0000:3b:00.0", "79"): 2}
    assert collector(board).is_successful


def test_only_the_pcie_errors_between_the_host_bridge_and_our_devices_are_ours(start, journal, eight_gpus):
    monitor, board = start()
    gpu = eight_gpus.gpus[3].pci_bus_id
    journal.say(AER.format("0000:01:00.0"), AER.format(SWITCH), AER.format(gpu))
    take(monitor)
    assert counts(board) == {(SWITCH, "corrected"): 1, (gpu, "corrected"): 1}


def test_what_was_read_before_a_hang_counts(start, journal, monkeypatch):
    monkeypatch.setattr(kernel_log, "DEADLINE_SECONDS", 1.0)
    monitor, board = start()
    journal.say(FALLEN.format("3b"))
    journal.say_raw("hang")
    take(monitor)
    assert counts(board) == {("0000:3b:00.0", "79"): 1}
    assert not collector(board).is_successful
    take(monitor)
    assert counts(board) == {("0000:3b:00.0", "79"): 1}


def test_lines_that_are_no_entries_are_passed_over(start, journal):
    monitor, board = start()
    journal.say("fine")
    journal.say_raw("-- Boot 0123 --")
    journal.say(FALLEN.format("3b"))
    take(monitor)
    assert counts(board) == {("0000:3b:00.0", "79"): 1}


def test_a_storm_is_counted_and_takes_no_memory(start, journal):
    monitor, board = start()
    journal.say(*(AER.format(SWITCH) for _ in range(5_000)))
    journal.say(
        *(FALLEN.format(f"{bus:02x}").replace("79", str(code)) for bus in range(32) for code in range(60))
    )
    take(monitor)
    assert counts(board)[SWITCH, "corrected"] == 5_000
    assert len(board.status.kernel_tallies) <= TALLIES_MAX


def test_what_cannot_be_stored_is_stored_later(start, journal, store, monkeypatch):
    monitor, board = start()
    journal.say(FALLEN.format("3b"))

    def full(*_arguments, **_options):
        raise StoreError("the disk is full", kind=StoreErrorKind.FULL)

    with monkeypatch.context() as broken:
        broken.setattr(store, "add_kernel_tallies", full)
        take(monitor)
    assert counts(board) == {("0000:3b:00.0", "79"): 1}
    journal.say(FALLEN.format("3b"))
    take(monitor)
    assert counts(board) == {("0000:3b:00.0", "79"): 2}
    assert store.kernel_log_cursor() == "s=1;i=2"


def test_what_was_stored_is_not_stored_again_when_it_cannot_be_read(start, journal, store, monkeypatch):
    monitor, board = start()
    journal.say(FALLEN.format("3b"))

    def broken(*_arguments, **_options):
        raise StoreError("the disk is broken", kind=StoreErrorKind.CORRUPT)

    with monkeypatch.context() as patched:
        patched.setattr(store, "kernel_tallies", broken)
        take(monitor)
    assert counts(board) == {("0000:3b:00.0", "79"): 1}
    journal.say(FALLEN.format("3c"))
    take(monitor)
    assert counts(board) == {("0000:3b:00.0", "79"): 1, ("0000:3c:00.0", "79"): 1}


def test_a_look_that_reads_nothing_writes_nothing(start, journal, store, monkeypatch):
    monitor, board = start()
    journal.say(FALLEN.format("3b"))
    take(monitor)
    writes = []
    monkeypatch.setattr(store, "add_kernel_tallies", lambda *_a, **_o: writes.append(1))
    take(monitor)
    assert writes == []
    assert counts(board) == {("0000:3b:00.0", "79"): 1}
    assert collector(board).is_successful
    journal.say("Linux version 6.8.0")
    take(monitor)
    assert writes == [1]


def test_tallies_are_newest_first_and_bounded(start, journal, store):
    monitor, board = start()
    journal.say(FALLEN.format("3b"), FALLEN.format("3c"))
    take(monitor)
    (newest, _older) = board.status.kernel_tallies
    assert newest.kind is KernelEventKind.XID
    assert newest.pci_bus_id == "0000:3c:00.0"
    many = [replace(newest, code=str(code)) for code in range(TALLIES_MAX + 50)]
    store.add_kernel_tallies(many, cursor="s=9")
    assert len(store.kernel_tallies()) == TALLIES_MAX
