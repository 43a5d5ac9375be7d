"""Histories for the judge: lines as `gpumond judge --history` reads them, and what it makes of them."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

from gpumond.judge.history import judge_history
from gpumond.model.benchmark import Collective, busbw_factor

FIRST_NIGHT = datetime(2026, 1, 1, 2, tzinfo=UTC)
HEALTHY = {64 << 20: 361.78, 256 << 20: 423.38, 512 << 20: 438.46, 1 << 30: 466.35, 2 << 30: 472.36}
"""busbw in GB/s of an HGX H100 (Azure ND H100 v5), for want of a rounder number."""
LATENCIES = {8: 14.0, 1 << 10: 15.0, 64 << 10: 28.0, 1 << 20: 52.0}
"""Microseconds."""
FINGERPRINT = {
    "driver": "580.95",
    "nccl": "2.27.3",
    "kernel": "6.8.0-45",
    "gpu_uuids": "GPU-a,GPU-b",
    "topology_hash": "t1",
}
LEARNED = 28
"""Nights that are enough for every rule."""


def make_row(size, busbw, *, collective="all_reduce", ranks=8, wrong=0):
    """One row with arithmetic that holds."""
    algbw = busbw / busbw_factor(Collective(collective), ranks)
    time_us = size / algbw / 1e3 if algbw else 0.0
    timing = {"time_us": time_us, "algbw_gbps": algbw, "busbw_gbps": busbw, "wrong": wrong}
    return {
        "bytes": size,
        "count": size // 4,
        "type": "float",
        "redop": "sum",
        "root": -1,
        "out_of_place": timing,
        "in_place": dict(timing),
    }


class Host:
    """Makes lines of one host; its noise is of its own seed, so that a history can be made twice."""

    def __init__(self, *, noise=0.002, seed=1, ranks=8):
        self.noise = noise
        self.ranks = ranks
        self.random = random.Random(seed)

    def line(
        self, night, *, factor=1.0, slower=1.0, collective="all_reduce", minutes=0, wrong_at=(), **changes
    ):
        """One run; `factor` on busbw of large sizes, `slower` on the time of small ones."""
        common = 1 + self.random.gauss(0, self.noise / 2)
        rows = [
            make_row(
                size,
                busbw * factor * common * (1 + self.random.gauss(0, self.noise)),
                collective=collective,
                ranks=self.ranks,
                wrong=1 if size in wrong_at else 0,
            )
            for size, busbw in HEALTHY.items()
        ]
        for size, time_us in LATENCIES.items():
            factor_of_busbw = busbw_factor(Collective(collective), self.ranks)
            rows.append(
                make_row(
                    size,
                    size / (time_us * slower * common) / 1e3 * factor_of_busbw,
                    collective=collective,
                    ranks=self.ranks,
                    wrong=1 if size in wrong_at else 0,
                )
            )
        at = FIRST_NIGHT + timedelta(days=night, minutes=minutes)
        return {
            "at": at.isoformat().replace("+00:00", "Z"),
            "sweep": "nightly",
            "engine": "nccl-tests",
            "gpu_set": "all",
            "collective": collective,
            "datatype": "float",
            "redop": "sum",
            "nranks": self.ranks,
            "rows": rows,
            "fingerprint": dict(FINGERPRINT),
            **changes,
        }

    def nights(self, first, last, **changes):
        """One line a night, from `first` up to `last` (not included)."""
        return [self.line(night, **changes) for night in range(first, last)]


def night_at(number):
    return (FIRST_NIGHT + timedelta(days=number)).isoformat().replace("+00:00", "Z")


def judged(lines):
    return judge_history(json.dumps(line) for line in lines)


def verdicts_of(history):
    """(verdict, reason) of every line, in order of time."""
    return [(item.assessment.verdict.value, str(item.assessment.reason)) for item in history.verdicts]


def kinds_of(history):
    return [finding.kind.value for finding in history.findings]
