"""What is allowed and yet probably not meant."""

from __future__ import annotations

import pytest

from gpumond.config.advice import advise
from gpumond.config.load import parse

SWEEP = '[[sweep]]\nname = "a"\n'


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (SWEEP, []),
        ("", ["no [[sweep]]: nothing will ever be measured"]),
        (SWEEP + "check = false", ["sweep a: check is false"]),
        (SWEEP + "iterations = 4", ["sweep a: with fewer than 5 iterations"]),
        (SWEEP + 'min_size = 8\nmax_size = "128MiB"', ["sweep a: max_size is below 256MiB"]),
        (SWEEP + "run_at_start = true", ["sweep a: run_at_start measures at every start"]),
        (SWEEP + "[gpu_sets]\nn = { numa_node = 0 }", ["gpu_sets.n: no sweep uses it"]),
        (SWEEP + 'gpu_sets = ["n"]\n[gpu_sets]\nn = { numa_node = 0 }', []),
        (
            SWEEP + '[snapshot]\ndeadline = "2m"',
            ["snapshot.deadline (2m) is longer than snapshot.interval (1m)"],
        ),
        (SWEEP + '[simulate]\nscenario = "x"', ["simulate.scenario: everything shown is made up (x)"]),
    ],
)
def test_advice(text, sentences):
    said = advise(parse(text, name="test"))
    assert len(said) == len(sentences)
    assert all(sentence in each for sentence, each in zip(sentences, said, strict=True))
