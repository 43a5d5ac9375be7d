"""One sweep: the curve over sizes, the history of each size, how NCCL moved the data, how runs ended."""

from __future__ import annotations

from boards.panels import (
    HOST,
    NIGHTLY,
    POINT,
    SERIES,
    VERDICTS,
    Board,
    Query,
    bars,
    board,
    label_variable,
    lines,
    states,
    transformation,
)
from boards.queries import SCORE, SWEEP, VERDICT, expected_of

LEGEND = "{{instance}} {{gpu_set}} {{collective}}"
OF_SIZE = f"{LEGEND} {{{{size_bytes}}}} B"
OF_SWEEP = f'{HOST}, sweep=~"$sweep"'


def make() -> Board:
    verdicts = f'gpumond_collective_verdict{{{HOST}, sweep=~"$sweep"}}'
    points = (
        f'gpumond_collective_busbw_bytes_per_second{{{HOST}, sweep=~"$sweep", collective=~"$collective"}}'
    )
    made = board(
        SWEEP,
        "gpumond / Sweep",
        "One sweep: bandwidth over sizes and over nights, transport, failures.",
        since="now-30d",
        variables=[
            label_variable("sweep", "Sweep", f"gpumond_sweep_interval_seconds{{{HOST}}}"),
            label_variable("gpu_set", "GPU set", verdicts),
            label_variable("collective", "Collective", verdicts),
            label_variable("size_bytes", "Size", points),
        ],
    )
    made.row("Bandwidth")
    _bandwidth(made)
    made.row("Results")
    _results(made)
    made.row("Runs")
    _runs(made)
    return made


def _bandwidth(made: Board) -> None:
    matrix = [
        transformation(
            "groupingToMatrix", columnField="collective", rowField="size_bytes", valueField="Value"
        ),
        transformation(
            "convertFieldType",
            conversions=[{"targetField": "size_bytes\\collective", "destinationType": "number"}],
        ),
        transformation("sortBy", sort=[{"field": "size_bytes\\collective"}]),
    ]
    made.add(
        bars("Bps").transformations(matrix),
        title="busbw over sizes, now",
        says="The newest value of each exported size, in bytes. The full curve is in the history: gpumond history RUN.",
        width=10,
        height=10,
        queries=[
            Query(
                f"max by (collective, size_bytes) (gpumond_collective_busbw_bytes_per_second{{{POINT}}})",
                is_table=True,
            )
        ],
    )
    made.add(
        lines("Bps", interval=NIGHTLY),
        title="busbw, night by night",
        says="Held from one measurement to the next. With what is normal here, once that is learned, and where a number has"
        " a source: what a ring of these GPUs should reach from 1 GiB.",
        width=14,
        height=10,
        queries=[
            Query(f"gpumond_collective_busbw_bytes_per_second{{{POINT}}}", OF_SIZE),
            Query(f"gpumond_collective_busbw_baseline_bytes_per_second{{{POINT}}}", f"{OF_SIZE} baseline"),
            Query(expected_of(POINT), f"{OF_SIZE} expected"),
        ],
    )
    made.add(
        lines("s", interval=NIGHTLY),
        title="Time of one operation",
        says="What a small message costs; bandwidth says little there.",
        width=12,
        height=9,
        queries=[Query(f"gpumond_collective_time_seconds{{{POINT}}}", OF_SIZE)],
    )
    made.add(
        lines("Bps", interval=NIGHTLY),
        title="algbw, night by night",
        says="Size by time, as nccl-tests defines it.",
        width=12,
        height=9,
        queries=[Query(f"gpumond_collective_algbw_bytes_per_second{{{POINT}}}", OF_SIZE)],
    )


def _results(made: Board) -> None:
    made.add(
        states(VERDICTS, interval=NIGHTLY),
        title="Verdicts",
        says="What gpumond says about the last run of each collective.",
        width=12,
        height=8,
        queries=[Query(VERDICT, LEGEND)],
    )
    made.add(
        lines("short", interval=NIGHTLY),
        title="Wrong elements",
        says="Above 0 is data corruption, whatever the bandwidth: GpumondWrongResults fires at once.",
        width=12,
        height=8,
        queries=[Query(f"gpumond_collective_wrong_elements{{{POINT}}}", OF_SIZE)],
    )
    made.add(
        lines("short", interval=NIGHTLY),
        title="Transport",
        says="NCCL channels by transport in the last run, and when the baseline was learned. P2P that becomes SHM goes"
        " through host memory.",
        width=12,
        height=8,
        queries=[
            Query(f"gpumond_collective_transport_channels{{{SERIES}}}", f"{LEGEND} {{{{transport}}}}"),
            Query(
                f"gpumond_collective_transport_baseline_channels{{{SERIES}}}",
                f"{LEGEND} {{{{transport}}}} baseline",
            ),
        ],
    )
    made.add(
        lines("percentunit", interval=NIGHTLY, from_zero=False),
        title="Scores",
        says="The last run against the host's own past: 100 % is as normal. Nothing while that is still learned.",
        width=12,
        height=8,
        queries=[Query(SCORE, LEGEND)],
    )
    made.add(
        lines("dateTimeFromNow", interval=NIGHTLY, from_zero=False),
        title="Measured",
        says="When the newest result of each collective was measured.",
        width=24,
        height=8,
        queries=[
            Query(
                "max by (instance, gpu_set, collective)"
                f" (gpumond_collective_measured_timestamp_seconds{{{POINT}}}) * 1000",
                LEGEND,
            )
        ],
    )


def _runs(made: Board) -> None:
    for title, says, unit, metric, legend in (
        (
            "Duration",
            "How long the last sweep took.",
            "s",
            "last_run_duration_seconds",
            "{{instance}} {{sweep}}",
        ),
        (
            "Failures in a row",
            "GpumondSweepFailing fires from three on.",
            "short",
            "consecutive_failures",
            "{{instance}} {{sweep}}",
        ),
        (
            "Skips in a row",
            "Mostly because the GPUs were in use. GpumondSweepSkipped fires from three on.",
            "short",
            "consecutive_skips",
            "{{instance}} {{sweep}}",
        ),
    ):
        query = Query(f"gpumond_sweep_{metric}{{{OF_SWEEP}}}", legend)
        made.add(lines(unit, interval=NIGHTLY), title=title, says=says, width=8, height=7, queries=[query])
    for title, says, metric in (
        ("Failures by reason", "Since the history file was made.", "gpumond_sweep_failures_total"),
        ("Skips by reason", "Since the history file was made.", "gpumond_sweep_skips_total"),
    ):
        query = Query(
            f"sum by (instance, sweep, reason) ({metric}{{{OF_SWEEP}}})", "{{instance}} {{sweep}} {{reason}}"
        )
        made.add(lines("short", interval=NIGHTLY), title=title, says=says, width=8, height=7, queries=[query])
    made.add(
        lines("s"),
        title="GPUs given back",
        says="From the first sight of a user's process until nothing of the benchmark was left: 90th percentile.",
        width=8,
        height=7,
        queries=[
            Query(
                "histogram_quantile(0.9, sum by (instance, le)"
                f" (rate(gpumond_preemption_seconds_bucket{{{HOST}}}[$__rate_interval])))",
                "{{instance}}",
            )
        ],
    )
