"""What the event reasons of a watched run say."""

import pytest

from gpumond.model.watch import LoadSummary, RunWatch, event_reasons, throttling_of


@pytest.mark.parametrize(
    ("mask", "words"),
    [(0x1, "idle"), (0x24, "power cap, software thermal"), (0x1000, "0x1000"), (0x1001, "idle, 0x1000")],
)
def test_reasons_have_names_and_unknown_bits_are_kept(mask, words):
    assert event_reasons(mask) == words


@pytest.mark.parametrize(
    ("masks", "words"),
    [
        ((), ""),
        ((0x1, 0x4), ""),  # idle, and a power cap: normal under load
        ((0x4, 0x84), "GPU-1: power brake"),
        ((0x8, 0x60), "GPU-0: hardware slowdown; GPU-1: software thermal, hardware thermal"),
    ],
)
def test_throttling_is_what_heat_and_power_do(masks, words):
    gpus = tuple(LoadSummary(f"GPU-{number}", 5, event_reasons=mask) for number, mask in enumerate(masks))
    assert throttling_of(RunWatch(9, 0.1, 0.0, gpus=gpus)) == words
