"""The rounds of bench/gpu/pairs.py: every pair once, and no GPU twice in a round."""

import importlib.util
import sys
from itertools import combinations
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "bench/gpu/pairs.py"


@pytest.fixture(scope="module")
def pairs():
    spec = importlib.util.spec_from_file_location("bench_gpu_pairs", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("gpus", "rounds"), [(2, 1), (3, 3), (4, 3), (7, 7), (8, 7), (16, 15)])
def test_every_pair_once_and_no_gpu_twice_at_once(pairs, gpus, rounds):
    found = pairs.rounds_of(gpus)
    assert len(found) == rounds
    assert sorted(pair for chosen in found for pair in chosen) == list(combinations(range(gpus), 2))
    for chosen in found:
        used = [number for pair in chosen for number in pair]
        assert len(used) == len(set(used))
