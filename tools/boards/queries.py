"""Names of the dashboards, and expressions that more than one of them shows."""

from __future__ import annotations

from boards.panels import HOST, SERIES

FLEET, HOST_BOARD, SWEEP, DAEMON = "gpumond-fleet", "gpumond-host", "gpumond-sweep", "gpumond-daemon"
"""Identifiers in addresses: links and bookmarks of people build on them."""

LARGE = 'size_bytes=~"[0-9]{9,}"'
"""From 100 MB: below, start-up noise is larger than any fault (the same in the rule GpumondFleetOutlier)."""

RATIO_STEPS = ((None, "red"), (0.9, "yellow"), (0.95, "green"))
"""0.95 is the threshold of GpumondFleetOutlier."""

_EQUALS = "gpu_model, gpu_count, sweep, engine, gpu_set, collective, datatype, size_bytes"
_BUSBW = (
    f"(gpumond_collective_busbw_bytes_per_second{{{HOST}, {LARGE}}}"
    " * on (job, instance) group_left (gpu_model, gpu_count)"
    f" max by (job, instance, gpu_model, gpu_count) (gpumond_node_info{{{HOST}}}))"
)

AGAINST_EQUALS = (
    f"min by (instance) ({_BUSBW} / on ({_EQUALS}) group_left () quantile by ({_EQUALS}) (0.5, {_BUSBW}))"
)
"""The worst share of the median of hosts with the same GPUs and sweep, a host."""

SCORE = f"gpumond_collective_score_ratio{{{SERIES}}}"
"""The last run against the host's own past; nothing while that is still learned."""

_VERDICT = f"gpumond_collective_verdict{{{SERIES}, verdict="
VERDICT = (
    "max by (instance, sweep, gpu_set, collective) ("
    f'{_VERDICT}"failed"}} * 3 or {_VERDICT}"degraded"}} * 2 or {_VERDICT}"not_evaluated"}})'
)
"""As panels.VERDICTS counts them: 0 ok, 1 not evaluated, 2 degraded, 3 failed."""


def expected_of(point: str) -> str:
    """What a ring should reach where busbw is shown."""
    return f'gpumond_collective_busbw_expected_bytes_per_second{{{point}, basis="model"}}'
