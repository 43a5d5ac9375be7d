from __future__ import annotations

import errno
import signal
from pathlib import Path

import pytest

from gpumond.model.run import Cause
from gpumond.process import explain
from gpumond.process.command import Limits

LIMITS = Limits(60, first_row_seconds=10, row_seconds=2.5)


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.EAGAIN, "no process could be made (Resource temporarily unavailable); raise the limit"),
        (errno.ENOMEM, "no process could be made (Cannot allocate memory); raise the limit"),
        (errno.EMFILE, "no process could be made (Too many open files); raise the limit"),
        (errno.ETXTBSY, "/opt/b/x is being written; try again"),
        (errno.ENOSYS, "this kernel has no pidfd_open; gpumond needs Linux 5.3 or later"),
        (errno.EIO, "/opt/b/x could not be started (Input/output error); see"),
    ],
)
def test_why_a_child_did_not_start(number, sentence):
    assert explain.start_failure("/opt/b/x", Path("/"), number).startswith(sentence)


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (0, ""),
        (5, "exited with status 5"),
        (-signal.SIGSEGV, "was ended by SIGSEGV"),
        (-60, "was ended by signal 60"),
        (
            -signal.SIGKILL,
            "was killed by SIGKILL from outside gpumond; the kernel's out-of-memory killer is a usual sender",
        ),
    ],
)
def test_how_a_child_ended(status, sentence):
    assert explain.exit_of(status) == sentence


@pytest.mark.parametrize(
    ("cause", "sentence"),
    [
        (Cause.NO_FIRST_ROW, "printed no row within 10 s"),
        (Cause.ROW_STALLED, "printed no further row within 2.5 s after row 3"),
        (Cause.TOTAL_TIMEOUT, "did not end within 60 s"),
        (Cause.OUTPUT_LIMIT, "printed more than 16777216 bytes"),
        (Cause.CANCELLED, "a user's job has started"),
    ],
)
def test_why_a_child_was_ended(cause, sentence):
    assert explain.why_ended(cause, LIMITS, rows=3, reason="a user's job has started") == sentence


def test_a_cancel_without_a_reason_is_still_a_sentence():
    assert explain.why_ended(Cause.CANCELLED, LIMITS, rows=0, reason="") == "cancelled"


def test_a_broken_trampoline_and_a_lost_child_say_what_to_do():
    assert "repair the Python" in explain.broken_trampoline("ModuleNotFoundError: No module named 'os'")
    assert "(no message)" in explain.broken_trampoline("")
    sentence = explain.lost((7, 8), LIMITS, "1 x D in nv_wait")
    assert sentence.startswith("still there 60 s after SIGKILL: pid 7, 8 (1 x D in nv_wait); look at `dmesg`")
