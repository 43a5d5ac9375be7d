"""How a runner asks its guards: all of them, again before each run, and the quiet as the trigger wants it."""

from __future__ import annotations

import time

from benchmark_stand_in import calls_of

from gpumond.guards.report import GuardName, GuardReport
from gpumond.model.benchmark import Collective
from gpumond.model.run import SweepOutcome, Trigger


class Says:
    """A guard that answers from a list, the last answer for ever."""

    def __init__(self, name, *answers):
        self.name = name
        self.asked = 0
        self._answers = list(answers)

    def check(self, _subject):
        self.asked += 1
        is_clear = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return GuardReport(self.name, is_clear, f"{self.name.value} says {is_clear}")


def calls(host, collective="all_reduce"):
    return len(calls_of(host.programs / f"{collective}_perf"))


def test_one_no_is_enough_and_all_of_them_are_kept(host):
    host.guards = (
        Says(GuardName.PAUSED, True),
        Says(GuardName.SLURM, False),
        Says(GuardName.COMMAND, False),
    )
    report = host.sweep()
    assert (report.sweep.outcome, report.sweep.reason) == (SweepOutcome.SKIPPED, "slurm")
    assert report.sweep.detail == "slurm says False; command says False"
    assert calls(host) == 0


def test_a_guard_is_asked_again_before_each_run(host):
    guard = Says(GuardName.COMMAND, True, False)
    host.guards = (guard,)
    report = host.sweep(Collective.ALL_REDUCE, Collective.ALL_GATHER)
    assert (report.sweep.outcome, report.sweep.reason) == (SweepOutcome.SKIPPED, "command")
    assert guard.asked == 2
    assert (calls(host), calls(host, "all_gather")) == (1, 0)
    assert host.store.latest_points() != ()  # what was measured alone stays


def test_a_person_waits_for_the_quiet(host):
    host.quiet_seconds = 1.5
    began = time.monotonic()
    assert host.sweep().sweep.outcome is SweepOutcome.SUCCESS
    assert time.monotonic() - began > 1.5


def test_the_timetable_wants_to_know_it_beforehand(host):
    host.quiet_seconds = 5.0
    report = host.sweep(trigger=Trigger.WINDOW)
    assert (report.sweep.outcome, report.sweep.reason) == (SweepOutcome.SKIPPED, "not_quiet")
    now = time.monotonic()
    for ago in range(6):
        host.quiet_log.record_snapshot(host.snapshot, at=now - ago)
    assert host.sweep(trigger=Trigger.WINDOW).sweep.outcome is SweepOutcome.SUCCESS


def test_our_own_sweep_is_no_noise_for_the_next_one(host):
    host.quiet_seconds = 3.0
    now = time.monotonic()
    for ago in range(6):
        host.quiet_log.record_snapshot(host.snapshot, at=now - ago)
    for _ in range(2):
        assert host.sweep(trigger=Trigger.WINDOW).sweep.outcome is SweepOutcome.SUCCESS
