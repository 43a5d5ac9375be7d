"""Keeps each configured sweep's next start with the schedule, and runs the sweep when it comes.

The timetable says when; this module asks it whenever the answer may have changed: at start, after each try, after a reload,
after a clock step, and after a snapshot that showed a change of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from gpumond.board import StatusBoard
from gpumond.clock import Clock
from gpumond.config.schema import SweepConfig
from gpumond.config.sweep_schema import Occasion
from gpumond.errors import StoreError
from gpumond.log import get_logger
from gpumond.model.run import Trigger
from gpumond.reruns import Reruns, call_name
from gpumond.schedule.engine import Lane, ScheduleEngine
from gpumond.schedule.sweeps import read_boot_at, read_machine_id
from gpumond.store.sqlite import Store
from gpumond.sweep.service import SweepService
from gpumond.timetable import Appointment, Occasions, appointment_of

log = get_logger("daemon")

NEW_INPUTS_EVERY = timedelta(hours=20)
"""An input that is never twice the same asks for one sweep a night, not for one after the other."""


class Appointments:
    """`sweeps_of` gives the sweeps of the configuration in force."""

    def __init__(
        self,
        sweeps_of: Callable[[], Sequence[SweepConfig]],
        *,
        store: Store,
        sweeps: SweepService,
        schedule: ScheduleEngine,
        board: StatusBoard,
        clock: Clock,
    ) -> None:
        self._sweeps_of = sweeps_of
        self._store = store
        self._sweeps = sweeps
        self._schedule = schedule
        self._board = board
        self._clock = clock
        self._machine_id = read_machine_id()
        self._boot_at = read_boot_at(clock.now())
        self._reruns = Reruns(sweeps, schedule.at, clock)
        self._asked_at: dict[str, datetime | None] = {}

    def arm_all(self) -> None:
        for sweep in self._sweeps_of():
            self._arm(sweep, self._occasions(sweep))

    def arm_asked(self) -> None:
        """Those for which a new occasion has come since they were armed."""
        try:
            for sweep in self._sweeps_of():
                if not sweep.after:
                    continue
                occasions = self._occasions(sweep)
                if occasions.of(sweep) != self._asked_at.get(sweep.name):
                    self._arm(sweep, occasions)
        except StoreError as error:
            log.warning("occasions_unreadable", error=error.message, hint=error.hint)

    def cancel(self, name: str) -> None:
        """The sweep is no longer configured."""
        self._schedule.cancel(f"window:{name}")
        self._schedule.cancel(call_name(name))

    def run_soon(self, sweep: SweepConfig) -> None:
        """Once, as soon as nothing else runs."""

        def run() -> None:
            self._sweeps.run(sweep.name, trigger=Trigger.START)

        self._schedule.at(f"start:{sweep.name}", self._clock.now(), run, lane=Lane.SWEEP)

    def _arm(self, sweep: SweepConfig, occasions: Occasions) -> None:
        appointment = self._appointment(sweep, occasions)
        self._asked_at[sweep.name] = occasions.of(sweep)
        self._sweeps.set_due(sweep.name, appointment.due_at)
        if appointment.starts_at is not None:
            self._schedule.at(f"window:{sweep.name}", appointment.starts_at, partial(self._run, sweep.name))
            log.info("sweep_armed", sweep=sweep.name, starts_at=appointment.starts_at.isoformat())

    def _run(self, name: str) -> None:
        sweep = next((sweep for sweep in self._sweeps_of() if sweep.name == name), None)
        if sweep is None:
            return
        # After suspend or a clock step the call can come late: the timetable is asked again.
        appointment = self._appointment(sweep, self._occasions(sweep))
        try:
            if appointment.starts_at is not None and appointment.starts_at <= self._clock.now():
                ends_at = appointment.window_ends_at
                trigger = Trigger.EVENT if sweep.after else Trigger.WINDOW
                self._sweeps.run(name, trigger=trigger, latest_start=ends_at, may_rerun=ends_at is not None)
                self._reruns.plan(name, ends_at)
        finally:
            self._arm(sweep, self._occasions(sweep))  # the run is an occasion that has been used

    def _appointment(self, sweep: SweepConfig, occasions: Occasions) -> Appointment:
        return appointment_of(
            sweep,
            self._store,
            self._clock.now(),
            machine_id=self._machine_id,
            known_since=self._board.status.started_at,
            occasions=occasions,
        )

    def _occasions(self, sweep: SweepConfig) -> Occasions:
        if not sweep.after:
            return Occasions()
        changes = [self._board.status.last_change_at]
        if Occasion.CHANGE in sweep.after:
            changes.append(self._new_inputs_at(sweep.name))
        return Occasions(
            boot_at=self._boot_at, change_at=max((at for at in changes if at is not None), default=None)
        )

    def _new_inputs_at(self, name: str) -> datetime | None:
        """Just after the last run, where the next one would begin with other inputs: when they changed nobody knows."""
        last = next(iter(self._store.sweeps(limit=1, name=name)), None)
        if last is None or self._clock.now() - last.started_at < NEW_INPUTS_EVERY:
            return None
        return last.started_at + timedelta(microseconds=1) if self._sweeps.has_new_inputs(name) else None
