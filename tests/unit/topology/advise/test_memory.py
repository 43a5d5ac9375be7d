from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.topology.advise.memory import (
    Dtype,
    Job,
    Sharding,
    Task,
    parse_parameters,
    serving_bytes_per_gpu,
    training_bytes_per_gpu,
    usable_bytes,
)

COUNTS = st.integers(1, 10**13)
SMALL = st.integers(1, 1024)
GB = 1e9


def job(parameters, dtype=Dtype.BF16, task=Task.TRAIN):
    return Job(parameters, dtype, task)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("7B", 7 * 10**9),
        ("70b", 70 * 10**9),
        ("1.5B", 1_500_000_000),
        ("350M", 350 * 10**6),
        ("1T", 10**12),
        ("42", 42),
    ],
)
def test_parameters(text, count):
    assert parse_parameters(text) == count


@pytest.mark.parametrize(
    "text", ["", "B", "8x7B", "-7B", "0", "0.0B", "7 B", "7e9", "1e999", "nan", "9999T", "7B" * 99, "\u0667B"]
)
def test_no_parameters(text):
    with pytest.raises(ValueError, match=r"parameters"):
        parse_parameters(text)


@pytest.mark.parametrize(
    ("sharding", "gigabytes"),
    # 7.5 billion parameters on 64 ranks: the figures of the ZeRO paper (figure 1).
    [(Sharding.DDP, 120), (Sharding.ZERO1, 31.4), (Sharding.ZERO2, 16.6), (Sharding.ZERO3, 1.9)],
)
def test_the_example_of_the_paper(sharding, gigabytes):
    need = training_bytes_per_gpu(job(7_500_000_000), sharding, data=64)
    assert need / GB == pytest.approx(gigabytes, abs=0.05)


def test_fp32_needs_as_much_as_mixed_precision():
    whole = [
        training_bytes_per_gpu(job(10**9, dtype), Sharding.DDP, data=1) for dtype in (Dtype.FP32, Dtype.BF16)
    ]
    assert whole == [16 * GB, 16 * GB]


@given(COUNTS, COUNTS, st.sampled_from(Sharding), SMALL, SMALL)
def test_more_parameters_never_need_less(one, other, sharding, data, split):
    few, many = sorted((one, other))
    needs = [training_bytes_per_gpu(job(count), sharding, data=data, split=split) for count in (few, many)]
    assert needs == sorted(needs)
    assert serving_bytes_per_gpu(job(few), split=split) <= serving_bytes_per_gpu(job(many), split=split)


@given(COUNTS, st.sampled_from(Sharding), SMALL, SMALL, SMALL)
def test_more_ranks_never_need_more(count, sharding, one, other, split):
    few, many = sorted((one, other))
    needs = [training_bytes_per_gpu(job(count), sharding, data=data, split=split) for data in (many, few)]
    assert needs == sorted(needs)
    needs = [training_bytes_per_gpu(job(count), sharding, data=split, split=cut) for cut in (many, few)]
    assert needs == sorted(needs)


@given(COUNTS, SMALL)
def test_each_step_of_sharding_needs_no_more_than_the_one_before(count, data):
    needs = [training_bytes_per_gpu(job(count), sharding, data=data) for sharding in Sharding]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(needs))


@given(st.integers(1, 10**12))
def test_something_is_always_kept_free(memory):
    assert 0 < usable_bytes(memory, Task.TRAIN) < usable_bytes(memory, Task.SERVE) < memory
