"""Every word that can stand behind a failed or a skipped sweep: what the counters are labelled with."""

from __future__ import annotations

from typing import Final

FAILURE_REASONS: Final = (
    # of a run, from judge.verdict
    "wrong_results",
    "no_first_row",
    "row_stalled",
    "total_timeout",
    "lost",
    "not_started",
    "output_limit",
    "benchmark_error",
    "unreadable_rows",
    "no_rows",
    "truncated",
    "exit_status",
    # of a sweep that could not begin, or was cut off
    "environment",
    "gpu_set",
    "aborted",
)

SKIP_REASONS: Final = (
    # of a guard (guards.report.GuardName)
    "unkillable",
    "paused",
    "inhibited",
    "busy",
    "not_quiet",
    "slurm",
    "command",
    # of a sweep that began and had to end
    "preempted",
    "unwatched",
    "cancelled",
    # of everything else
    "locked",
    "no_snapshot",
    "disk_full",
)
