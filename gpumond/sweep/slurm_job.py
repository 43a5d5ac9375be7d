"""A sweep as a job of Slurm's: submitted, followed through the store, withdrawn when it does not start in time.

Where Slurm gives the GPUs out, a look at it proves nothing about the next second. An exclusive job of low priority does:
then Slurm arbitrates, and whatever it starts there comes before us or after us. The job runs
`gpumond sweep NAME --inside-job`, which measures under the same lock, guards and watch as everywhere else, and writes
to the same store. This module never touches a GPU.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from gpumond.clock import Clock
from gpumond.errors import GpumondError, NotEvaluatedError
from gpumond.guards.report import GuardName
from gpumond.log import get_logger
from gpumond.model.identity import RunId
from gpumond.model.run import Sweep, SweepOutcome, Trigger
from gpumond.parsers.slurm import SQUEUE_FORMAT, parse_jobs, parse_submitted
from gpumond.process.ask import Answer
from gpumond.process.lost import LostProcesses
from gpumond.process.supervisor import Cancellation
from gpumond.store.sqlite import Store
from gpumond.sweep.context import SweepReport, new_run_id
from gpumond.sweep.ending import end_sweep
from gpumond.sweep.events import SweepEvent, SweepStarted
from gpumond.sweep.follow import SweepWatcher
from gpumond.sweep.plan import SweepSpec, count_steps
from gpumond.sweep.recovery import end_abandoned

log = get_logger("slurm")

POLL_SECONDS = 0.5
ASK_SECONDS = 5.0
"""How often Slurm is asked about the job; the store is looked at with every poll."""

END_SECONDS_MAX = 60.0
"""How long a job may take to go after scancel: SIGTERM, KillWait (30 s by default), SIGKILL."""

TIME_LIMIT_MINUTES_MIN = 10
LOG_SHOWN_BYTES = 500


@dataclass(frozen=True, slots=True)
class SlurmJobSettings:
    """How jobs are submitted on this host.

    `submit_arguments` are sbatch's; `inside_command` is what the job runs, without the sweep's name; `exported` names
    the variables of ours that the job gets.
    """

    node: str
    submit_arguments: tuple[str, ...]
    inside_command: tuple[str, ...]
    inside_options: tuple[str, ...]
    exported: tuple[str, ...]
    wait_seconds: float
    count_gpus: Callable[[], int]
    gres: str | None
    ask: Callable[[Sequence[str]], Answer]


class SlurmJobRunner:
    """Submits sweeps, one at a time, and waits for each in the calling thread."""

    def __init__(
        self,
        settings: SlurmJobSettings,
        *,
        store: Store,
        clock: Clock,
        lock_file: Path,
        work_directory: Path,
        lost: LostProcesses,
        on_event: Callable[[SweepEvent], None] = lambda _event: None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._lock_file = lock_file
        self._work_directory = work_directory
        self._lost = lost
        self._on_event = on_event

    def run(
        self,
        spec: SweepSpec,
        *,
        trigger: Trigger,
        cancellation: Cancellation,
        sweep_id: RunId | None = None,
        latest_start: datetime | None = None,
    ) -> SweepReport:
        """Submit a sweep and follow it to its end. It does not start after `latest_start`."""
        sweep = Sweep(
            id=sweep_id or new_run_id(self._clock.now()),
            name=spec.name,
            trigger=trigger,
            started_at=self._clock.now(),
            planned_runs=count_steps(spec),
        )
        output = self._work_directory / f"{sweep.id}.slurm"
        try:
            job = self._submit(spec, sweep, output)
        except GpumondError as error:
            return self._refuse(sweep, GuardName.SLURM, error.message)
        log.info("job_submitted", job=job, sweep=spec.name, id=sweep.id)
        try:
            return self._follow(sweep, job, output, cancellation, latest_start)
        finally:
            output.unlink(missing_ok=True)

    def _submit(self, spec: SweepSpec, sweep: Sweep, output: Path) -> str:
        settings = self._settings
        self._work_directory.mkdir(parents=True, exist_ok=True)
        minutes = max(TIME_LIMIT_MINUTES_MIN, count_steps(spec) * TIME_LIMIT_MINUTES_MIN)
        inside = (
            *settings.inside_command,
            spec.name,
            "--inside-job",
            f"--sweep-id={sweep.id}",
            f"--trigger={sweep.trigger.value}",
            *settings.inside_options,
        )
        answer = settings.ask(
            (
                "sbatch",
                "--parsable",
                "--exclusive",
                "--nodes=1",
                "--ntasks=1",
                "--no-requeue",
                f"--nodelist={settings.node}",
                f"--gres={settings.gres or f'gpu:{settings.count_gpus()}'}",
                f"--time={minutes}",
                f"--job-name=gpumond-{spec.name}",
                "--dependency=singleton",  # one that a dead daemon left waiting goes first
                f"--output={output}",
                f"--export={','.join(settings.exported) or 'NONE'}",
                "--chdir=/",
                *settings.submit_arguments,
                f"--wrap=exec {shlex.join(inside)}",
            )
        )
        if answer.failure:
            raise NotEvaluatedError(_said("Slurm did not take the job", answer))
        try:
            return parse_submitted(answer.output)
        except ValueError as error:
            raise NotEvaluatedError(str(error)) from error

    def _follow(
        self,
        sweep: Sweep,
        job: str,
        output: Path,
        cancellation: Cancellation,
        latest_start: datetime | None,
    ) -> SweepReport:
        watcher = SweepWatcher(self._store, sweep.id, self._on_event)
        give_up = self._clock.monotonic() + self._settings.wait_seconds
        asked_at = self._clock.monotonic()
        while True:
            report = watcher.look()
            if report is not None:
                return report
            if cancellation.is_cancelled:
                return self._withdraw(sweep, job, watcher, "cancelled", cancellation.reason or "cancelled")
            now = self._clock.monotonic()
            is_late = now >= give_up or (latest_start is not None and self._clock.now() >= latest_start)
            if is_late and not watcher.has_begun:
                detail = f"Slurm did not start job {job} in time"
                return self._withdraw(sweep, job, watcher, GuardName.SLURM, detail)
            if now >= asked_at + ASK_SECONDS:
                asked_at = now
                if self._is_gone(job):
                    return self._conclude_gone(sweep, job, output, watcher)
            self._clock.sleep(POLL_SECONDS)

    def _is_gone(self, job: str) -> bool:
        """Whether Slurm says that the job is over. No answer is no: the job may be running."""
        answer = self._settings.ask(
            ("squeue", "--noheader", f"--jobs={job}", "--states=all", f"--format={SQUEUE_FORMAT}")
        )
        if answer.failure:
            # Slurm forgets a job minutes after its end.
            return "Invalid job id" in answer.errors
        try:
            return all(found.state in _OVER for found in parse_jobs(answer.output))
        except ValueError:
            return False

    def _withdraw(
        self, sweep: Sweep, job: str, watcher: SweepWatcher, reason: str, detail: str
    ) -> SweepReport:
        """Cancel the job and wait until it is gone; a sweep that had begun ends with what it has to say itself."""
        answer = self._settings.ask(("scancel", job))
        log.info("job_cancelled", job=job, reason=detail, answer=answer.failure)
        give_up = self._clock.monotonic() + END_SECONDS_MAX
        while not self._is_gone(job) and self._clock.monotonic() < give_up:
            self._clock.sleep(POLL_SECONDS)
        return watcher.look() or self._close(sweep, reason, detail, watcher)

    def _conclude_gone(self, sweep: Sweep, job: str, output: Path, watcher: SweepWatcher) -> SweepReport:
        """The job has ended, and the sweep in it did not say so."""
        report = watcher.look()  # it may have, since the last look
        if report is not None:
            return report
        said = _last_words(output)
        detail = f"Slurm ended job {job} before the sweep was over" + (f": {said}" if said else "")
        return self._close(sweep, GuardName.SLURM, detail, watcher)

    def _close(self, sweep: Sweep, reason: str, detail: str, watcher: SweepWatcher) -> SweepReport:
        if watcher.has_begun:
            end_abandoned(self._store, self._lock_file, self._clock, self._lost)
            report = watcher.look()
            if report is not None:
                return report
        return self._refuse(sweep, reason, detail)

    def _refuse(self, sweep: Sweep, reason: str, detail: str) -> SweepReport:
        """Store that the sweep did not run, as any other refusal."""
        self._on_event(SweepStarted(sweep))
        ended = replace(
            sweep,
            ended_at=self._clock.now(),
            duration_seconds=(self._clock.now() - sweep.started_at).total_seconds(),
            outcome=SweepOutcome.SKIPPED,
            reason=str(reason),
            detail=detail,
        )
        end_sweep(ended, store=self._store, on_event=self._on_event, log=log)
        return SweepReport(ended, ())


_OVER = frozenset(
    {
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "OUT_OF_MEMORY",
        "BOOT_FAIL",
        "DEADLINE",
        "REVOKED",
        "SPECIAL_EXIT",
    }
)
"""squeue's words for a job that does not run any more."""


def _said(what: str, answer: Answer) -> str:
    last_line = answer.last_error_line
    return f"{what}: {last_line or answer.failure}"


def _last_words(output: Path) -> str:
    try:
        text = output.read_bytes()[-LOG_SHOWN_BYTES:].decode(errors="replace")
    except OSError:
        return ""
    return text.strip().rpartition("\n")[2]
