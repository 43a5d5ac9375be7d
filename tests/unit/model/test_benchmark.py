"""Printed numbers become base units without binary noise."""

from hypothesis import given
from hypothesis import strategies as st

from gpumond.model.benchmark import Collective, Placement, Row, Timing, busbw_factor, points_of_row


def test_a_row_becomes_a_point_for_each_placement_in_base_units():
    row = Row(
        bytes=2147483648,
        count=536870912,
        type="float",
        redop="sum",
        root=-1,
        out_of_place=Timing(time_us=6351.2, algbw_gbps=338.12, busbw_gbps=338.12, wrong=0),
        in_place=Timing(time_us=6350.0, algbw_gbps=338.19, busbw_gbps=338.19, wrong=None),
    )
    out, inside = points_of_row(row, Collective.ALL_REDUCE)
    assert out.placement is Placement.OUT_OF_PLACE
    assert out.busbw_bytes_per_second == 338120000000.0
    assert out.time_seconds == 0.0063512
    assert (out.wrong_elements, inside.wrong_elements) == (0, None)


def test_a_row_of_size_zero_and_an_absent_placement_hold_no_measurement():
    timing = Timing(1.0, 0.0, 0.0, 0)
    assert points_of_row(Row(0, 0, "float", None, None, timing, timing), Collective.ALL_GATHER) == ()
    only_out = Row(16, 4, "float", None, None, timing, None)
    assert [point.redop for point in points_of_row(only_out, Collective.ALL_GATHER)] == ["none"]


@given(st.integers(0, 10**8))
def test_hundredths_of_a_gigabyte_stay_exact(hundredths):
    timing = Timing(1.0, hundredths / 100, hundredths / 100, 0)
    row = Row(8, 2, "float", "sum", -1, timing, None)
    assert points_of_row(row, Collective.ALL_REDUCE)[0].busbw_bytes_per_second == hundredths * 10**7


def test_busbw_factors_of_eight_ranks():
    factors = {collective: busbw_factor(collective, 8) for collective in Collective}
    assert factors[Collective.ALL_REDUCE] == 1.75
    assert factors[Collective.ALL_GATHER] == factors[Collective.ALLTOALL] == 0.875
    assert factors[Collective.SENDRECV] == factors[Collective.BROADCAST] == 1.0
