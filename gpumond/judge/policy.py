"""Every threshold of the judge, with where it comes from. Ratios are of a value to its baseline, sigma is relative.

engineering.md 5 is the starting point. What is different here was chosen with `bench/detection.py`, which replays years
of nights through the judge; docs/results.md has its table.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

BANDWIDTH_FROM_BYTES: Final = 63 << 20
"""Bandwidth regime, 64 MiB and more. A benchmark rounds a size down to a multiple of its ranks, hence the odd MiB."""

LATENCY_BELOW_BYTES: Final = 1 << 20
"""Latency regime; between the two regimes neither score means much, and rows are shown only."""

NIGHT: Final = timedelta(hours=6)
"""Runs that begin this soon after a night's first one belong to that night."""

RERUN_WITHIN: Final = timedelta(hours=24)
"""A run that says it is a re-run belongs to the night before it for this long."""

CONSECUTIVE_WITHIN: Final = timedelta(days=7)
"""Two valid nights further apart are not consecutive."""

FORGET_AFTER: Final = timedelta(days=28)
"""A drift that was summed up before such a gap says nothing any more."""

# Learning

PROVISIONAL_NIGHTS: Final = 5
"""From here on a baseline can show that a night was severe; before, only a model can."""
FULL_NIGHTS: Final = 14
FROZEN_NIGHTS: Final = 21
"""A rolling baseline follows a decline of 0.2 % a day and never alarms: it is frozen here."""
NOISE_NIGHTS: Final = 60
"""21 nights know the noise to 30 %, and hosts that seem quieter than they are raise most of the false alarms."""
LEVEL_SHIFT_SIGMAS_MAX: Final = 0.6
"""21 nights know the level to 0.25 sigma, and hosts whose baseline came out too high raised most of the false drifts: until
NOISE_NIGHTS it follows the mean of its nights, but not further than this, or it would follow a decline."""
NOISE_ALLOWANCE_NIGHTS: Final = 2.0
"""Noise learned over n nights is widened by this / n."""

NOISE_FLOOR: Final = 0.0025
"""Across starts at 256 MiB and more on idle H200s (captures/h200x2/MEASURED.md)."""
PROVISIONAL_SIGMA: Final = 0.02
"""Few nights, or repeats within one evening, under-state the noise from night to night."""
NOISY_SIGMA: Final = 0.02
"""Above, limits are wider: how many false alarms a host may raise is a promise."""
NOISY_WIDENING: Final = 4 / 3
TOO_NOISY_SIGMA: Final = 0.10
"""Above, no verdict: a loss of a quarter would be within the noise."""

LATENCY_NOISE_FLOOR: Final = 0.05
LATENCY_SLOWER_BY: Final = 0.20
LATENCY_NIGHTS: Final = 3
"""Small sizes differ by -28 % to +38 % between two slot layouts of one box (operators.md 1.3): only what lasts counts."""
LATENCY_Z: Final = -3.0
LATENCY_LOAD_PER_CORE: Final = 0.5
"""A busy CPU spoils small sizes only: 13 % noise at 64 MiB with every core busy, 53 % at 16 MiB (MEASURED.md)."""

# Detection

LOW_Z: Final = -4.0
"""One night below this is not called good."""
CLEARED_Z: Final = -1.0
"""A re-run of the same night at least this high shows that the host is well and the first run was disturbed."""
DISTURBED_Z: Final = 3.0
"""What is lower than such a re-run by more than this was disturbed; less is the noise between two runs."""
SUSPECT_Z: Final = -2.5
"""Worth a re-run."""
PAIR_EACH_Z: Final = -2.0
REPEATED_PAIR_EACH_Z: Final = -1.5
PAIR_Z: Final = -3.9
REPEATED_PAIR_Z: Final = -3.5
"""Two consecutive nights: (z1 + z2) / sqrt 2 must be below this, and each below PAIR_EACH_Z. Where re-runs have confirmed
both, less is enough: a night that nobody has repeated may be a disturbed one, and the next one an unlucky one."""
PAIR_AGREE_Z: Final = 2.5
"""A step looks the same on both nights, disturbed nights rarely do; where they differ more, a third night decides."""
TRIPLE_Z: Final = -2.5
CUSUM_K: Final = 0.75
CUSUM_H: Final = 5.5
CUSUM_CLIP_Z: Final = 2.0
REMEMBERED_NIGHTS: Final = 12
"""What a loss is named by: a decline of 0.2 % a day shows within 11."""
SUDDEN_NIGHTS: Final = 4
"""A step shows within so many nights."""
NAME_MARGIN: Final = 1.0
"""Squared sigmas by which a step must explain these nights better than a decline, or the other way round, to be called
so; else the rule that raised the alarm names it."""
RENAME_MARGIN: Final = 6.0
"""A step that goes on falling was a decline; asked while the alarm is open, so it must be plain."""
SEVERE_RATIO: Final = 0.91
"""Reported on the first night, as provisional. A loss of 10 % is below it in 19 of 20 nights at 1 % noise."""
SEVERE_Z: Final = -3.0
SEVERE_AGREE: Final = 0.03
"""Two severe nights whose scores differ by no more are a step also while the noise is not known yet."""
NOT_LEARNED_Z: Final = -3.0
"""A night this low is not one of the healthy ones that a baseline is refined with."""
RECOVERED_Z: Final = -2.0
RECOVERED_NIGHTS: Final = 3

# Candidates

CANDIDATE_NIGHTS: Final = (7, 14, 21)
"""Valid nights after which a candidate is decided; after the last one it waits for a person."""
ACCEPT_LOSS_MAX: Final = 0.02
ACCEPT_GOLDEN_LOSS_MAX: Final = 0.04
"""Three accepted losses of 2 % would be 6 %."""
SAME_LEVEL_SIGMAS: Final = 1.0
"""A candidate this close to its baseline leaves the level as it is: 21 nights know it better than 7."""

# Findings

MERGE_WITHIN: Final = timedelta(days=4)
"""The same kind in another collective of the scope, begun this close, is the same event."""
BLAME_BEFORE: Final = timedelta(days=3, hours=12)
"""An input that changed this long before the first low night may explain it: that night may have been a lucky one."""
KEPT_CHANGES: Final = 20
WRONG_WINDOW_RUNS: Final = 30
"""Corrupt data comes and goes (3 runs in 10 in NVIDIA/nccl#2001): a rate over this many runs, and one finding."""
WRONG_CLEAN_RUNS: Final = 14
"""Clean runs in a row that close it."""

# A host without a past

MODEL_FROM_BYTES: Final = 1 << 30
MODEL_LOSS: Final = 0.25
"""Below the link model by more is degraded. Every published measurement of these classes is within it."""

# Within one run

DIP_RATIO: Final = 0.90
"""A size this far below both neighbours, which the baseline does not show."""
FALL_RATIO: Final = 0.80
"""busbw falls this much from one size to the next and stays low: 29 to 5 GB/s above 64 MB in NVIDIA/nccl#1453."""
PLACEMENT_RATIO: Final = 0.90
"""In place against out of place; 72 x GB200 differ by 6.3 % at 1 GiB with NVLS (operators.md 1.3)."""
REPEAT_SPREAD: Final = 0.05
"""Between repeats of one size in one run; 0.1-0.4 % is normal."""
