"""The one door to APScheduler 3.11: when something is called, on which thread, and what became of it.

Owns the scheduler, its threads and the watch over the wall clock. Knows no window and no sweep: what should happen at
which instant is computed by `windows`, in UTC, and handed in as an instant.

Invariants, each with the measurement that asks for it (engineering.md 1):
- everything in UTC, never the library's jitter: with it the scheduler hangs for ever in a zone's repeated hour;
- a late call is made once, whatever the delay (`misfire_grace_time=None`, `coalesce=True`; the default drops a call
  that is a second late);
- sweeps have a thread of their own, and so have the short calls that answer requests: nothing waits for a benchmark
  or for a probe;
- the job store is memory. What was done is known by our own store, not by the scheduler;
- whatever a call raises, `SystemExit` included, is logged and counted and ends nothing else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.date import DateTrigger

from gpumond.clock import Clock
from gpumond.log import get_logger
from gpumond.schedule.steps import ClockReading, clock_step

HEARTBEAT_SECONDS: Final = 30.0
"""How often the scheduler shows that it lives, and how long a clock step can stay unnoticed."""

_HEARTBEAT = "heartbeat"

_log = get_logger("schedule")


class Lane(StrEnum):
    """A thread on which calls are made, one after the other."""

    CONTROL = "control"  # short calls only: heartbeat, requests, re-arming
    MONITOR = "monitor"  # snapshots: as long as a probe's deadline
    SWEEP = "sweep"  # benchmarks: minutes


@dataclass(frozen=True, slots=True)
class ScheduleCounts:
    """What went wrong since the start. An overlap is a call left out because the one before it still ran."""

    missed: int = 0
    errors: int = 0
    overlaps: int = 0
    clock_steps: int = 0


class ScheduleEngine:
    """Calls things at their time. All methods may be used from any thread, `stop` from none of the lanes.

    `on_error(name, exception)` and `on_clock_step(seconds)` are called on threads of the engine and must be short.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        on_error: Callable[[str, BaseException], None] | None = None,
        on_clock_step: Callable[[float], None] | None = None,
        clock_check_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._clock = clock
        self._on_error = on_error
        self._on_clock_step = on_clock_step
        self._clock_check_seconds = clock_check_seconds
        # Guards what follows. APScheduler holds its own lock while `shutdown` waits for a running call: a call that
        # arms the next one in that moment would wait for ever. So nobody gets past this lock once `_stopping` is set.
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._repeating: set[str] = set()
        self._overlapping: set[str] = set()
        self._counts = ScheduleCounts()
        self._last_reading: ClockReading | None = None
        self._watch = threading.Thread(target=self._watch_clock, name="gpumond-clock-watch", daemon=True)
        self._scheduler: Any = BackgroundScheduler(
            timezone=UTC,
            logger=_silent_logger(),
            jobstores={"default": MemoryJobStore()},
            executors={lane.value: ThreadPoolExecutor(max_workers=1) for lane in Lane},
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )
        self._scheduler.add_listener(
            self._listen, EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES | EVENT_JOB_EXECUTED
        )

    @property
    def counts(self) -> ScheduleCounts:
        with self._lock:
            return self._counts

    def every(
        self, name: str, seconds: float, call: Callable[[], None], *, lane: Lane = Lane.MONITOR
    ) -> None:
        """Call `call` each `seconds`, for the first time one interval from now. Replaces what has the same name."""
        if seconds <= 0:
            raise ValueError(f"an interval of {seconds} s for {name}")
        with self._lock:
            self._repeating.add(name)
            self._add(name, _Interval(seconds), call, lane)

    def heartbeat(self, call: Callable[[], None], seconds: float = HEARTBEAT_SECONDS) -> None:
        """Call `call` as long as the scheduler works."""
        self.every(_HEARTBEAT, seconds, call, lane=Lane.CONTROL)

    def at(self, name: str, instant: datetime, call: Callable[[], None], *, lane: Lane = Lane.SWEEP) -> None:
        """Call `call` once at `instant`, at once where that is past. Replaces what has the same name.

        After suspend or a clock step this can be late without bound: the call asks the window again.
        """
        with self._lock:
            self._repeating.discard(name)
            self._add(name, DateTrigger(instant.astimezone(UTC)), call, lane)

    def cancel(self, name: str) -> None:
        """Forget what has this name; what runs already goes on."""
        with self._lock:
            self._repeating.discard(name)
            if not self._stopping.is_set():
                self._remove(name)

    def next_call(self, name: str) -> datetime | None:
        """When `name` is due next; None where nothing has this name or nothing is started."""
        with self._lock:
            if self._stopping.is_set():
                return None
            job = self._scheduler.get_job(name)
            due: datetime | None = getattr(job, "next_run_time", None)
            return due

    def start(self) -> None:
        """Begin to call. What was added before counts its interval from here."""
        self._last_reading = self._read_clock()
        self._scheduler.start()
        self._watch.start()

    def stop(self, cancel: Callable[[], None]) -> None:
        """Return when no call runs any more. `cancel` ends the running one: only that makes its thread come back.

        The order is: nothing new starts, `cancel`, wait. Not for a signal handler, which must only set a flag: the
        wait blocks until the running call has ended (measured: > 12 s).
        """
        with self._lock:
            if self._stopping.is_set():
                return
            self._stopping.set()
            is_running = self._scheduler.running
            if is_running:
                self._scheduler.pause()
        try:
            cancel()
        except Exception:  # noqa: BLE001 - the threads must be joined all the same
            _log.error("cancel_failed", exc_info=True)
        if is_running:
            # `shutdown` declares the scheduler stopped without asking whether its thread is just taking a call off the
            # list, which then fails with a traceback (seen once in 6,000 tests). To be listed, calls wait for that thread.
            self._scheduler.get_jobs()
            self._scheduler.shutdown(wait=True)
            self._watch.join()

    def check_clock(self) -> float | None:
        """Look whether the wall clock stepped since the last look; re-arm and tell where it did.

        A step forwards leaves the scheduler asleep until its old wait ends, a step backwards leaves every interval
        silent for as long as the step (measured). Re-arming ends both.
        """
        reading = self._read_clock()
        before, self._last_reading = self._last_reading, reading
        step = clock_step(before, reading) if before is not None else None
        if step is None:
            return None
        _log.warning("clock_stepped", seconds=round(step, 3))
        self._count(clock_steps=1)
        self._rearm_intervals(reading.wall)
        if self._on_clock_step is not None:
            self._on_clock_step(step)
        return step

    def _add(self, name: str, trigger: BaseTrigger, call: Callable[[], None], lane: Lane) -> None:
        if self._stopping.is_set():
            return
        self._scheduler.add_job(
            self._call_unless_stopping,
            args=(call,),
            trigger=trigger,
            id=name,
            name=name,
            executor=lane.value,
            replace_existing=True,
        )

    def _remove(self, name: str) -> None:
        try:
            self._scheduler.remove_job(name)
        except JobLookupError:
            return

    def _call_unless_stopping(self, call: Callable[[], None]) -> None:
        # A call can wait in its lane's queue while `stop` runs; the pool would still make it.
        if not self._stopping.is_set():
            call()

    def _rearm_intervals(self, now: datetime) -> None:
        with self._lock:
            if self._stopping.is_set() or not self._scheduler.running:
                return
            for name in self._repeating:
                self._scheduler.modify_job(name, next_run_time=now)
            self._scheduler.wakeup()

    def _watch_clock(self) -> None:
        """A thread of its own, on monotonic time: the scheduler's own waits are computed from the wall clock."""
        while not self._stopping.wait(self._clock_check_seconds):
            try:
                self.check_clock()
            except Exception:  # noqa: BLE001 - a callback that fails must not end the watch
                _log.error("clock_check_failed", exc_info=True)

    def _read_clock(self) -> ClockReading:
        return ClockReading(self._clock.now(), self._clock.monotonic())

    def _listen(self, event: Any) -> None:
        """On a thread of APScheduler, for each event of `add_listener`'s mask."""
        name = event.job_id
        if event.code == EVENT_JOB_MAX_INSTANCES:
            self._count(overlaps=1)
            with self._lock:
                is_first = name not in self._overlapping
                self._overlapping.add(name)
            if is_first:  # a call each second behind one that hangs would fill the log
                _log.warning("call_overlapped", name=name)
            return
        with self._lock:
            self._overlapping.discard(name)
        if event.code == EVENT_JOB_MISSED:
            self._count(missed=1)
            _log.warning("call_missed", name=name, due=str(event.scheduled_run_time))
        elif event.code == EVENT_JOB_ERROR:
            self._count(errors=1)
            _log.error("call_failed", name=name, error=repr(event.exception), traceback=event.traceback)
            self._tell_error(name, event.exception)

    def _tell_error(self, name: str, error: BaseException) -> None:
        if self._on_error is None:
            return
        try:
            self._on_error(name, error)
        except Exception:  # noqa: BLE001 - APScheduler would swallow it unseen
            _log.error("error_callback_failed", name=name, exc_info=True)

    def _count(self, *, missed: int = 0, errors: int = 0, overlaps: int = 0, clock_steps: int = 0) -> None:
        with self._lock:
            counts = self._counts
            self._counts = ScheduleCounts(
                missed=counts.missed + missed,
                errors=counts.errors + errors,
                overlaps=counts.overlaps + overlaps,
                clock_steps=counts.clock_steps + clock_steps,
            )


class _Interval(BaseTrigger):  # type: ignore[misc]  # APScheduler has no types
    """Every n seconds, without a past.

    The library's own IntervalTrigger is asked for each interval between the last call and now, one by one, and
    collects them in a list before it coalesces: a host whose clock starts in 1970 and is then set would build a list
    of 1.8e9 entries for a call each second.
    """

    def __init__(self, seconds: float) -> None:
        self._interval = timedelta(seconds=seconds)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        if previous_fire_time is None:
            return now + self._interval
        behind = max(now - previous_fire_time, timedelta(0))
        return previous_fire_time + self._interval * (behind // self._interval + 1)


def _silent_logger() -> logging.Logger:
    """For APScheduler, which logs each call and repeats what the listener tells."""
    silent = logging.getLogger("apscheduler")
    silent.setLevel(logging.CRITICAL + 1)
    return silent
