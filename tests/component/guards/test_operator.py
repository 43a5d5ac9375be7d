"""The operator's word, with real files and real programs: only a clear yes is one."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest

from gpumond.clock import SystemClock
from gpumond.errors import StoreError, StoreErrorKind
from gpumond.guards.operator import CommandGuard, InhibitGuard, PauseGuard
from gpumond.guards.report import GuardName, GuardSubject, ask_all
from gpumond.model.status import Pause
from gpumond.process.ask import ask
from gpumond.process.procfs import read_stat

NOW = datetime(2026, 11, 29, 2, tzinfo=UTC)


@pytest.fixture
def subject(two_gpus):
    return GuardSubject(tuple(gpu.uuid for gpu in two_gpus.gpus), two_gpus, {}, is_scheduled=True)


@pytest.fixture
def command(tmp_path, subject):
    """`command(script, *words)` -> the answer of a guard whose program is that shell script."""

    def check(script, *words, deadline_seconds=5.0, mode=0o755):
        program = tmp_path / "are-free"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(mode)
        questions = partial(
            ask,
            environment={"PATH": "/usr/bin:/bin"},
            deadline_seconds=deadline_seconds,
            clock=SystemClock(),
        )
        (report,) = ask_all([CommandGuard([str(program), *words], questions)], subject)
        return report

    return check


def test_status_zero_is_a_yes_and_its_words_are_kept(command):
    report = command("echo nobody is here")
    assert report.is_clear
    assert "nobody is here" in report.evidence


def test_it_is_told_which_gpus_must_be_free(command, subject):
    report = command('echo "$@"', "--node")
    assert report.evidence.endswith(" ".join(("--node", *subject.uuids)))


@pytest.mark.parametrize("script", ["exit 1", "echo pod train-7 >&2; exit 3", "kill -9 $$"])
def test_every_other_end_is_a_no(command, script):
    report = command(script)
    assert not report.is_clear
    assert report.guard is GuardName.COMMAND


def test_its_reason_is_the_evidence(command):
    assert "pod train-7" in command("echo pod train-7 >&2; exit 3").evidence


def test_a_program_that_takes_too_long_has_said_no_and_is_gone(command, tmp_path):
    mark = tmp_path / "mark"
    report = command(f"sleep 30 & echo $! > {mark}; wait", deadline_seconds=0.5)
    assert not report.is_clear
    assert "0.5 s" in report.evidence
    left = read_stat(int(mark.read_text()))
    assert left is None or left.state == "Z"


def test_a_program_that_cannot_be_run_is_a_no(command):
    assert not command("exit 0", mode=0o644).is_clear


def test_a_flood_is_a_no(command):
    assert not command("yes").is_clear


def test_an_inhibit_file_says_no_by_being_there(tmp_path, subject):
    path = tmp_path / "inhibit"
    guard = InhibitGuard(path)
    assert guard.check(subject).is_clear
    path.write_text("disk swap until noon\n")
    report = guard.check(subject)
    assert not report.is_clear
    assert report.evidence == f"{path} exists: disk swap until noon"
    path.write_bytes(b"")
    assert guard.check(subject).evidence == f"{path} exists"


def test_an_inhibit_file_that_is_none_still_says_no(tmp_path, subject):
    directory = tmp_path / "inhibit"
    directory.mkdir()
    assert not InhibitGuard(directory).check(subject).is_clear
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert not InhibitGuard(loop).check(subject).is_clear


def test_a_pause_is_a_no_with_its_reason(subject):
    assert PauseGuard(lambda: None).check(subject).is_clear
    report = PauseGuard(lambda: Pause(NOW, "root", "maintenance")).check(subject)
    assert not report.is_clear
    assert report.evidence == "paused by root since 2026-11-29T02:00:00+00:00: maintenance"


def test_a_guard_that_cannot_be_asked_says_no(subject):
    def broken():
        raise StoreError("the history is locked", kind=StoreErrorKind.BUSY)

    def worse():
        raise ZeroDivisionError

    for read in (broken, worse):
        (report,) = ask_all([PauseGuard(read)], subject)
        assert not report.is_clear
        assert report.guard is GuardName.PAUSED
        assert "could not be asked" in report.evidence
