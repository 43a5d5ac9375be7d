from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
import status as fakes

from gpumond.exporter import operation
from gpumond.exporter.family import Scrape, steady
from gpumond.model.benchmark import Placement
from gpumond.model.run import Verdict
from gpumond.model.status import SweepStatus

RESULT = ("nightly", "nccl-tests", "all", "all_reduce", "float", "2147483648")


@pytest.fixture
def status():
    return fakes.two_gpu_status()


def test_the_captured_busbw_is_exported_without_rounding(status):
    busbw = operation.per_point(lambda point: point.busbw_bytes_per_second)
    assert dict(busbw(status)) == {RESULT: 338.12e9}


def test_an_unchecked_result_has_no_wrong_elements(status):
    wrong = operation.per_point(lambda point: point.wrong_elements)
    unchecked = replace(status, points=(replace(status.points[0], wrong_elements=None),))
    assert dict(wrong(status)) == {RESULT: 0}
    assert dict(wrong(unchecked)) == {}


def test_out_of_place_wins_over_a_newer_in_place_one(status):
    point = status.points[0]
    in_place = replace(point, placement=Placement.IN_PLACE, measured_at=fakes.NOW)
    for points in ((point, in_place), (in_place, point)):
        assert operation.exported_points(replace(status, points=points)) == {RESULT: point}


def test_the_newest_wins_among_equals(status):
    point = status.points[0]
    newer = replace(point, measured_at=point.measured_at + timedelta(days=1))
    for points in ((point, newer), (newer, point)):
        assert operation.exported_points(replace(status, points=points)) == {RESULT: newer}


def test_a_size_with_corrupt_data_is_always_exported(status):
    sizes = [1 << exponent for exponent in range(3, 34)]
    points = tuple(replace(status.points[0], size_bytes=size) for size in sizes)
    assert len(operation.exported_points(replace(status, points=points))) == 6
    corrupt = replace(points[1], wrong_elements=1)
    exported = operation.exported_points(replace(status, points=(points[0], corrupt, *points[2:])))
    assert [point for point in exported.values() if point.wrong_elements] == [corrupt]


def test_a_verdict_is_a_state_set(status):
    item = replace(status.verdicts[0], verdict=Verdict.DEGRADED, reason="drift")
    samples = {
        labels[-1]: value for labels, value in operation.collective_verdict(replace(status, verdicts=(item,)))
    }
    assert samples == {"ok": False, "degraded": True, "failed": False, "not_evaluated": False}


class TestSweepThatNeverRan:
    status = replace(fakes.two_gpu_status(), sweeps=(SweepStatus("new", 86400.0, 1800.0, 10800.0),))

    @pytest.mark.parametrize(
        "number",
        [
            lambda sweep: sweep.last_run_success,
            lambda sweep: operation.timestamp_or_none(sweep.last_run_at),
            operation.last_run_duration,
            lambda sweep: operation.timestamp_or_none(sweep.due_at),
        ],
    )
    def test_has_no_last_run(self, number):
        assert not list(operation.per_sweep(number)(self.status))

    def test_has_never_succeeded(self):
        last_success = operation.per_sweep(lambda sweep: operation.timestamp_or_never(sweep.last_success_at))
        assert dict(last_success(self.status)) == {("new",): 0}

    def test_counts_from_zero(self):
        assert dict(operation.per_sweep(lambda sweep: sweep.runs)(self.status)) == {("new",): 0}


def test_counters_by_reason_keep_their_zeros(status):
    sweep = replace(status.sweeps[0], skips={"busy": 3, "locked": 0})
    assert dict(operation.per_reason(lambda sweep: sweep.skips)(replace(status, sweeps=(sweep,)))) == {
        ("nightly", "busy"): 3,
        ("nightly", "locked"): 0,
    }


def test_a_running_sweep(status):
    scrape = Scrape(status, fakes.NOW, is_complete=True)
    running = replace(status, sweeps=(replace(status.sweeps[0], running_since=fakes.NOW),))
    assert dict(operation.sweep_running(scrape)) == {("nightly",): False}
    assert not list(operation.sweep_run_start(scrape))
    scrape = replace(scrape, status=running)
    assert dict(operation.sweep_running(scrape)) == {("nightly",): True}
    assert dict(operation.sweep_run_start(scrape)) == {("nightly",): fakes.NOW.timestamp()}


def test_a_collector_that_never_worked_is_old(status):
    never = replace(status.collectors[0], is_successful=False, last_success=None)
    last_success = operation.per_collector(lambda item: operation.timestamp_or_never(item.last_success))
    assert dict(last_success(replace(status, collectors=(never,)))) == {("topology",): 0}


def test_the_exporter_is_a_collector_too(status):
    samples = dict(operation.collector_success(Scrape(status, fakes.NOW, is_complete=False)))
    assert samples == {("topology",): True, ("watch",): True, ("exporter",): False}


def test_a_heartbeat_changes_nothing_steady(status):
    later = replace(
        status,
        heartbeat_at=fakes.NOW,
        unkillable_pids=(7,),
        sweeps=(replace(status.sweeps[0], running_since=fakes.NOW),),
    )
    assert steady(later) == steady(status)
    assert steady(replace(status, is_config_current=False)) != steady(status)
