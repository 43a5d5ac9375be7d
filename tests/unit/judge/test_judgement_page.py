"""docs/judgement.md: it knows every reason and every kind of finding, and its example is what the judge says."""

import re
from pathlib import Path

import pytest
from nightly_history import FINGERPRINT, LEARNED, Host, judged, night_at

from gpumond.cli.judge import _text
from gpumond.judge import policy
from gpumond.judge.assessment import Reason
from gpumond.model.finding import FindingKind

PAGE = (Path(__file__).parents[3] / "docs" / "judgement.md").read_text(encoding="utf-8")
OF_OTHERS = {FindingKind.HANG, FindingKind.P2P_PATH}
"""Not of the judge: the sweep finds them out by itself."""


def test_every_reason_is_explained():
    explained = set(re.findall(r"^\| `\w+` \| `(\w+)` \|", PAGE, flags=re.MULTILINE))
    assert explained == {reason.value for reason in Reason}


def test_every_kind_is_explained():
    explained = set(re.findall(r"^\| `(\w+)` \| (?:info|warning|critical)", PAGE, flags=re.MULTILINE))
    assert explained == {kind.value for kind in set(FindingKind) - OF_OTHERS}


def test_the_example_is_what_the_judge_says():
    host = Host(noise=0.0025, seed=5)
    upgraded = {"factor": 0.94, "fingerprint": {**FINGERPRINT, "nccl": "2.28.9"}}
    lines = host.nights(0, LEARNED)
    lines += [host.line(28, **upgraded), host.line(28, minutes=12, rerun_of=night_at(28), **upgraded)]
    lines += host.nights(29, 36, **upgraded)
    said = list(_text(judged(lines)))
    (example,) = re.findall(r"```\n(.*?)```", PAGE, flags=re.DOTALL)
    printed = [line for line in example.splitlines() if line]
    assert [line for line in said if line in printed] == printed


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("within six hours", policy.NIGHT.total_seconds() == 6 * 3600),
        ("from 64 MiB on", policy.BANDWIDTH_FROM_BYTES <= 64 << 20),
        ("0.25 % at least", policy.NOISE_FLOOR == 0.0025),
        ("four sigmas low", policy.LOW_Z == -4),
        ("below 91 %", policy.SEVERE_RATIO == 0.91),
        ("three good nights", policy.RECOVERED_NIGHTS == 3),
        (
            "each 2 sigmas low or more (1.5 where",
            (policy.PAIR_EACH_Z, policy.REPEATED_PAIR_EACH_Z) == (-2, -1.5),
        ),
        ("together 3.9 (3.5)", (policy.PAIR_Z, policy.REPEATED_PAIR_Z) == (-3.9, -3.5)),
        ("beyond 0.75 sigmas a night add up to 5.5", (policy.CUSUM_K, policy.CUSUM_H) == (0.75, 5.5)),
        ("by 0.6 sigmas at most", policy.LEVEL_SHIFT_SIGMAS_MAX == 0.6),
        ("within a week", policy.CONSECUTIVE_WITHIN.days == 7),
        ("last 30 runs", policy.WRONG_WINDOW_RUNS == 30),
        ("14 clean runs", policy.WRONG_CLEAN_RUNS == 14),
        ("within four days", policy.MERGE_WITHIN.days == 4),
        ("After 7 (else 14, else 21)", policy.CANDIDATE_NIGHTS == (7, 14, 21)),
        ("lost more than 2 %", policy.ACCEPT_LOSS_MAX == 0.02),
        ("4 % below the best level", policy.ACCEPT_GOLDEN_LOSS_MAX == 0.04),
        ("from the 14th on", policy.FULL_NIGHTS == 14),
        ("21st it is frozen", policy.FROZEN_NIGHTS == 21),
        ("Until the 60th", policy.NOISE_NIGHTS == 60),
        ("2 % are assumed", policy.PROVISIONAL_SIGMA == 0.02),
        ("a load above 0.5 a core", policy.LATENCY_LOAD_PER_CORE == 0.5),
        ("varies by more than 10 %", policy.TOO_NOISY_SIGMA == 0.10),
        ("a quarter below", policy.MODEL_LOSS == 0.25),
        ("a fifth slower for three nights", (policy.LATENCY_SLOWER_BY, policy.LATENCY_NIGHTS) == (0.20, 3)),
    ],
)
def test_its_numbers_are_those_of_the_policy(words, value):
    assert words in " ".join(PAGE.split())
    assert value, words
