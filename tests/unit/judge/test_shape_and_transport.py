"""What looks odd within one run, and when a transport has changed: tables."""

import pytest

from gpumond.judge.observation import implied_ranks, measured_of
from gpumond.judge.shape import shape_of
from gpumond.judge.transport import TransportChange, transport_change
from gpumond.model.benchmark import Collective, Placement, Point

MIB = 1 << 20


def point(size, gbps, *, placement=Placement.OUT_OF_PLACE, algbw=None, seconds=1e-3, wrong=0):
    return Point(
        collective=Collective.ALL_REDUCE,
        datatype="float",
        redop="sum",
        size_bytes=size,
        placement=placement,
        time_seconds=seconds,
        algbw_bytes_per_second=(algbw if algbw is not None else gbps) * 1e9,
        busbw_bytes_per_second=gbps * 1e9,
        wrong_elements=wrong,
    )


def curve(*values, first=64 * MIB):
    return [point(first << number, gbps) for number, gbps in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ((300, 350, 400, 420), 0),
        ((300, 350, 300, 420), 1),  # below both neighbours
        ((300, 350, 330, 420), 0),  # 6 %: an algorithm may change
        ((35, 29, 5, 5), 1),  # NVIDIA/nccl#1453: falls and stays low
        ((740, 741, 839, 846), 0),  # B200 steps up between 4 and 8 GiB
    ],
)
def test_dips(values, count):
    assert len(shape_of(curve(*values))) == count


def test_a_fall_that_the_baseline_has_is_no_dip():
    points = curve(300, 350, 270, 420)
    assert shape_of(points)
    assert not shape_of(points, {64 * MIB: 300.0, 128 * MIB: 351.0, 256 * MIB: 272.0, 512 * MIB: 420.0})


def test_small_sizes_have_no_dips():
    assert not shape_of(curve(3, 1, 5, first=8))


def test_placements_and_repeats_that_differ():
    inside = point(64 * MIB, 200, placement=Placement.IN_PLACE)
    assert "in place" in shape_of([point(64 * MIB, 300), inside])[0]
    assert "repeats" in shape_of([point(64 * MIB, 300), point(64 * MIB, 270)])[0]
    assert shape_of([]) == ()


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("", "SHM", TransportChange.NONE),
        ("P2P", "", TransportChange.NONE),
        ("P2P/CUMEM:24", "P2P/IPC:16", TransportChange.NONE),
        ("P2P", "SHM", TransportChange.SLOWER),
        ("P2P", "P2P SHM", TransportChange.SLOWER),
        ('{"P2P": 24}', '{"NET/Socket": 2}', TransportChange.SLOWER),
        ("NVLS P2P", "P2P", TransportChange.SLOWER),
        ("SHM", "P2P", TransportChange.FASTER),
        ("P2P", "NVLS P2P", TransportChange.FASTER),
        ("NVLS P2P", "P2P SHM", TransportChange.SLOWER),
        ("NVLS", "ring", TransportChange.OTHER),
        ("ring", "tree", TransportChange.OTHER),
    ],
)
def test_transports(before, after, change):
    assert transport_change(before, after) is change


@pytest.mark.parametrize(
    ("collective", "busbw", "algbw", "ranks"),
    [
        ("all_reduce", 175.0, 100.0, 8),
        ("all_reduce", 100.0, 100.0, 2),
        ("all_gather", 87.5, 100.0, 8),
        ("alltoall", 50.0, 100.0, 2),
        ("broadcast", 100.0, 100.0, None),
        ("all_reduce", 190.0, 100.0, 20),
        ("all_reduce", 162.0, 100.0, None),  # between 5 and 6 ranks
        ("all_reduce", 250.0, 100.0, None),
        ("all_reduce", 0.0, 100.0, None),
        ("unheard_of", 175.0, 100.0, None),
    ],
)
def test_ranks_that_the_numbers_imply(collective, busbw, algbw, ranks):
    assert implied_ranks([point(1 << 30, busbw, algbw=algbw)], collective) == ranks


def test_out_of_place_counts_where_both_were_timed():
    both = [point(64 * MIB, 250, placement=Placement.IN_PLACE), point(64 * MIB, 300)]
    assert measured_of(both, "all_reduce").busbw == {64 * MIB: 300e9}
    assert measured_of(both[:1], "all_reduce").busbw == {64 * MIB: 250e9}


def test_wrong_elements_of_any_placement_count():
    points = [point(8, 0.0, wrong=3), point(64 * MIB, 300, placement=Placement.IN_PLACE, wrong=1)]
    assert measured_of(points, "all_reduce").wrong_sizes == (8, 64 * MIB)
