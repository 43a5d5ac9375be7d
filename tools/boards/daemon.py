"""gpumond itself: does it live, what does it cost, can its numbers be trusted."""

from __future__ import annotations

from boards.panels import HOST, YES_NO, Board, Query, board, cells, columns, lines, states
from boards.queries import DAEMON

OF_HOST = "{{instance}}"


def make() -> Board:
    made = board(
        DAEMON,
        "gpumond / Daemon",
        "gpumond itself: does it live, what does it cost, can its numbers be trusted.",
        since="now-24h",
    )
    made.row("Alive")
    _alive(made)
    made.row("Sources")
    _sources(made)
    made.row("Cost")
    _cost(made)
    return made


def _alive(made: Board) -> None:
    for title, says, expression, values in (
        ("Answers", "Scrapes that succeeded.", f"up{{{HOST}}}", YES_NO),
        (
            "Configuration current",
            "Whether the configuration file was valid when it was last read.",
            f"gpumond_config_last_reload_successful{{{HOST}}}",
            YES_NO,
        ),
        (
            "History writable",
            "Whether the last write to the history file succeeded.",
            f"gpumond_state_write_success{{{HOST}}}",
            YES_NO,
        ),
        (
            "Sweeps paused",
            "Whether an operator has paused all sweeps.",
            f"gpumond_paused{{{HOST}}}",
            {0: ("no", "green"), 1: ("paused", "yellow")},
        ),
    ):
        made.add(
            states(values), title=title, says=says, width=6, height=6, queries=[Query(expression, OF_HOST)]
        )
    for title, says, expression in (
        (
            "Scheduler silent for",
            "Since its last sign of life. GpumondSchedulerStuck fires from two minutes on.",
            f"gpumond_time_seconds{{{HOST}}} - gpumond_scheduler_heartbeat_timestamp_seconds{{{HOST}}}",
        ),
        (
            "Clock against Prometheus",
            "GpumondClockSkew fires from five seconds on.",
            f"gpumond_time_seconds{{{HOST}}} - timestamp(gpumond_time_seconds{{{HOST}}})",
        ),
        (
            "Running for",
            "Since the daemon was started.",
            f"gpumond_time_seconds{{{HOST}}} - on (job, instance) process_start_time_seconds{{{HOST}}}",
        ),
    ):
        query = Query(expression, OF_HOST)
        made.add(lines("s", from_zero=False), title=title, says=says, width=8, height=7, queries=[query])


def _sources(made: Board) -> None:
    made.add(
        states(YES_NO),
        title="Collectors",
        says="Whether each source of facts worked when it was last asked. exporter is the daemon itself.",
        width=8,
        height=8,
        queries=[Query(f"gpumond_collector_success{{{HOST}}}", "{{instance}} {{collector}}")],
    )
    made.add(
        lines("s"),
        title="How long a collector takes",
        says="A snapshot of 8 GPUs takes well below 2 s.",
        width=8,
        height=8,
        queries=[Query(f"gpumond_collector_duration_seconds{{{HOST}}}", "{{instance}} {{collector}}")],
    )
    made.add(
        lines("s"),
        title="How old a snapshot is",
        says="GpumondSnapshotStale fires above three intervals and a minute. None is taken while a sweep runs.",
        width=8,
        height=8,
        queries=[
            Query(
                f"gpumond_time_seconds{{{HOST}}} - on (job, instance) group_right ()"
                f" (gpumond_collector_last_success_timestamp_seconds{{{HOST}}} > 0)",
                "{{instance}} {{collector}}",
            )
        ],
    )
    made.add(
        cells().transformations(columns(instance="Host", version="gpumond", python_version="Python")),
        title="Versions",
        says="What runs where.",
        width=24,
        height=6,
        queries=[Query(f"gpumond_build_info{{{HOST}}}", is_table=True)],
    )


def _cost(made: Board) -> None:
    for title, says, unit, expression in (
        (
            "CPU",
            "Of the daemon, without its children. At rest below 0.5 % of a core.",
            "percentunit",
            f"sum by (instance) (rate(process_cpu_seconds_total{{{HOST}}}[$__rate_interval]))",
        ),
        ("Memory", "Resident. At rest below 60 MiB.", "bytes", f"process_resident_memory_bytes{{{HOST}}}"),
        ("Open files", "Of the daemon.", "short", f"process_open_fds{{{HOST}}}"),
        (
            "Processes that survive SIGKILL",
            "Children that hang in the driver. GpumondUnkillableProcess fires from one on.",
            "short",
            f"gpumond_unkillable_processes{{{HOST}}}",
        ),
        ("Scrape", "GpumondScrapeSlow fires above five seconds.", "s", f"scrape_duration_seconds{{{HOST}}}"),
        (
            "Series",
            "At most 2,500 with 8 GPUs and 12 NICs.",
            "short",
            f"scrape_samples_post_metric_relabeling{{{HOST}}}",
        ),
    ):
        made.add(lines(unit), title=title, says=says, width=8, height=7, queries=[Query(expression, OF_HOST)])
