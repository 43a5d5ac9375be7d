"""The sweeps of a daemon: runs them by name and keeps their part of the status. Knows no window and no signal.

Results are in the store before they are on the board (DESIGN rule 9); what the board shows after a restart is what the
store gives back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from gpumond.board import StatusBoard
from gpumond.errors import StoreError
from gpumond.log import get_logger
from gpumond.model.identity import RunId
from gpumond.model.run import Trigger
from gpumond.model.status import HostStatus, SweepStatus
from gpumond.process.supervisor import Cancellation
from gpumond.store.records import SweepHistory
from gpumond.sweep.baselines import BaselineAction, decide
from gpumond.sweep.context import SweepContext, SweepReport
from gpumond.sweep.events import RunFinished, SweepEvent, SweepFinished, SweepStarted
from gpumond.sweep.judging import Judging, Suspect
from gpumond.sweep.plan import SweepSpec, timeout_of
from gpumond.sweep.reasons import FAILURE_REASONS, SKIP_REASONS
from gpumond.sweep.runner import SweepRunner
from gpumond.sweep.selection import select_points

log = get_logger("sweep")


STOP_GRACE_SECONDS = 1.0
"""A service stops in less than 3 s, also while a benchmark hangs that ignores SIGTERM; a driver takes 0.3 s after SIGKILL."""

RESUMED = "sweeps are no longer paused"
NOT_PAUSED = "sweeps were not paused"


class Runner(Protocol):
    """Runs a sweep, or lets Slurm run it."""

    def run(
        self,
        spec: SweepSpec,
        *,
        trigger: Trigger,
        cancellation: Cancellation,
        sweep_id: RunId | None = None,
        latest_start: datetime | None = None,
    ) -> SweepReport: ...


class RunnerFactory(Protocol):
    def __call__(self, context: SweepContext, *, on_event: Callable[[SweepEvent], None]) -> Runner: ...


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often a sweep should run, in seconds; what "overdue" is measured against."""

    interval_seconds: float
    overdue_grace_seconds: float


class SweepService:
    """One sweep at a time; `run` is called on the thread that lives as long as the benchmark."""

    def __init__(
        self,
        context: SweepContext,
        *,
        specs: Mapping[str, SweepSpec],
        cadences: Mapping[str, Cadence],
        board: StatusBoard,
        runner_for: RunnerFactory = SweepRunner,
    ) -> None:
        self._context = context
        self._runner_for = runner_for
        self._specs = dict(specs)
        self._cadences = dict(cadences)
        self._board = board
        self._lock = threading.Lock()
        self._cancellation: Cancellation | None = None
        self._is_measuring = False
        self._is_stopping = False
        self._may_rerun = False
        self._suspects: dict[str, tuple[Suspect, ...]] = {}
        self._judging = Judging(context.store, snapshot=lambda: board.status.snapshot)

    @property
    def is_running(self) -> bool:
        """Whether a sweep runs, or waits for Slurm to start it."""
        return self._cancellation is not None

    @property
    def is_measuring(self) -> bool:
        return self._is_measuring

    def knows(self, name: str) -> bool:
        return name in self._specs

    def configure(
        self,
        context: SweepContext,
        *,
        specs: Mapping[str, SweepSpec],
        cadences: Mapping[str, Cadence],
        runner_for: RunnerFactory = SweepRunner,
    ) -> None:
        """Take over a reloaded configuration; a running sweep finishes under the one it began with."""
        with self._lock:
            self._context = context
            self._specs = dict(specs)
            self._cadences = dict(cadences)
            self._runner_for = runner_for
        self.restore()

    def restore(self) -> None:
        """Put on the board what the store knows: after a restart the same series with the same values."""
        sweeps = tuple(self._restored(name, spec) for name, spec in self._specs.items())
        for name in self._specs:
            if not self.is_running and not self._suspects.get(name):
                self._judging.judge_new(name)  # what a dead daemon, or a command, has left unjudged
        self._publish_results()
        pause = self._context.store.pause()
        self._board.update(
            lambda status: replace(status, sweeps=tuple(_with_state(sweeps, status)), pause=pause)
        )

    def has_suspects(self, name: str) -> bool:
        """Whether the last sweep of this name was low, and nobody has been told yet."""
        return bool(self._suspects.get(name))

    def confirm(self, name: str, *, latest_start: datetime | None, may_rerun: bool) -> SweepReport | None:
        """Measure again what was low; with `may_rerun` what is still low may wait for another one."""
        with self._lock:
            suspects, spec = self._suspects.get(name, ()), self._specs.get(name)
        if not suspects or spec is None:
            return None
        again = replace(
            spec,
            gpu_sets=tuple(dict.fromkeys(suspect.gpu_set for suspect in suspects)),
            collectives=tuple(dict.fromkeys(suspect.collective for suspect in suspects)),
        )
        return self._run(again, trigger=Trigger.CONFIRMATION, latest_start=latest_start, may_rerun=may_rerun)

    def settle(self, name: str) -> None:
        """Judge what was low as it is: there will be no re-run."""
        self._judge(name, may_rerun=False)
        self._publish_results()

    def decide_baseline(self, action: BaselineAction, arguments: dict[str, str], *, by: str) -> str:
        """Obey what a person says of baselines. Raises NotEvaluatedError where there is nothing to decide."""
        answer = decide(self._context.store, self._context.clock, action, arguments, by=by)
        self._publish_results()
        return answer

    def set_due(self, name: str, due_at: datetime | None) -> None:
        self._change(name, lambda sweep: replace(sweep, due_at=due_at))

    def run(
        self,
        name: str,
        *,
        trigger: Trigger,
        sweep_id: RunId | None = None,
        latest_start: datetime | None = None,
        may_rerun: bool = False,
    ) -> SweepReport | None:
        """Run a configured sweep to its end; None where it is no longer configured, or the daemon stops. Where it has to
        wait for others, it does not start after `latest_start`. With `may_rerun` findings wait for `confirm`.

        Raises StoreError where its result could not be stored; the status says so too.
        """
        with self._lock:
            spec = self._specs.get(name)
        if spec is None:
            return None
        return self._run(
            spec, trigger=trigger, sweep_id=sweep_id, latest_start=latest_start, may_rerun=may_rerun
        )

    def _run(
        self,
        spec: SweepSpec,
        *,
        trigger: Trigger,
        sweep_id: RunId | None = None,
        latest_start: datetime | None,
        may_rerun: bool,
    ) -> SweepReport | None:
        name = spec.name
        with self._lock:
            if self._is_stopping:
                return None
            context = self._context
            self._may_rerun = may_rerun
            cancellation = self._cancellation = Cancellation()
        try:
            runner = self._runner_for(context, on_event=self._on_event)
            report = runner.run(
                spec,
                trigger=trigger,
                cancellation=cancellation,
                sweep_id=sweep_id,
                latest_start=latest_start,
            )
        except StoreError as error:
            log.warning("sweep_not_stored", sweep=name, error=error.message, hint=error.hint)
            self._change(name, lambda sweep: replace(sweep, running_since=None))
            self._board.update(lambda status: replace(status, is_store_writable=False))
            raise
        finally:
            with self._lock:
                self._cancellation = None
                self._is_measuring = False
        return report

    def stop(self, reason: str) -> None:
        """Start nothing any more, and end what runs: SIGTERM, then SIGKILL after a short grace."""
        with self._lock:
            self._is_stopping = True
            if self._cancellation is not None:
                self._cancellation.cancel(grace_seconds=STOP_GRACE_SECONDS, reason=reason)

    def has_new_inputs(self, name: str) -> bool:
        """Whether a run would begin with other inputs than the last one of this sweep."""
        return self._judging.has_new_inputs(name)

    def pause(self, *, by: str, reason: str) -> str:
        """Start nothing until `resume`, and end what runs. The answer is a sentence."""
        pause = self._context.store.set_pause(by=by, reason=reason)
        self._board.update(lambda status: replace(status, pause=pause))
        with self._lock:
            if self._cancellation is not None:
                self._cancellation.cancel(reason=str(pause))
        return str(pause)

    def resume(self) -> str:
        was_paused = self._context.store.clear_pause()
        self._board.update(lambda status: replace(status, pause=None))
        return RESUMED if was_paused else NOT_PAUSED

    def _on_event(self, event: SweepEvent) -> None:
        match event:
            case SweepStarted(sweep):
                self._is_measuring = True
                self._change(sweep.name, lambda status: replace(status, running_since=sweep.started_at))
            case RunFinished(run):
                self._judging.note_inputs(run)
                self._publish_results()
            case SweepFinished(sweep):
                self._judge(sweep.name, may_rerun=self._may_rerun)
                self._publish_results()
                history = self._context.store.sweep_history(sweep.name)
                self._change(
                    sweep.name, lambda status: _with_history(replace(status, running_since=None), history)
                )
            case _:
                pass

    def _judge(self, name: str, *, may_rerun: bool) -> None:
        suspects = self._judging.judge_new(name, may_rerun=may_rerun)
        if suspects:
            log.info("night_is_low", sweep=name, suspects=[str(suspect) for suspect in suspects])
        self._suspects[name] = suspects

    def _change(self, name: str, change: Callable[[SweepStatus], SweepStatus]) -> None:
        self._board.update(
            lambda status: replace(
                status,
                sweeps=tuple(change(sweep) if sweep.name == name else sweep for sweep in status.sweeps),
            )
        )

    def _restored(self, name: str, spec: SweepSpec) -> SweepStatus:
        cadence = self._cadences[name]
        sweep = SweepStatus(
            name=name,
            interval_seconds=cadence.interval_seconds,
            overdue_grace_seconds=cadence.overdue_grace_seconds,
            timeout_seconds=timeout_of(spec, self._board.status.gpu_sets),
        )
        return _with_history(sweep, self._context.store.sweep_history(name))

    def _publish_results(self) -> None:
        # Read first: nobody may wait for the disk under the board's lock.
        store = self._context.store
        points, verdicts = select_points(store.latest_points()), store.latest_verdicts()
        transports, pcie_links = store.latest_transports(), store.loaded_pcie_links()
        findings, preemptions = store.findings(), store.preemptions()
        scores, baselines = store.latest_scores(), self._judging.baselines()
        self._board.update(
            lambda status: replace(
                status,
                points=points,
                verdicts=verdicts,
                transports=transports,
                loaded_pcie_links=pcie_links,
                findings=findings,
                preemptions=preemptions,
                scores=scores,
                baselines=baselines,
            )
        )


def _with_history(sweep: SweepStatus, history: SweepHistory) -> SweepStatus:
    return replace(
        sweep,
        runs=history.runs,
        # From 0 on, or the first failure would be no increase for Prometheus.
        failures=dict.fromkeys(FAILURE_REASONS, 0) | history.failures,
        skips=dict.fromkeys(SKIP_REASONS, 0) | history.skips,
        preemptions=history.preemptions,
        consecutive_failures=history.consecutive_failures,
        consecutive_skips=history.consecutive_skips,
        last_run_at=history.last_run_at,
        last_run_duration_seconds=history.last_run_duration_seconds,
        last_run_success=history.last_run_success,
        last_success_at=history.last_success_at,
    )


def _with_state(restored: Iterable[SweepStatus], status: HostStatus) -> Iterator[SweepStatus]:
    """What a reload must not forget: when a sweep is due, and that one runs."""
    known = {sweep.name: sweep for sweep in status.sweeps}
    for sweep in restored:
        old = known.get(sweep.name)
        yield replace(sweep, due_at=old.due_at, running_since=old.running_since) if old else sweep
