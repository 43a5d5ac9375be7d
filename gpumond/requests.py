"""Obeys what commands ask of a running daemon: rows of the store's table of requests, answered one by one.

Lives on the daemon's main loop. What takes long (a snapshot, a sweep) is handed to the schedule, and answered from there.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial

from gpumond.clock import Clock
from gpumond.errors import GpumondError, NotEvaluatedError, StoreError
from gpumond.log import get_logger
from gpumond.model.run import Trigger
from gpumond.monitor.decisions import REASON, DecisionKind
from gpumond.monitor.topology import TopologyMonitor
from gpumond.schedule.engine import Lane, ScheduleEngine
from gpumond.store.records import Request, RequestState
from gpumond.store.sqlite import Store
from gpumond.sweep.baselines import BaselineAction
from gpumond.sweep.context import new_run_id
from gpumond.sweep.service import SweepService

log = get_logger("daemon")


class RequestKind(StrEnum):
    """What a command may ask of a running daemon, besides decisions about topology and baselines."""

    SWEEP = "sweep"
    PAUSE = "pause"
    RESUME = "resume"


class Requests:
    """`take_snapshot` looks at the host as it is now, unless a sweep is being measured."""

    def __init__(
        self,
        *,
        store: Store,
        sweeps: SweepService,
        monitor: TopologyMonitor,
        schedule: ScheduleEngine,
        clock: Clock,
        take_snapshot: Callable[[], None],
    ) -> None:
        self._store = store
        self._sweeps = sweeps
        self._monitor = monitor
        self._schedule = schedule
        self._clock = clock
        self._take_snapshot = take_snapshot

    def obey(self) -> None:
        """All that wait. Never raises for the store's sake: they wait on."""
        try:
            while (request := self._store.next_request()) is not None:
                answer = self._obey(request)
                if answer is not None:
                    self._answer(request, *answer)
        except StoreError as error:
            log.warning("requests_unreadable", error=error.message)

    def _answer(self, request: Request, state: RequestState, answer: str) -> None:
        self._store.finish_request(request.id, state=state, answer=answer)
        log.info("request_answered", kind=request.kind, by=request.by, state=state.value, answer=answer)

    def _obey(self, request: Request) -> tuple[RequestState, str] | None:
        """The end of a request: a sweep's id where one will run, else a sentence; None where it is answered later."""
        if request.kind in tuple(DecisionKind):
            # A snapshot comes first, and may take longer than the watchdog has patience with this loop.
            self._schedule.at(
                f"request:{request.id}", self._clock.now(), partial(self._decide, request), lane=Lane.MONITOR
            )
            return None
        match request.kind:
            case RequestKind.SWEEP:
                return self._obey_sweep(request)
            case RequestKind.PAUSE:
                reason = request.arguments.get(REASON, "")
                return RequestState.DONE, self._sweeps.pause(by=request.by, reason=reason)
            case RequestKind.RESUME:
                return RequestState.DONE, self._sweeps.resume()
            case kind if kind in tuple(BaselineAction):
                return self._decide_baseline(BaselineAction(kind), request)
            case unknown:
                return RequestState.FAILED, f"this daemon does not know {unknown!r} requests"

    def _obey_sweep(self, request: Request) -> tuple[RequestState, str]:
        name = request.arguments.get("sweep", "")
        if not self._sweeps.knows(name):
            return (
                RequestState.FAILED,
                f"the daemon has no sweep {name!r}; reload it if the configuration is newer",
            )
        if self._sweeps.is_running:
            return RequestState.FAILED, "another sweep is running"
        now = self._clock.now()
        sweep_id = new_run_id(now)

        def run() -> None:
            self._sweeps.run(name, trigger=Trigger.REQUEST, sweep_id=sweep_id)

        self._schedule.at(f"request:{request.id}", now, run, lane=Lane.SWEEP)
        return RequestState.DONE, sweep_id

    def _decide_baseline(self, action: BaselineAction, request: Request) -> tuple[RequestState, str]:
        if self._sweeps.is_measuring:
            return RequestState.FAILED, "a sweep is being measured; ask again when it has ended"
        try:
            answer = self._sweeps.decide_baseline(action, request.arguments, by=request.by)
        except NotEvaluatedError as error:
            return RequestState.FAILED, error.message
        return RequestState.DONE, answer

    def _decide(self, request: Request) -> None:
        """Obey what an operator says of the host as it is now, or, while a sweep runs, as it was before."""
        try:
            self._take_snapshot()
            answer = self._monitor.decide(
                DecisionKind(request.kind), by=request.by, reason=request.arguments.get(REASON, "")
            )
            self._answer(request, RequestState.DONE, answer)
        except GpumondError as error:
            self._answer(request, RequestState.FAILED, error.message)
