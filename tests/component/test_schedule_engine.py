"""The adapter on the real scheduler thread; where the wall clock matters it is shifted under APScheduler."""

from __future__ import annotations

import re
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apscheduler.schedulers.base
import pytest
import structlog

import gpumond
from gpumond.clock import SystemClock
from gpumond.schedule.engine import Lane, ScheduleCounts, ScheduleEngine, _Interval


class ShiftedClock:
    """The system's clock with its wall time moved; APScheduler is made to read the same."""

    def __init__(self) -> None:
        self.shift = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.shift

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@pytest.fixture
def clock(monkeypatch):
    shifted = ShiftedClock()

    class Datetime(datetime):
        @classmethod
        def now(cls, tz=None):
            return shifted.now().astimezone(tz)

    monkeypatch.setattr(apscheduler.schedulers.base, "datetime", Datetime)
    return shifted


@pytest.fixture
def make_engine():
    engines = []

    def make(clock=None, **options):
        engine = ScheduleEngine(clock or SystemClock(), **options)
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.stop(lambda: None)


@pytest.fixture
def events():
    with structlog.testing.capture_logs() as captured:
        yield captured


class Calls:
    """Counts calls and lets a test wait for them."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.arrived = threading.Condition()

    def __call__(self) -> None:
        with self.arrived:
            self.threads.append(threading.current_thread().name)
            self.arrived.notify_all()

    def wait_for(self, count: int, seconds: float = 5.0) -> bool:
        with self.arrived:
            return self.arrived.wait_for(lambda: len(self.threads) >= count, seconds)


def wait_until(condition, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def soon(seconds: float = 0.05) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_every_repeats_and_at_comes_once(make_engine):
    engine, often, once = make_engine(), Calls(), Calls()
    engine.every("snapshot", 0.05, often)
    engine.at("nightly", soon(), once)
    engine.start()
    assert often.wait_for(3)
    assert once.wait_for(1)
    time.sleep(0.1)
    assert len(once.threads) == 1
    assert engine.next_call("nightly") is None
    assert engine.next_call("snapshot") is not None


def test_at_replaces_what_has_the_same_name(make_engine):
    engine, early, late = make_engine(), Calls(), Calls()
    engine.start()
    far = soon(3600)
    engine.at("nightly", soon(0.3), early)
    engine.at("nightly", far, late)
    assert engine.next_call("nightly") == far
    engine.at("nightly", soon(), late)
    assert late.wait_for(1)
    assert not early.wait_for(1, 0.4)


def test_an_instant_of_the_past_comes_at_once_however_old(make_engine):
    engine, call = make_engine(), Calls()
    engine.at("nightly", datetime(2001, 1, 1, tzinfo=UTC), call)
    engine.start()
    assert call.wait_for(1)
    assert engine.counts == ScheduleCounts()


def test_cancel_forgets(make_engine):
    engine, call = make_engine(), Calls()
    engine.start()
    engine.at("nightly", soon(0.1), call)
    engine.cancel("nightly")
    engine.cancel("nightly")
    assert not call.wait_for(1, 0.3)


def test_a_long_sweep_delays_neither_snapshots_nor_requests(make_engine):
    engine, snapshots, requests = make_engine(), Calls(), Calls()
    release, running = threading.Event(), threading.Event()

    def sweep():
        running.set()
        release.wait(10)

    engine.at("nightly", soon(0), sweep)
    engine.start()
    assert running.wait(5)
    engine.every("snapshot", 0.05, snapshots)
    engine.every("requests", 0.05, requests, lane=Lane.CONTROL)
    assert snapshots.wait_for(3)
    assert requests.wait_for(3)
    assert set(snapshots.threads).isdisjoint(requests.threads)
    assert engine.counts == ScheduleCounts()
    release.set()


def test_each_lane_is_one_thread(make_engine):
    engine, snapshots = make_engine(), Calls()
    engine.every("snapshot", 0.02, snapshots)
    engine.every("environment", 0.02, snapshots)
    engine.start()
    assert snapshots.wait_for(8)
    assert len(set(snapshots.threads)) == 1


def test_heartbeat_goes_on_while_a_snapshot_hangs(make_engine):
    engine, beat, release = make_engine(), Calls(), threading.Event()
    engine.every("snapshot", 0.05, lambda: release.wait(10))
    engine.heartbeat(beat, seconds=0.05)
    engine.start()
    assert beat.wait_for(5)
    release.set()


def test_overlaps_are_counted_each_time_and_logged_once(make_engine, events):
    engine, release = make_engine(), threading.Event()
    engine.every("snapshot", 0.05, lambda: release.wait(10))
    engine.start()
    assert wait_until(lambda: engine.counts.overlaps >= 3)
    release.set()
    assert [event["name"] for event in events if event["event"] == "call_overlapped"] == ["snapshot"]


@pytest.mark.parametrize("error", [ValueError("no such file"), SystemExit(3), KeyboardInterrupt()])
def test_whatever_a_call_raises_is_counted_and_ends_nothing(make_engine, events, error):
    told = []
    engine, calls = make_engine(on_error=lambda name, raised: told.append((name, raised))), Calls()

    def fail():
        calls()
        raise error

    engine.every("snapshot", 0.05, fail)
    engine.start()
    assert calls.wait_for(2)
    assert wait_until(lambda: engine.counts.errors >= 2)
    assert told[0] == ("snapshot", error)
    failed = next(event for event in events if event["event"] == "call_failed")
    assert failed["error"] == repr(error)
    assert "in fail" in failed["traceback"]


def test_an_error_callback_that_fails_is_logged(make_engine, events):
    def fail(*_):
        raise RuntimeError("callback")

    engine = make_engine(on_error=fail)
    engine.at("nightly", soon(0), fail)
    engine.start()
    assert wait_until(lambda: any(event["event"] == "error_callback_failed" for event in events))
    assert engine.counts.errors == 1


def test_missed_calls_are_counted_and_logged(make_engine, events):
    """Nothing of ours can be missed (grace is None); if a later version of the library thinks so, it is told."""
    engine = make_engine()
    engine._scheduler.add_job(
        Calls(),
        trigger=apscheduler.triggers.date.DateTrigger(soon(-60)),
        id="late",
        executor=Lane.MONITOR.value,
        misfire_grace_time=1,
    )
    engine.start()
    assert wait_until(lambda: engine.counts.missed == 1)
    assert events[-1]["event"] == "call_missed"


def test_stop_cancels_first_then_waits_and_starts_nothing_more(make_engine):
    engine, release, running = make_engine(), threading.Event(), threading.Event()
    order, queued = [], Calls()

    def sweep():
        running.set()
        release.wait(10)
        order.append("sweep ended")

    def cancel():
        order.append("cancel")
        release.set()

    engine.at("nightly", soon(0), sweep)
    engine.start()
    assert running.wait(5)
    engine.at("weekly", soon(0), queued)  # waits for the same thread
    time.sleep(0.1)
    engine.stop(cancel)
    assert order == ["cancel", "sweep ended"]
    assert queued.threads == []
    assert not [thread for thread in threading.enumerate() if thread.name == "APScheduler"]


def test_a_call_that_arms_the_next_while_stop_waits_does_not_deadlock(make_engine):
    """APScheduler holds its job store's lock while it waits for the running call."""
    engine, release, running = make_engine(), threading.Event(), threading.Event()

    def sweep():
        running.set()
        release.wait(10)
        time.sleep(0.1)
        engine.at("nightly", soon(60), sweep)
        engine.every("retry", 1, sweep)
        engine.cancel("nightly")
        assert engine.next_call("nightly") is None

    engine.at("nightly", soon(0), sweep)
    engine.start()
    assert running.wait(5)
    stopper = threading.Thread(target=engine.stop, args=(release.set,))
    stopper.start()
    stopper.join(5)
    assert not stopper.is_alive()
    assert engine.counts.errors == 0


def test_stop_twice_or_before_start_or_with_a_cancel_that_fails(make_engine, events):
    engine = make_engine()
    engine.start()
    calls = Calls()

    def fail():
        raise RuntimeError("cancel")

    engine.stop(fail)
    engine.stop(calls)
    assert calls.threads == []
    assert [event["event"] for event in events] == ["cancel_failed"]
    make_engine().stop(lambda: None)


def test_a_step_backwards_does_not_silence_intervals(make_engine, clock, events):
    """Without the watch an interval is silent for as long as the step (engineering.md 1.3)."""
    steps = []
    engine = make_engine(clock, on_clock_step=steps.append, clock_check_seconds=0.05)
    calls = Calls()
    engine.every("snapshot", 0.2, calls)
    engine.start()
    assert calls.wait_for(1)
    clock.shift = timedelta(hours=-1)
    seen = len(calls.threads)
    assert calls.wait_for(seen + 4)
    assert wait_until(lambda: engine.counts.clock_steps == 1)
    assert steps == [pytest.approx(-3600, abs=1)]
    assert [event["seconds"] for event in events if event["event"] == "clock_stepped"] == [
        pytest.approx(-3600, abs=1)
    ]


def test_a_step_forwards_wakes_the_scheduler_and_runs_once(make_engine, clock):
    """Without the watch it is noticed only when the wait that was computed before the step ends: an hour late."""
    engine = make_engine(clock, clock_check_seconds=0.05)
    sweep, snapshot = Calls(), Calls()
    engine.at("nightly", soon(3600), sweep)
    engine.every("snapshot", 60, snapshot)
    engine.start()
    clock.shift = timedelta(hours=2)
    assert sweep.wait_for(1)
    assert snapshot.wait_for(1)
    assert not snapshot.wait_for(2, 0.3)
    assert engine.counts == ScheduleCounts(clock_steps=1)


def test_a_clock_set_from_1970_costs_one_call_not_a_list_of_a_billion(make_engine, clock):
    clock.shift = datetime(1970, 1, 2, tzinfo=UTC) - datetime.now(UTC)
    engine, calls = make_engine(clock), Calls()
    engine.every("requests", 0.05, calls)
    engine.start()
    assert calls.wait_for(1)
    clock.shift = timedelta(0)
    seen = len(calls.threads)
    assert calls.wait_for(seen + 3)


def test_a_clock_step_callback_that_fails_does_not_end_the_watch(make_engine, clock, events):
    def fail(_):
        raise RuntimeError("callback")

    engine = make_engine(clock, on_clock_step=fail, clock_check_seconds=0.05)
    engine.start()
    time.sleep(0.1)
    clock.shift = timedelta(hours=1)
    assert wait_until(lambda: engine.counts.clock_steps == 1)
    clock.shift = timedelta(hours=2)
    assert wait_until(lambda: engine.counts.clock_steps == 2)
    assert "clock_check_failed" in {event["event"] for event in events}


def test_a_sweep_at_the_repeated_hour_comes_once(make_engine, clock):
    """05:30Z and 06:30Z are both 01:30 in New York on this night; cron would call twice."""
    clock.shift = datetime(2026, 11, 1, 5, 29, 59, 900_000, tzinfo=UTC) - datetime.now(UTC)
    engine, calls = make_engine(clock, clock_check_seconds=0.05), Calls()
    engine.at("nightly", datetime(2026, 11, 1, 5, 30, tzinfo=UTC), calls)
    engine.start()
    assert calls.wait_for(1)
    clock.shift += timedelta(hours=1)
    assert not calls.wait_for(2, 0.3)


@pytest.mark.parametrize("seconds", [0, -1.0])
def test_an_interval_has_a_length(make_engine, seconds):
    with pytest.raises(ValueError, match="interval"):
        make_engine().every("snapshot", seconds, Calls())


def test_interval_keeps_its_rhythm_and_skips_the_past():
    start = datetime(2026, 11, 29, tzinfo=UTC)
    trigger = _Interval(10)
    assert trigger.get_next_fire_time(None, start) == start + timedelta(seconds=10)
    assert trigger.get_next_fire_time(start, start) == start + timedelta(seconds=10)
    assert trigger.get_next_fire_time(start, start + timedelta(seconds=25)) == start + timedelta(seconds=30)
    assert trigger.get_next_fire_time(start, start - timedelta(hours=1)) == start + timedelta(seconds=10)


def test_the_door_is_the_only_one_and_nobody_uses_jitter():
    sources = {path: path.read_text() for path in Path(gpumond.__file__).parent.rglob("*.py")}
    assert [
        p.name for p, text in sources.items() if re.search(r"(?m)^\s*(from|import) apscheduler", text)
    ] == ["engine.py"]
    assert not [path.name for path, text in sources.items() if re.search(r"\bjitter\s*=", text)]


def test_a_stop_right_after_a_call_leaves_no_traceback(monkeypatch):
    """APScheduler takes a call off its list after it has started it; one time in three the stop came in between."""
    failures = []
    monkeypatch.setattr(threading, "excepthook", lambda failure: failures.append(failure.exc_value))
    for _ in range(30):
        engine, started = ScheduleEngine(SystemClock()), threading.Event()
        engine.at("nightly", soon(), started.set)
        engine.start()
        assert started.wait(5)
        engine.stop(lambda: None)
    assert failures == []
