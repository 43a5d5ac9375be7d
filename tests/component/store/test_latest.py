"""What is current: each exported series once, from a run that may be believed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from history_values import (
    MIB,
    NIGHT,
    StandingClock,
    ended,
    make_point,
    make_run,
    make_sweep,
    measured,
    new_id,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumond.model.benchmark import Collective, Placement
from gpumond.model.run import Engine, GpuSet, Verdict, series_of
from gpumond.store import latest
from gpumond.store.sqlite import Store

IN_PLACE = Placement.IN_PLACE


@pytest.fixture
def measure(store):
    """`measure(*points, night=0, sweep="nightly", **run_changes)` stores one finished run and returns it."""

    def _measure(*points, night=0, sweep="nightly", **changes):
        started = make_sweep(sweep, NIGHT + timedelta(days=night))
        store.start_sweep(started)
        run = measured(make_run(started, **{k: v for k, v in changes.items() if k in RUN_FIELDS}), *points)
        run = replace(run, **{k: v for k, v in changes.items() if k not in RUN_FIELDS})
        store.finish_run(run, output=b"")
        store.finish_sweep(ended(started))
        return run

    return _measure


RUN_FIELDS = {"engine", "gpu_set", "collective", "parameters_hash"}


def keys_of(points):
    return [(p.sweep, p.engine, p.gpu_set, p.collective, p.datatype, p.size_bytes) for p in points]


def busbw_of(store):
    return [point.busbw_bytes_per_second for point in store.latest_points()]


def test_nothing_is_current_in_a_new_store(store):
    assert store.latest_points() == ()
    assert store.latest_verdicts() == ()


def test_the_newest_night_is_current_with_its_time(store, measure):
    measure(make_point(busbw=1.0), night=0)
    newest = measure(make_point(busbw=2.0), night=1)
    (point,) = store.latest_points()
    assert point.busbw_bytes_per_second == 2.0
    assert point.measured_at == newest.ended_at
    assert point.placement is Placement.OUT_OF_PLACE


def test_two_sweeps_over_three_gpu_sets_are_unique(store, measure):
    """The issue's own condition, with repeated sizes and several reductions thrown in."""
    sizes = (8, 8, 64 * MIB)
    for night in range(2):
        for sweep in ("nightly", "weekly"):
            for gpu_set in ("all", "numa0", "numa1"):
                points = [
                    make_point(size, redop=redop, placement=placement)
                    for size in sizes
                    for redop in ("sum", "max")
                    for placement in Placement
                ]
                measure(*points, night=night, sweep=sweep, gpu_set=GpuSet(gpu_set, ()))
    points = store.latest_points()
    assert len(points) == 2 * 3 * 2
    assert len(set(keys_of(points))) == len(points)
    assert len(store.latest_verdicts()) == 2 * 3


def test_out_of_place_is_current_unless_only_in_place_exists(store, measure):
    measure(
        make_point(8, busbw=1.0),
        make_point(8, busbw=2.0, placement=IN_PLACE),
        make_point(16, busbw=3.0, placement=IN_PLACE),
    )
    assert [(p.size_bytes, p.placement, p.busbw_bytes_per_second) for p in store.latest_points()] == [
        (8, "out_of_place", 1.0),
        (16, "in_place", 3.0),
    ]


def test_of_repeated_sizes_and_reductions_the_first_printed_is_current(store, measure):
    measure(
        make_point(busbw=1.0, redop="sum"),
        make_point(busbw=2.0, redop="max"),
        make_point(busbw=3.0, redop="sum"),
    )
    assert busbw_of(store) == [1.0]


def test_changed_parameters_end_the_old_series(store, measure):
    measure(make_point(8), make_point(16), night=0, parameters_hash="old")
    measure(make_point(16, busbw=5.0), night=1, parameters_hash="new")
    assert [(p.size_bytes, p.busbw_bytes_per_second) for p in store.latest_points()] == [(16, 5.0)]


def test_parameters_that_come_back_are_current_again(store, measure):
    measure(make_point(busbw=1.0), night=0, parameters_hash="old")
    measure(make_point(busbw=2.0), night=1, parameters_hash="new")
    measure(make_point(busbw=3.0), night=2, parameters_hash="old")
    assert busbw_of(store) == [3.0]


def test_changed_parameters_of_one_collective_leave_the_others_alone(store, measure):
    gathered = make_point(busbw=9.0, collective=Collective.ALL_GATHER)
    measure(gathered, night=0, parameters_hash="old", collective=Collective.ALL_GATHER)
    measure(make_point(busbw=2.0), night=1, parameters_hash="new")
    assert busbw_of(store) == [9.0, 2.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "failed"},
        {"outcome": "truncated"},
        {"outcome": ""},
        {"verdict": Verdict.NOT_EVALUATED, "reason": "tainted"},
        {"verdict": Verdict.NOT_EVALUATED, "reason": "unreadable_rows"},
    ],
)
def test_a_run_that_may_not_be_believed_changes_no_current_value(store, measure, changes):
    measure(make_point(busbw=1.0), night=0)
    measure(make_point(busbw=0.5), night=1, **changes)
    measure(make_point(busbw=0.5), night=2, parameters_hash="new", **changes)
    assert busbw_of(store) == [1.0]


def test_a_run_with_corrupt_data_is_current_so_that_its_wrong_elements_show(store, measure):
    measure(make_point(busbw=1.0), night=0)
    measure(
        make_point(busbw=0.5),
        night=1,
        outcome="wrong_results",
        verdict=Verdict.FAILED,
        reason="wrong_results",
    )
    assert busbw_of(store) == [0.5]


def test_a_running_run_changes_no_current_value(store, measure):
    measure(make_point(busbw=1.0))
    sweep = make_sweep(at=NIGHT + timedelta(days=1))
    run = make_run(sweep)
    store.start_sweep(sweep)
    store.start_run(run)
    store.add_points(run.id, [make_point(busbw=2.0)])
    assert busbw_of(store) == [1.0]


def test_a_degraded_or_learning_run_is_current_all_the_same(store, measure):
    measure(make_point(busbw=1.0), verdict=Verdict.NOT_EVALUATED, reason="learning")
    assert busbw_of(store) == [1.0]
    measure(make_point(busbw=0.5), night=1, verdict=Verdict.DEGRADED, reason="step")
    assert busbw_of(store) == [0.5]


def test_the_order_of_insertion_decides_and_not_a_clock_that_stepped(store, measure):
    measure(make_point(busbw=1.0), night=5)
    measure(make_point(busbw=2.0), night=0)
    assert busbw_of(store) == [2.0]


def test_the_same_values_come_back_after_a_restart(store, measure, directory, clock):
    measure(make_point(8), make_point(16), verdict=Verdict.DEGRADED, reason="step")
    points, verdicts, history = store.latest_points(), store.latest_verdicts(), store.sweep_history("nightly")
    store.close()
    with Store.open(directory, clock=clock) as again:
        assert again.latest_points() == points
        assert again.latest_verdicts() == verdicts
        assert again.sweep_history("nightly") == history


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One store for all examples; the names of their sweeps keep them apart."""
    with Store.open(tmp_path_factory.mktemp("store"), clock=StandingClock()) as store:
        yield store


RUNS = st.lists(
    st.tuples(
        st.sampled_from(["nightly", "weekly"]),
        st.sampled_from(["all", "numa0", "numa1"]),
        st.sampled_from([Engine.NCCL_TESTS, Engine.SIMULATED]),
        st.sampled_from(["p1", "p2"]),
        st.sampled_from(["ok", "failed"]),
        st.sampled_from(["", "tainted", "learning"]),
        st.lists(
            st.builds(
                make_point,
                st.sampled_from([8, 16]),
                st.floats(1, 9),
                datatype=st.sampled_from(["float", "half"]),
                redop=st.sampled_from(["sum", "max"]),
                placement=st.sampled_from(Placement),
            ),
            max_size=4,
        ),
    ),
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(runs=RUNS)
def test_the_query_agrees_with_the_rule_written_out(shared, runs):
    example = new_id()
    stored = []
    for sweep_name, gpu_set, engine, parameters, outcome, reason, points in runs:
        sweep = make_sweep(f"{example} {sweep_name}")
        shared.start_sweep(sweep)
        run = measured(
            make_run(sweep, gpu_set=GpuSet(gpu_set, ()), engine=engine, parameters_hash=parameters),
            *points,
            outcome=outcome,
            reason=reason,
        )
        shared.finish_run(run, output=b"")
        stored.append(run)
    found = [point for point in shared.latest_points() if point.sweep.startswith(example)]
    values = [(point.placement, point.busbw_bytes_per_second) for point in found]
    assert [(*key, *value) for key, value in zip(keys_of(found), values, strict=True)] == expected_points(
        stored
    )


def expected_points(runs):
    usable = [run for run in runs if run.outcome == "ok" and run.reason != "tainted"]
    current = {
        (run.sweep, run.engine, run.gpu_set.name, run.collective): run.parameters_hash for run in usable
    }
    best = {}
    for number, run in enumerate(usable):
        owner = (run.sweep, run.engine, run.gpu_set.name, run.collective)
        if run.parameters_hash != current[owner]:
            continue
        for position, point in enumerate(run.points):
            key = (*owner, point.datatype, point.size_bytes)
            rank = (point.placement is IN_PLACE, -number, position)
            if key not in best or rank < best[key][0]:
                best[key] = (rank, point)
    return [(*key, point.placement, point.busbw_bytes_per_second) for key, (_, point) in sorted(best.items())]


def test_the_worst_verdict_of_the_newest_sweep_counts(store, measure):
    """A sweep may measure one collective with several datatypes; a good run must not hide a bad one."""
    measure(make_point(), night=0, verdict=Verdict.FAILED, reason="wrong_results")
    sweep = make_sweep(at=NIGHT + timedelta(days=1))
    store.start_sweep(sweep)
    for verdict, reason in (
        (Verdict.OK, ""),
        (Verdict.DEGRADED, "step"),
        (Verdict.NOT_EVALUATED, "learning"),
    ):
        store.finish_run(measured(make_run(sweep), verdict=verdict, reason=reason), output=b"")
    (verdict,) = store.latest_verdicts()
    assert (verdict.verdict, verdict.reason) == (Verdict.DEGRADED, "step")


def test_not_evaluated_is_never_hidden_by_ok(store):
    sweep = make_sweep()
    store.start_sweep(sweep)
    for verdict, reason in ((Verdict.NOT_EVALUATED, "no_rows"), (Verdict.OK, "")):
        store.finish_run(measured(make_run(sweep), verdict=verdict, reason=reason), output=b"")
    assert [verdict.reason for verdict in store.latest_verdicts()] == ["no_rows"]


def test_a_running_sweep_has_no_verdict_yet(store, measure):
    measure(make_point(), verdict=Verdict.OK)
    sweep = make_sweep(at=NIGHT + timedelta(days=1))
    store.start_sweep(sweep)
    store.start_run(make_run(sweep))
    assert [verdict.verdict for verdict in store.latest_verdicts()] == [Verdict.OK]


def test_a_series_over_time_tells_usable_values_from_others(store, measure):
    runs = [
        measure(make_point(busbw=1.0), night=0),
        measure(make_point(busbw=0.5), night=1, verdict=Verdict.NOT_EVALUATED, reason="tainted"),
        measure(make_point(busbw=2.0), night=2),
    ]
    measure(make_point(busbw=9.0), night=3, parameters_hash="another series")
    key = series_of(runs[0], make_point())
    series = store.series(key)
    assert [(p.busbw_bytes_per_second, p.is_usable) for p in series] == [
        (1.0, True),
        (0.5, False),
        (2.0, True),
    ]
    assert [p.run_id for p in series] == [run.id for run in runs]
    assert store.series(key, limit=2) == series[1:]
    assert store.series(key, since=runs[2].ended_at) == series[2:]
    assert store.series(replace(key, size_bytes=1)) == ()


def test_current_values_are_found_without_reading_all_points(store):
    """270 000 points must not be visited for a few hundred values (bench/store.py has the time)."""
    plan = store._database.connection.execute(f"EXPLAIN QUERY PLAN {latest._LATEST_POINTS}").fetchall()
    steps = [row["detail"] for row in plan]
    assert not [step for step in steps if step.startswith("SCAN point")], steps
    assert any("point_by_series" in step for step in steps)
    assert any("SCAN run USING COVERING INDEX run_measured" in step for step in steps)
