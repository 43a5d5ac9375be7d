"""The life of one child, from its start to its end: what arrives, which limit is over, which signal comes next.

Works on file descriptors and a pid alone; who starts and reaps the child is supervisor.py. The stages go one way:

    RUNNING -> TERMINATING (SIGTERM sent) -> KILLED (SIGKILL sent) -> EXITED (its output may still come) -> OVER

Any stage may be left out, and KILLED goes to OVER directly when the child is lost. The child is not reaped before
OVER, so its pid and its process group cannot become anybody else's while they are signalled.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path

from gpumond.clock import Clock
from gpumond.model.run import Cause
from gpumond.process import cgroup, child, explain
from gpumond.process.cancellation import Cancellation
from gpumond.process.command import Limits, ProcessResult
from gpumond.process.leftovers import KillReport, kill_leftover, living_family, signal_all
from gpumond.process.output import BoundedOutput, LineSplitter
from gpumond.process.procfs import ProcessStat, ThreadState, read_thread_states, summarise_threads
from gpumond.process.watchdog import RowWatchdog

READ_BYTES = 64 * 1024
"""What a pipe holds."""
DRAIN_SECONDS = 1.0
"""How long output is awaited after the child's end: a `tee` behind it writes its last lines, a daemon never closes."""
SELECT_SECONDS_MAX = 3600.0
"""epoll counts milliseconds in 31 bits: a limit of a month would be an OverflowError."""
EVIDENCE_CAUSES = frozenset({Cause.NO_FIRST_ROW, Cause.ROW_STALLED, Cause.TOTAL_TIMEOUT})


@dataclass(frozen=True, slots=True)
class StartedChild:
    """A child that is not reaped yet, and our ends of its pipes. `stderr_fd` is None where stdout carries both, `cgroup`
    where it has none of its own.
    """

    pid: int
    start_ticks: int
    pidfd: int
    report_fd: int
    stdout_fd: int
    stderr_fd: int | None
    cgroup: Path | None = None


class Stage(Enum):
    RUNNING = auto()
    TERMINATING = auto()
    KILLED = auto()
    EXITED = auto()
    OVER = auto()


@dataclass(slots=True)
class _Stream:
    descriptor: int
    output: BoundedOutput
    lines: LineSplitter | None


class Supervision:
    """Used once, by one thread: `watch`, then `conclude`."""

    def __init__(
        self,
        started: StartedChild,
        limits: Limits,
        *,
        clock: Clock,
        started_at: float,
        cancellation: Cancellation,
        on_start: Callable[[int, int], None] | None,
        on_line: Callable[[str], bool] | None,
    ) -> None:
        self._child = started
        self._started_at = started_at
        self._limits = limits
        self._clock = clock
        self._cancellation = cancellation
        self._on_start = on_start
        self._on_line = on_line
        self._watchdog = RowWatchdog(limits, started_at=started_at)
        self._stdout = self._new_stream(started.stdout_fd, LineSplitter() if on_line else None)
        self._stderr = None if started.stderr_fd is None else self._new_stream(started.stderr_fd, None)
        self._report = b""
        self._open: set[int] = set()
        self._stage = Stage.RUNNING
        self._stage_deadline = 0.0
        self._cause: Cause | None = None
        self._signalled_at: float | None = None
        self._cleared_at: float | None = None
        self._ignored_sigterm = False
        self._family: list[ProcessStat] = []
        self._leftovers = KillReport()
        self._evidence: tuple[ThreadState, ...] = ()

    def _new_stream(self, descriptor: int, lines: LineSplitter | None) -> _Stream:
        kept = BoundedOutput(head_bytes=self._limits.head_bytes, tail_bytes=self._limits.tail_bytes)
        return _Stream(descriptor, kept, lines)

    # --- the loop ---

    def watch(self) -> None:
        """Return when the child and all that it started are gone, or lost. Exceptions of callbacks go through."""
        with selectors.DefaultSelector() as self._selector, self._cancellation.watch() as cancel_fd:
            self._register(cancel_fd, partial(self._on_cancel, cancel_fd))
            self._register(self._child.pidfd, self._on_exit)
            os.set_blocking(self._child.report_fd, False)
            self._register(self._child.report_fd, self._on_report)
            for stream in self._streams:
                self._register(stream.descriptor, partial(self._on_output, stream))
            while self._stage is not Stage.OVER:
                for key, _ in self._selector.select(self._seconds_to_deadline()):
                    if key.fd in self._open:  # an earlier handler of this round may have closed it
                        key.data()
                self._obey_clock()

    def _register(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, handler)
        self._open.add(descriptor)

    def _unregister(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        self._open.discard(descriptor)

    @property
    def _streams(self) -> tuple[_Stream, ...]:
        return (self._stdout,) if self._stderr is None else (self._stdout, self._stderr)

    def _seconds_to_deadline(self) -> float:
        running = self._stage is Stage.RUNNING
        deadline = self._watchdog.next_deadline[0] if running else self._stage_deadline
        return min(max(0.0, deadline - self._clock.monotonic()), SELECT_SECONDS_MAX)

    def _obey_clock(self) -> None:
        now = self._clock.monotonic()
        if self._stage is Stage.RUNNING:
            cause = self._watchdog.expired(now)
            if cause is not None:
                self._end(cause, self._limits.grace_seconds)
        elif self._stage is Stage.EXITED and not any(s.descriptor in self._open for s in self._streams):
            self._leave()
        elif now < self._stage_deadline:
            return
        elif self._stage is Stage.TERMINATING:
            self._ignored_sigterm = True
            self._kill()
        elif self._stage is Stage.EXITED:
            self._leave()
        elif self._stage is Stage.KILLED:
            self._give_up()

    # --- what arrives ---

    def _on_output(self, stream: _Stream) -> None:
        if self._child.report_fd in self._open:
            self._on_report()  # so that on_start comes before the first line
        chunk = os.read(stream.descriptor, READ_BYTES)
        if not chunk:
            self._unregister(stream.descriptor)
            return
        stream.output.append(chunk)
        if stream.lines is not None and self._on_line is not None and self._cause is not Cause.OUTPUT_LIMIT:
            for line in stream.lines.feed(chunk):
                if self._on_line(line):
                    self._watchdog.row(self._clock.monotonic())
        printed_bytes = sum(stream.output.total_bytes for stream in self._streams)
        if self._stage is Stage.RUNNING and printed_bytes > self._limits.max_bytes:
            self._end(Cause.OUTPUT_LIMIT, self._limits.grace_seconds)

    def _on_report(self) -> None:
        try:
            while text := os.read(self._child.report_fd, READ_BYTES):
                self._report += text
        except BlockingIOError:
            return
        self._unregister(self._child.report_fd)
        if self._report == child.READY and self._on_start is not None:
            self._on_start(self._child.pid, self._child.start_ticks)

    def _on_exit(self) -> None:
        self._unregister(self._child.pidfd)
        if self._child.report_fd in self._open:
            self._on_report()
        self._enter(Stage.EXITED, DRAIN_SECONDS)
        if self._cause is not None:
            # Somebody waits for the GPUs: what the child left gets no time to finish its output.
            self._clear()

    def _on_cancel(self, cancel_fd: int) -> None:
        os.eventfd_read(cancel_fd)
        grace = self._cancellation.grace_seconds
        grace = self._limits.grace_seconds if grace is None else grace
        if self._stage is Stage.RUNNING:
            self._end(Cause.CANCELLED, grace)
        elif self._stage is Stage.TERMINATING and self._signalled_at is not None:
            self._stage_deadline = min(self._stage_deadline, self._signalled_at + grace)
        elif self._stage is Stage.EXITED:
            self._stage_deadline = self._clock.monotonic()  # no more waiting for output: what is left must go

    # --- how it ends ---

    def _end(self, cause: Cause, grace_seconds: float) -> None:
        self._cause = cause
        self._look_at_family()  # before SIGTERM makes orphans of those that hide
        if cause in EVIDENCE_CAUSES:
            self._take_evidence()
        self._signalled_at = self._clock.monotonic()
        if grace_seconds <= 0:
            self._kill()
            return
        self._signal_group(signal.SIGTERM)
        self._signal_group(signal.SIGCONT)  # a stopped process takes SIGTERM only once it runs again
        self._enter(Stage.TERMINATING, grace_seconds)

    def _kill(self) -> None:
        if self._child.cgroup is not None:
            cgroup.kill(self._child.cgroup)
        self._signal_group(signal.SIGKILL)
        self._enter(Stage.KILLED, self._limits.lost_seconds)
        self._look_at_family()
        signal_all(self._family, signal.SIGKILL)

    def _give_up(self) -> None:
        self._look_at_family()
        self._take_evidence()
        self._cause = Cause.LOST
        self._leftovers = KillReport(remaining=tuple(sorted(stat.identity for stat in self._family)))
        self._enter(Stage.OVER, 0.0)

    def _leave(self) -> None:
        if self._cleared_at is None:
            self._clear()
        self._enter(Stage.OVER, 0.0)

    def _clear(self) -> None:
        """End what the child left behind; its own zombie still guards its pid and its session."""
        self._leftovers = kill_leftover(
            self._child.pid,
            self._child.start_ticks,
            clock=self._clock,
            wait_seconds=self._limits.lost_seconds,
            known=self._family,
            cgroup=self._child.cgroup,
        )
        self._cleared_at = self._clock.monotonic()
        if self._leftovers.remaining:
            self._look_at_family()
            self._take_evidence()
            self._cause = Cause.LOST

    def _enter(self, stage: Stage, seconds: float) -> None:
        self._stage = stage
        self._stage_deadline = self._clock.monotonic() + seconds

    def _signal_group(self, number: signal.Signals) -> None:
        # A setuid program may refuse; then it ends as LOST, which says so.
        with suppress(OSError):
            os.killpg(self._child.pid, number)

    def _look_at_family(self) -> None:
        self._family = living_family(
            self._child.pid, self._child.start_ticks, self._family, self._child.cgroup
        )

    def _take_evidence(self) -> None:
        self._evidence = read_thread_states(stat.pid for stat in self._family)

    # --- what is said about it ---

    def conclude(
        self, exit_status: int | None, cpu_seconds: float | None, *, program: str, directory: Path
    ) -> ProcessResult:
        cause, detail = self._explain(exit_status, program, directory)
        output, dropped = self._stdout.output.finish()
        errors, errors_dropped = self._stderr.output.finish() if self._stderr else (b"", 0)
        return ProcessResult(
            cause=cause,
            exit_status=None if cause is Cause.NOT_STARTED else exit_status,
            pid=self._child.pid,
            start_ticks=self._child.start_ticks,
            duration_seconds=self._clock.monotonic() - self._started_at,
            output=output,
            errors=errors,
            dropped_bytes=dropped + errors_dropped,
            detail=detail,
            cpu_seconds=cpu_seconds,
            signalled_at=self._signalled_at,
            clear_seconds=self._clear_seconds,
            evidence=self._evidence,
            leftovers=self._leftovers.remaining,
        )

    @property
    def _clear_seconds(self) -> float | None:
        if self._signalled_at is None or self._cleared_at is None:
            return None
        return self._cleared_at - self._signalled_at

    def _explain(self, exit_status: int | None, program: str, directory: Path) -> tuple[Cause, str]:
        threads = summarise_threads(self._evidence)
        match self._cause:
            case None if self._report == child.READY:
                return Cause.EXITED, explain.exit_of(exit_status)
            case None if self._report.startswith(child.READY):
                number = int(self._report.removeprefix(child.READY))
                return Cause.NOT_STARTED, explain.start_failure(program, directory, number)
            case None:
                return Cause.NOT_STARTED, explain.broken_trampoline(self._last_line())
            case Cause.LOST:
                pids = tuple(process.pid for process in self._leftovers.remaining)
                return Cause.LOST, explain.lost(pids, self._limits, threads)
            case cause:
                detail = explain.why_ended(
                    cause, self._limits, rows=self._watchdog.rows, reason=self._cancellation.reason
                )
                if self._ignored_sigterm:
                    detail += "; it ignored SIGTERM"
                return cause, f"{detail}; its threads were: {threads}" if threads else detail

    def _last_line(self) -> str:
        text = (self._stderr or self._stdout).output.finish()[0]
        return text.decode(errors="replace").strip().rpartition("\n")[2]
