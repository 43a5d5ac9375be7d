"""The committed table of bench/detection.py: it is whole, it meets the targets, and its arithmetic is right.

That the numbers still follow from the seed is what `bench/detection.py --check` says; it takes a minute.
"""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "detection.py"


@pytest.fixture(scope="module")
def bench():
    specification = importlib.util.spec_from_file_location("detection", BENCH)
    module = importlib.util.module_from_spec(specification)
    sys.modules["detection"] = module  # its dataclasses look themselves up
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(bench):
    """First cell -> the other cells, of every row with numbers."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in bench.committed_table()]
    return {first: rest for first, *rest in cells if rest and re.search(r"\d", rest[0])}


def test_every_experiment_has_a_row(bench, rows):
    assert list(rows) == [experiment.name for experiment in bench.EXPERIMENTS]


def test_false_alarms_are_rare(rows):
    years, alarms, bound, provisional = (float(cell) for cell in rows["noise 1 %"])
    assert years >= 200
    assert alarms <= bound <= 0.1
    assert provisional <= 1.5


@pytest.mark.parametrize(
    ("loss", "nights"),
    [
        ("noise 1 %: step 3 %", 2),
        ("noise 1 %: step 5 %", 2),
        ("noise 1 %: step 10 %", 2),
        ("noise 1 %: drift 0.2 % a day", 11),
        ("noise 0.25 %: step 1 %", 3),
    ],
)
def test_losses_are_seen_soon(rows, loss, nights):
    median, late = (int(cell) for cell in rows[loss][1].split(" / "))
    assert median <= late <= nights


def test_a_drop_of_a_tenth_is_provisional_on_its_first_night(rows):
    assert int(rows["noise 1 %: step 10 %"][2].rstrip("%")) >= 90


def test_a_real_loss_is_not_accepted_by_itself(rows):
    assert float(rows["update that costs 3 %"][1].rstrip("%")) <= 3.0
    assert float(rows["update that costs nothing"][1].rstrip("%")) == 100.0


@pytest.mark.parametrize(
    ("events", "exposure", "bound"), [(0, 200, 0.01498), (1, 1, 4.744), (7, 200, 0.06574)]
)
def test_the_upper_bound_is_that_of_poisson(bench, events, exposure, bound):
    assert bench.upper_bound(events, exposure) == pytest.approx(bound, rel=1e-3)


def test_one_host_lives_through_a_part_of_a_year(bench):
    host = bench.Host(bench.EXPERIMENTS[0].world, seed=1)
    nights = [night for night, _ in host.nights(60)]
    assert 28 <= len(nights) <= 60
    assert all(track.baseline for track in host.memory.tracks.values())
