"""Four sizes a curve, the largest always among them."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from gpumond.model.benchmark import Collective, Placement
from gpumond.model.run import Engine
from gpumond.model.status import LatestPoint
from gpumond.sweep.selection import EXPORTED_SIZES_MAX, select_points


def point(size, *, collective=Collective.ALL_REDUCE, gpu_set="all", sweep="nightly"):
    return LatestPoint(
        sweep=sweep,
        engine=Engine.NCCL_TESTS,
        gpu_set=gpu_set,
        collective=collective,
        datatype="float",
        size_bytes=size,
        placement=Placement.OUT_OF_PLACE,
        measured_at=datetime(2026, 11, 29, 2, tzinfo=UTC),
        time_seconds=1.0,
        algbw_bytes_per_second=1.0,
        busbw_bytes_per_second=1.0,
        wrong_elements=0,
    )


def sizes(points):
    return [selected.size_bytes for selected in points]


def test_a_full_sweep_shows_latency_knee_bandwidth_and_the_largest_size():
    full = [point(8 << power) for power in range(29)]
    assert sizes(select_points(full)) == [64 << 10, 1 << 20, 128 << 20, 2 << 30]


def test_a_sweep_of_large_sizes_shows_its_largest_ones():
    nightly = [point(size << 20) for size in (64, 128, 256, 512, 1024, 2048)]
    assert sizes(select_points(nightly)) == [128 << 20, 512 << 20, 1 << 30, 2 << 30]


def test_curves_do_not_take_places_from_each_other():
    both = [
        point(1 << power, collective=collective)
        for collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER)
        for power in (26, 27, 28)
    ]
    assert len(select_points(both)) == 6


@given(st.sets(st.integers(1, 1 << 36)), st.randoms())
def test_never_more_than_allowed_never_invented_and_in_order(chosen, random):
    points = [point(size) for size in chosen]
    random.shuffle(points)
    selected = sizes(select_points(points))
    assert len(selected) == min(len(chosen), EXPORTED_SIZES_MAX)
    assert set(selected) <= chosen
    assert selected == sorted(selected)
    assert not chosen or selected[-1] == max(chosen)
