"""Starts probe children, one at a time, and makes a value of whatever becomes of them. Imports no GPU library.

A probe that hangs is killed at its deadline. One that survives even SIGKILL sits in the driver, and a second one would
join it there: so nothing more is started until that very process is gone, and `unkillable_pids` says so meanwhile.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gpumond import codec
from gpumond.clock import Clock
from gpumond.model.run import Cause
from gpumond.model.topology import SNAPSHOT_SCHEMA, Snapshot
from gpumond.process import supervisor
from gpumond.process.lost import LostProcesses
from gpumond.process.procfs import process_is_alive
from gpumond.process.supervisor import Cancellation, Command, Limits, ProcessResult

DOCUMENT_BYTES_MAX = 8 * 1024 * 1024
"""8 GPUs with 18 NVLinks each make 150 kB."""

GRACE_SECONDS = 1.0
"""A probe has nothing to clean up; it takes SIGTERM unless it hangs in a library."""

LOST_SECONDS = 10.0
"""The driver needs about 0.3 s to let go of a killed process (captures of 2 x H200)."""

_STDERR_SHOWN_MAX = 300


class ProbeFailure(StrEnum):
    """Why there is no snapshot."""

    TIMEOUT = "timeout"
    CRASHED = "crashed"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    NOT_STARTED = "not_started"
    BLOCKED = "blocked"  # an earlier probe survived SIGKILL and is still there
    CANCELLED = "cancelled"


_FAILURES = {
    Cause.TOTAL_TIMEOUT: (ProbeFailure.TIMEOUT, "the probe "),
    Cause.LOST: (ProbeFailure.TIMEOUT, "the probe is "),
    Cause.OUTPUT_LIMIT: (ProbeFailure.TOO_LARGE, "the probe "),
    Cause.NOT_STARTED: (ProbeFailure.NOT_STARTED, "the probe did not start: "),
    Cause.CANCELLED: (ProbeFailure.CANCELLED, "the probe was cancelled: "),
}
"""With the beginning of the sentence that the supervisor's detail completes."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """A snapshot, or why there is none: exactly one of `snapshot` and `failure` is set.

    `detail` is one sentence about the failure. `cpu_seconds` is None where no child ran to its end.
    """

    snapshot: Snapshot | None
    failure: ProbeFailure | None = None
    detail: str = ""
    duration_seconds: float = 0.0
    cpu_seconds: float | None = None


def default_probe_command() -> tuple[str, ...]:
    """This interpreter, isolated from the environment and the working directory of whoever started us."""
    return (sys.executable, "-I", "-m", "gpumond.probe")


class ProbeLauncher:
    """`environment` is complete: nothing is inherited. `memory_file` is where a lost probe is remembered across restarts
    of whoever owns this launcher. `run` and `is_alive` are the supervisor's: a test that needs a
    process beyond SIGKILL, which no test can make, puts its own in their place.
    """

    def __init__(
        self,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        *,
        deadline_seconds: float,
        clock: Clock,
        memory_file: Path | None = None,
        run: Callable[..., ProcessResult] = supervisor.run,
        is_alive: Callable[[int, int], bool] = process_is_alive,
    ) -> None:
        self._command = command
        self._environment = environment
        self._deadline_seconds = deadline_seconds
        self._clock = clock
        self._run = run
        self._lock = threading.Lock()
        self._lost = LostProcesses(memory_file, is_alive=is_alive)

    @property
    def unkillable_pids(self) -> tuple[int, ...]:
        """The probe that survived SIGKILL, with what it had started, while they are still there."""
        return self._lost.living_pids

    def take(self, *, with_errors: bool = False, cancellation: Cancellation | None = None) -> ProbeResult:
        """One snapshot by one child; a second caller waits for the first. Never raises for the child's sake."""
        with self._lock:
            blocking_pids = self.unkillable_pids
            if blocking_pids:
                return ProbeResult(None, ProbeFailure.BLOCKED, _blocked_by(blocking_pids))
            self._lost.forget_gone()
            result = self._run(
                self._command_line(with_errors=with_errors),
                self._limits(),
                clock=self._clock,
                merge_stderr=False,
                cancellation=cancellation,
            )
            return self._outcome(result)

    def _command_line(self, *, with_errors: bool) -> Command:
        argv = (*self._command, "--with-errors") if with_errors else self._command
        return Command(argv=argv, environment=self._environment, directory=Path("/"))

    def _limits(self) -> Limits:
        return Limits(
            total_seconds=self._deadline_seconds,
            grace_seconds=GRACE_SECONDS,
            lost_seconds=LOST_SECONDS,
            head_bytes=DOCUMENT_BYTES_MAX,
            tail_bytes=0,
            max_bytes=DOCUMENT_BYTES_MAX,
        )

    def _outcome(self, result: ProcessResult) -> ProbeResult:
        if result.cause is Cause.LOST:
            self._lost.remember(result.leftovers)
        failure, detail = _failure_of(result)
        snapshot = None
        if failure is None:
            try:
                snapshot = decode_snapshot(result.output)
            except ValueError as error:
                failure, detail = ProbeFailure.MALFORMED, f"the probe's answer cannot be used: {error}"
        return ProbeResult(snapshot, failure, detail, result.duration_seconds, result.cpu_seconds)


def decode_snapshot(document: bytes) -> Snapshot:
    """The snapshot in a probe's output. Raises ValueError, also where a newer gpumond wrote it."""
    try:
        snapshot = codec.decode(Snapshot, document)
    except ValueError:
        _refuse_newer(_schema_of(document))
        raise
    _refuse_newer(snapshot.schema)
    return snapshot


def _refuse_newer(schema: int) -> None:
    if schema > SNAPSHOT_SCHEMA:
        raise ValueError(f"its schema {schema} is newer than {SNAPSHOT_SCHEMA}, the newest that we can read")


def _schema_of(document: bytes) -> int:
    """The schema number of a document that does not fit; 0 where there is none to be found."""
    try:
        schema = json.loads(document)["schema"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0
    return schema if isinstance(schema, int) else 0


def _failure_of(result: ProcessResult) -> tuple[ProbeFailure | None, str]:
    if result.cause is Cause.EXITED:
        return (None, "") if result.exit_status == 0 else (ProbeFailure.CRASHED, _crash(result))
    failure, beginning = _FAILURES.get(result.cause, (ProbeFailure.CRASHED, "the probe "))
    return failure, beginning + (result.detail or result.cause.value)


def _crash(result: ProcessResult) -> str:
    """How it ended, and the last thing it said: of a Python traceback, the exception itself."""
    last_line = result.last_error_line[:_STDERR_SHOWN_MAX]
    return f"the probe {result.detail}: {last_line}" if last_line else f"the probe {result.detail}"


def _blocked_by(pids: tuple[int, ...]) -> str:
    numbers = ", ".join(map(str, pids))
    return (
        f"probe process {numbers} survived SIGKILL; no other is started until it is gone or the host reboots"
    )
