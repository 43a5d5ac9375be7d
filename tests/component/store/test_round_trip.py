"""What goes into a real file comes out of it: every model, all values that its types allow."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from history_values import (
    NIGHT,
    StandingClock,
    ended,
    make_point,
    make_run,
    make_snapshot,
    make_sweep,
    measured,
    new_id,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumond.model.benchmark import Collective, Placement, Point
from gpumond.model.run import Cause, Engine, GpuSet, Run, Sweep, SweepOutcome, Trigger, Verdict
from gpumond.model.status import InventoryEntry
from gpumond.store.records import Counter, Request, RequestState
from gpumond.store.sqlite import Store

TEXTS = st.text(max_size=20)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 2**63 - 1)
INSTANTS = st.builds(
    lambda seconds, zone: (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).astimezone(zone),
    st.floats(0, 7e9),
    st.sampled_from([UTC, timezone(timedelta(hours=5.5))]),
)
POINTS = st.builds(
    Point,
    collective=st.sampled_from(Collective),
    datatype=TEXTS,
    redop=TEXTS,
    size_bytes=COUNTS,
    placement=st.sampled_from(Placement),
    time_seconds=FLOATS,
    algbw_bytes_per_second=FLOATS,
    busbw_bytes_per_second=FLOATS,
    wrong_elements=st.none() | COUNTS,
)
SWEEPS = st.builds(
    Sweep,
    id=st.just(""),  # given by the test: an id that hypothesis tries again is another example's
    name=TEXTS,
    trigger=st.sampled_from(Trigger),
    started_at=INSTANTS,
    planned_runs=COUNTS,
    ended_at=st.none() | INSTANTS,
    duration_seconds=st.none() | FLOATS,
    outcome=st.none() | st.sampled_from(SweepOutcome),
    reason=TEXTS,
    detail=TEXTS,
)
RUNS = st.builds(
    Run,
    id=st.just(""),
    sweep_id=st.just("the-sweep"),
    sweep=TEXTS,
    engine=st.sampled_from(Engine),
    gpu_set=st.builds(GpuSet, name=TEXTS, uuids=st.lists(TEXTS, max_size=3).map(tuple)),
    collective=st.sampled_from(Collective),
    parameters_hash=TEXTS,
    command=st.lists(TEXTS, max_size=3).map(tuple),
    environment=st.dictionaries(TEXTS, TEXTS, max_size=3),
    started_at=INSTANTS,
    pid=st.none() | COUNTS,
    start_ticks=st.none() | COUNTS,
    ended_at=INSTANTS,
    duration_seconds=st.none() | FLOATS,
    cause=st.none() | st.sampled_from(Cause),
    exit_status=st.none() | st.integers(-64, 255),
    outcome=st.sampled_from(["", "ok", "failed", "truncated", "wrong_results"]),
    verdict=st.sampled_from(Verdict),
    reason=TEXTS,
    detail=TEXTS,
    tool_version=TEXTS,
    library_version=TEXTS,
    points=st.lists(POINTS, max_size=5).map(tuple),
)


few = settings(max_examples=40, deadline=None)
"""Every example is a handful of commits that reach the disk."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One store for all examples; ids keep them apart."""
    with Store.open(tmp_path_factory.mktemp("store"), clock=StandingClock()) as store:
        store.start_sweep(make_sweep(id="the-sweep"))
        yield store


@few
@given(run=RUNS, output=st.binary(max_size=200))
def test_a_finished_run_comes_back_with_its_points_and_its_output(shared, run, output):
    run = replace(run, id=new_id())
    started = replace(run, ended_at=None, cause=None, outcome="", points=())
    shared.start_run(started)
    assert shared.run(run.id) == started
    shared.finish_run(run, output=output)
    assert shared.run(run.id) == run
    assert shared.raw_output(run.id) == output
    assert run.id not in {other.id for other in shared.open_runs()}


@few
@given(sweep=SWEEPS)
def test_a_sweep_comes_back(shared, sweep):
    sweep = replace(sweep, id=new_id())
    shared.start_sweep(sweep)
    assert shared.sweep(sweep.id) == sweep
    assert (sweep in shared.open_sweeps()) == (sweep.ended_at is None)


@few
@given(
    entries=st.lists(
        st.builds(InventoryEntry, COUNTS, TEXTS, TEXTS, TEXTS),
        max_size=4,
        unique_by=(lambda e: e.number, lambda e: e.uuid),
    )
)
def test_the_accepted_inventory_comes_back_by_number(shared, entries):
    shared.accept_inventory(entries, by="somebody", reason="a test")
    assert shared.accepted_inventory() == tuple(sorted(entries, key=lambda entry: entry.number))


@few
@given(kind=TEXTS, arguments=st.dictionaries(TEXTS, TEXTS, max_size=3), by=TEXTS, answer=TEXTS)
def test_a_request_comes_back_with_its_answer(shared, kind, arguments, by, answer):
    number = shared.add_request(kind, arguments, by=by)
    waiting = Request(number, kind, arguments, by, NIGHT)
    assert shared.request(number) == waiting
    assert shared.next_request() == replace(waiting, state=RequestState.CLAIMED)
    shared.finish_request(number, state=RequestState.DONE, answer=answer)
    assert shared.request(number) == replace(
        waiting, state=RequestState.DONE, answer=answer, finished_at=NIGHT
    )


@few
@given(
    labels=st.dictionaries(TEXTS, TEXTS, max_size=3),
    amounts=st.lists(st.integers(0, 1000), min_size=1, max_size=4),
)
def test_a_counter_adds_up(shared, labels, amounts):
    name = new_id()
    for amount in amounts:
        shared.increment(name, labels, by=amount)
    assert shared.counters(name) == (Counter(name, labels, sum(amounts)),)


def test_a_snapshot_comes_back(store):
    assert store.latest_snapshot() is None
    store.record_snapshot(make_snapshot())
    assert store.latest_snapshot() == make_snapshot()


def test_points_of_a_running_run_are_seen_and_then_replaced(store, clock, directory):
    sweep = make_sweep()
    run = make_run(sweep)
    store.start_sweep(sweep)
    store.start_run(run)
    store.set_run_process(run.id, pid=42, start_ticks=99)
    first, second = make_point(8), make_point(16)
    with Store.open(directory, clock=clock, read_only=True) as follower:
        store.add_points(run.id, [first])
        store.add_points(run.id, [second])
        seen = follower.run(run.id)
        assert seen == replace(run, pid=42, start_ticks=99, points=(first, second))
        assert follower.open_runs() == (seen,)
        done = measured(run, second, pid=42, start_ticks=99)
        store.finish_run(done, output=b"")
        assert follower.run(run.id) == done


def test_the_same_size_may_be_printed_many_times(store):
    """nccl-tests does that for every root (-r -1) and for every cycle (-N)."""
    sweep = make_sweep()
    store.start_sweep(sweep)
    run = measured(make_run(sweep), *[make_point(8, busbw=float(number)) for number in range(5)])
    store.finish_run(run, output=b"")
    assert store.run(run.id) == run


@pytest.mark.parametrize("field", ["time_seconds", "algbw_bytes_per_second", "busbw_bytes_per_second"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused_and_nothing_of_its_run_is_stored(store, field, value):
    sweep = make_sweep()
    run = make_run(sweep)
    store.start_sweep(sweep)
    store.start_run(run)
    bad = measured(run, make_point(8), make_point(16, **{field: value}))
    with pytest.raises(ValueError, match=f"{field} is {value}"):
        store.finish_run(bad, output=b"")
    assert store.run(run.id) == run


@pytest.mark.parametrize("literal", ["9e999", "-9e999", "NULL", "'12'", "x'00'"])
def test_the_file_itself_refuses_what_is_no_real(store, literal):
    """A second line behind the check in Python, on SQLite versions without STRICT too."""
    store.increment("counter", by=1)
    with pytest.raises(ValueError, match="refuses that row"), store._database.writing() as session:
        session.execute(
            f"UPDATE counter SET value = {literal}"
            if literal != "'12'"
            else "UPDATE counter SET name = x'00'"
        )
    assert store.counters() == (Counter("counter", {}, 1.0),)


def test_an_instant_without_a_zone_is_refused(store):
    with pytest.raises(ValueError, match="without a time zone"):
        store.start_sweep(make_sweep(started_at=datetime(2026, 11, 29)))  # noqa: DTZ001 - the point of the test


def test_text_that_was_no_utf_8_is_kept_readable(store):
    sweep = make_sweep()
    store.start_sweep(sweep)
    run = measured(make_run(sweep), detail=b"cannot open /x\xff".decode(errors="surrogateescape"))
    store.finish_run(run, output=b"\xff\x00")
    assert store.run(run.id).detail == "cannot open /x\\udcff"
    assert store.raw_output(run.id) == b"\xff\x00"


def test_a_run_needs_its_sweep(store):
    with pytest.raises(ValueError, match="FOREIGN KEY"):
        store.start_run(make_run(make_sweep()))


def test_points_need_their_run(store):
    with pytest.raises(ValueError, match="no run nowhere"):
        store.add_points("nowhere", [make_point()])


def test_nothing_finishes_without_an_end(store):
    sweep = make_sweep()
    store.start_sweep(sweep)
    with pytest.raises(ValueError, match="has not ended"):
        store.finish_sweep(sweep)
    with pytest.raises(ValueError, match="has not ended"):
        store.finish_run(make_run(sweep), output=b"")


def test_what_is_not_there_is_none(store):
    unknown = new_id()
    assert store.run(unknown) is None
    assert store.sweep(unknown) is None
    assert store.raw_output(unknown) is None
    assert store.request(7) is None
    assert store.accepted_inventory() == ()


def test_lists_are_newest_first_and_bounded(store):
    nights = [NIGHT + timedelta(days=day) for day in range(3)]
    for at in nights:
        for name in ("nightly", "weekly"):
            sweep = make_sweep(name, at)
            store.start_sweep(sweep)
            for collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER):
                store.finish_run(measured(make_run(sweep, collective=collective)), output=b"")
            store.finish_sweep(ended(sweep))
    newest = store.sweeps(limit=2)
    assert [sweep.name for sweep in newest] == ["weekly", "nightly"]
    assert [sweep.started_at for sweep in store.sweeps(limit=9, name="nightly")] == nights[::-1]
    assert [run.collective for run in store.runs_of_sweep(newest[0].id)] == ["all_reduce", "all_gather"]
    assert len(store.runs(limit=5)) == 5
    assert {run.sweep for run in store.runs(limit=99, sweep="weekly")} == {"weekly"}
    assert len(store.runs(limit=99, since=nights[2])) == 4
    gathered = store.runs(limit=99, sweep="weekly", collective=Collective.ALL_GATHER)
    assert [run.started_at for run in gathered] == nights[::-1]
