"""Which lines say that a run ended before its time, and why.

An error is what the program, the loader or the kernel says of the run itself. Noise of launchers and NCCL's own log,
WARN too, is none (cases/nccl README, rule 3).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

MAX_ERROR_CHARS = 300


class Severity(IntEnum):
    """How much a line says about why a run ended; the most telling one is shown."""

    CALLER = 1  # one line of the stack that a failure leaves behind
    CRASH = 2
    CAUSE = 3


@dataclass(frozen=True, slots=True)
class Failure:
    """`is_at_start`: it can only come from a run that has not begun, so no footer before it excuses it."""

    severity: Severity
    text: str
    is_at_start: bool = False


@dataclass(frozen=True, slots=True)
class FailureLine:
    """A failure and the part of the line before it, which may end in the name of the host that reports."""

    failure: Failure
    before: str
    ends_in_host: bool


OWN_TOOLS = "gpumond-(?:torch|nccl4py)"
"""Our own programs that print this table (gpumond/sweep/engines)."""

_OWN = re.compile(rf"# {OWN_TOOLS} failed: (.{{1,300}})")
_TEST_FAILURE = re.compile(r"(?P<host>: Test )?\b(CUDA|Cuda|HIP|NCCL) failure \S{1,256}:\d{1,6} '(.*)")
_TEST_TIMEOUT = re.compile(r"(?P<host>: Test )timeout \((\d{1,9})s\) \S{1,256}:\d{1,6}")
_CALLER = re.compile(r" ?\.\. \S{1,128}(?: pid \d{1,10})?: Test failure (\S{1,256}:\d{1,6})")
_AT_START = re.compile(
    r"error while loading shared libraries: [^:]{1,200}"
    r"|symbol lookup error: .{1,200}"
    r"|version `[^']{1,64}' not found"
    r"|Invalid number of GPUs: .{1,200}"
    r"|The number of requested GPUs .{1,200}"
    r"|invalid sizes? (?:specified )?for 'm.{1,200}"
    r"|invalid option\b.{0,40}"
    r"|unrecognized option .{1,100}"
    r"|option requires an argument.{0,40}"
    r"|\S{0,128}_perf\S{0,4}: (?:command not found|No such file or directory|Permission denied|cannot execute.{0,60})"
    r"|unable to launch the specified application|not enough slots available"
)
_CAUSE = re.compile(
    r"CuRAND error \d{1,6} at \S{1,256}"
    r"|Incompatible NCCL versions.{0,200}"
    r"|Device implementation \d{1,6} is not supported by this test"
)
_CRASH = re.compile(
    r"Segmentation fault|Bus error|Illegal instruction|Floating point exception|Aborted \(core dumped\)"
    r"|terminate called .{1,200}|Caught signal \d{1,3}.{0,100}|==== backtrace|stack smashing detected"
    r"|double free or corruption.{0,20}|corrupted size vs\. prev_size|munmap_chunk\(\): .{1,40}"
    r"|(?:free|malloc|realloc)\(\): .{1,60}|Assertion [`'].{1,200} failed"
    r"|Memory access fault by GPU .{1,100}|HSA_STATUS_ERROR\w{0,60}"
)


def failure_in(text: str) -> FailureLine | None:
    """The failure that a line reports."""
    for pattern, describe in _FAILURES:
        if match := pattern.search(text):
            failure = describe(match)
            return FailureLine(
                failure, text[: match.start()], ends_in_host=bool(match.groupdict().get("host"))
            )
    return None


def _cause(text: str) -> Failure:
    return Failure(Severity.CAUSE, text[:MAX_ERROR_CHARS])


def _test_failure(match: re.Match[str]) -> Failure:
    return _cause(
        f"{'CUDA' if match[2] == 'Cuda' else match[2]} failure: {match[3].strip().removesuffix(chr(39))}"
    )


_FAILURES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Failure]], ...] = (
    (_TEST_FAILURE, _test_failure),
    (_OWN, lambda match: _cause(match[1].strip())),
    (_TEST_TIMEOUT, lambda match: _cause(f"timeout: an operation took more than {match[2]} s")),
    (_AT_START, lambda match: Failure(Severity.CAUSE, match[0][:MAX_ERROR_CHARS], is_at_start=True)),
    (_CAUSE, lambda match: _cause(match[0])),
    (_CRASH, lambda match: Failure(Severity.CRASH, f"crashed: {match[0].strip('= ')}"[:MAX_ERROR_CHARS])),
    (_CALLER, lambda match: Failure(Severity.CALLER, f"test failure at {match[1]}")),
)
