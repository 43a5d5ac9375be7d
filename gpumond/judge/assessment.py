"""What the judge says of one run: the verdict, its reason, and the numbers behind it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpumond.model.run import Verdict


class Basis(StrEnum):
    """What a verdict was measured against."""

    BASELINE = "baseline"
    MODEL = "model"
    NONE = "none"


class Reason(StrEnum):
    """Why a verdict is what it is. Words of metrics and of stored rows: they are added to, never renamed."""

    WITHIN_NOISE = "within_noise"
    RECOVERING = "recovering"
    STEP = "step"
    DRIFT = "drift"
    LATENCY = "latency"
    SEVERE = "severe"  # far below, one night
    UNCONFIRMED = "unconfirmed"  # below the noise, one night
    BELOW_MODEL = "below_model"
    TRANSPORT_CHANGE = "transport_change"
    THROTTLED = "throttled"  # low, and heat or power held the GPUs back
    WRONG_RESULTS = "wrong_results"
    LEARNING = "learning"
    DISTURBED = "disturbed"  # low, and a re-run of the same night was not
    TAINTED = "tainted"
    NO_ROWS = "no_rows"
    UNREADABLE_ROWS = "unreadable_rows"
    FEWER_ROWS = "fewer_rows"
    FEWER_RANKS = "fewer_ranks"
    NO_LARGE_SIZES = "no_large_sizes"
    TOO_NOISY = "too_noisy"
    OTHER_HOST = "other_host"


@dataclass(frozen=True, slots=True)
class Statistic:
    """The numbers behind a verdict. `z` is in units of `sigma`, the noise that was assumed; `nights` of the baseline."""

    z: float
    sigma: float
    nights: int
    cusum: float = 0.0
    vs_golden: float | None = None
    latency_score: float | None = None


@dataclass(frozen=True, slots=True)
class Assessment:
    """`reason` is a word, `detail` a sentence for people; `score` 1 means as the baseline."""

    verdict: Verdict
    reason: str
    detail: str = ""
    score: float | None = None
    basis: Basis = Basis.NONE
    statistic: Statistic | None = None
    shape: tuple[str, ...] = ()


def not_evaluated(reason: str, detail: str = "", score: float | None = None) -> Assessment:
    return Assessment(Verdict.NOT_EVALUATED, reason, detail, score)
