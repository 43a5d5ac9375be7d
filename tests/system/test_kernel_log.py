"""The real journalctl on a real journal file, which systemd's own writer makes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gpumond.clock import SystemClock
from gpumond.monitor.kernel_log import read_journal

pytestmark = pytest.mark.system

WRITER = Path("/lib/systemd/systemd-journal-remote")
BOOTS = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210")
MESSAGES = (
    "still alive",
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "Linux version 6.1.0",
    "pcieport 0000:c0:01.1: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
)


def entry(number: int, message: str, boot: str) -> str:
    at = 1_767_225_600_000_000 + number * 1_000_000
    return (
        f"__REALTIME_TIMESTAMP={at}\n__MONOTONIC_TIMESTAMP={number * 1_000_000}\n_BOOT_ID={boot}\n"
        f"_TRANSPORT=kernel\nPRIORITY=4\nMESSAGE={message}\n\n"
    )


@pytest.fixture
def journal(tmp_path):
    """The first two messages are the last ones of a boot that crashed."""
    export = tmp_path / "export"
    export.write_text("".join(entry(i, message, BOOTS[i > 1]) for i, message in enumerate(MESSAGES)))
    file = tmp_path / "kernel.journal"
    subprocess.run([WRITER, f"--output={file}", export], check=True, capture_output=True)
    return file


def read(journal, after=None):
    command = (shutil.which("journalctl"), f"--file={journal}")
    return read_journal(command, after=after, environment={"PATH": "/usr/bin:/bin"}, clock=SystemClock())


def codes(reading):
    return sorted(tally.code for tally in reading.tallies)


def test_the_first_look_reads_this_boot_and_the_next_one_reads_on(journal):
    first = read(journal)
    assert (codes(first), first.entries, first.failure) == (["fatal"], 2, "")
    assert (read(journal, first.cursor).entries, read(journal, first.cursor).failure) == (0, "")


def test_a_look_after_a_crash_sees_the_last_words_of_the_boot_before(journal):
    command = ("journalctl", f"--file={journal}", "--output=json", "--lines=1", "MESSAGE=still alive")
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    cursor = said.partition('"__CURSOR":"')[2].partition('"')[0]
    assert codes(read(journal, cursor)) == ["79", "fatal"]


def test_a_cursor_of_another_journal_is_told_of(journal):
    reading = read(journal, "s=deadbeef")
    assert (reading.entries, reading.cursor) == (0, None)
    assert "cursor" in reading.failure
