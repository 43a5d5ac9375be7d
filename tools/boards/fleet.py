"""All hosts: which one to look at."""

from __future__ import annotations

from boards.panels import (
    HOST,
    NIGHTLY,
    NONE_IS_GOOD,
    Board,
    Query,
    board,
    cells,
    columns,
    lines,
    link_to,
    nights,
    number,
    properties,
    row_link,
    transformation,
)
from boards.queries import AGAINST_EQUALS, FLEET, HOST_BOARD, RATIO_STEPS

TO_HOST = row_link(HOST_BOARD, "This host", instance="Host")
SOME_ARE_SUSPECT = ((None, "green"), (1, "yellow"))
GRACE = f"gpumond_sweep_overdue_grace_seconds{{{HOST}}}"
BAD = 'level=~"warning|critical"'

NUMBERS = (
    ("Hosts that answer", "Hosts whose last scrape succeeded.", f"count(up{{{HOST}}} == 1)", ()),
    ("GPUs", "GPUs that answer the driver.", f"sum(gpumond_gpus{{{HOST}}})", ()),
    (
        "GPUs missing",
        "Accepted GPUs that do not answer.",
        f"count(gpumond_gpu_present{{{HOST}}} == 0) or vector(0)",
        NONE_IS_GOOD,
    ),
    (
        "Hosts with wrong results",
        "Hosts on which a collective returned wrong data when it was last measured.",
        f"count(count by (instance) (gpumond_collective_wrong_elements{{{HOST}}} > 0)) or vector(0)",
        NONE_IS_GOOD,
    ),
    (
        "Hosts with findings",
        "Hosts with an open finding of level warning or critical.",
        f"count(count by (instance) (gpumond_finding{{{HOST}, {BAD}}} > 0)) or vector(0)",
        NONE_IS_GOOD,
    ),
    (
        "Hosts unlike accepted",
        "Hosts that differ from the state that somebody accepted.",
        f"count(gpumond_topology_matches_accepted{{{HOST}}} == 0) or vector(0)",
        SOME_ARE_SUSPECT,
    ),
    (
        "Sweeps overdue",
        "Sweeps that should have succeeded by now, beyond their grace.",
        f"count(time() - gpumond_sweep_due_timestamp_seconds{{{HOST}}} - {GRACE} > 0) or vector(0)",
        SOME_ARE_SUSPECT,
    ),
    (
        "Simulated hosts",
        "Hosts whose GPUs are made up. No rule fires on them.",
        f"sum(gpumond_simulated{{{HOST}}})",
        (),
    ),
)

NONE_EVER = f"sum by (instance) (gpumond_simulated{{{HOST}}}) * 0"
"""A host on which no kind of difference has ever been open has no series of it."""

WORST_SCORE = f"min by (instance) (gpumond_collective_score_ratio{{{HOST}}})"

COLUMNS = (
    ("Worst score", WORST_SCORE),
    ("Worst against equals", AGAINST_EQUALS),
    ("GPUs present", f"sum by (instance) (gpumond_gpu_present{{{HOST}}})"),
    ("Findings", f"sum by (instance) (gpumond_finding{{{HOST}, {BAD}}})"),
    (
        "Differences",
        f"sum by (instance) (gpumond_topology_open_changes{{{HOST}}}) or {NONE_EVER}",
    ),
    ("Failures in a row", f"max by (instance) (gpumond_sweep_consecutive_failures{{{HOST}}})"),
    (
        "Last success",
        f"max by (instance) (gpumond_sweep_last_success_timestamp_seconds{{{HOST}}} > 0) * 1000",
    ),
)

VERSIONS = (
    ("Drivers", "Hosts by driver version.", "driver_version", "gpumond_node_info"),
    ("gpumond", "Hosts by version of gpumond.", "version", "gpumond_build_info"),
    ("Topology", "Hosts by what connects their GPUs.", "class", "gpumond_topology_class_info"),
)


def make() -> Board:
    made = board(FLEET, "gpumond / Fleet", "All GPU hosts: which one to look at.", since="now-30d")
    made.row("Now")
    for title, says, expression, colors in NUMBERS:
        made.add(
            number("short", *colors),
            title=title,
            says=says,
            width=3,
            height=4,
            queries=[Query(expression, title)],
        )
    made.row("Hosts")
    _hosts(made)
    _nights(made)
    made.row("What is open")
    _open(made)
    made.row("Versions")
    for title, says, label, metric in VERSIONS:
        query = Query(f"count by ({label}) ({metric}{{{HOST}}})", f"{{{{{label}}}}}")
        made.add(lines("short", interval=NIGHTLY), title=title, says=says, width=8, height=7, queries=[query])
    return made


def _hosts(made: Board) -> None:
    node = f"max by (instance, gpu_model, gpu_count, driver_version) (gpumond_node_info{{{HOST}}})"
    shown = {f"Value_{letter}": title for letter, (title, _) in zip("BCDEFGH", COLUMNS, strict=True)}
    panel = (
        cells()
        .transformations(
            [
                transformation("merge"),
                *columns(
                    instance="Host", gpu_model="Model", gpu_count="GPUs", **shown, driver_version="Driver"
                ),
            ]
        )
        .override_by_name("Host", properties(links=TO_HOST))
        .override_by_name("Worst score", properties(unit="percentunit", decimals=1))
        .override_by_name("Worst against equals", properties(unit="percentunit", decimals=1))
        .override_by_name("Last success", properties(unit="dateTimeFromNow"))
    )
    made.add(
        panel,
        title="Hosts",
        says="A row a host, with what is wrong on it. Worst score: the collective that is furthest below the host's own past,"
        " empty while that is still learned. Worst against equals: the collective (from 100 MB) that is furthest"
        " below the median of the hosts with the same GPUs and sweep.",
        width=24,
        height=10,
        queries=[Query(expression, is_table=True) for expression in (node, *(each for _, each in COLUMNS))],
    )


def _nights(made: Board) -> None:
    for title, says, expression in (
        (
            "Worst score, host by night",
            "how far below the host's own past, as gpumond has judged it. Empty while that is still learned.",
            WORST_SCORE,
        ),
        (
            "Worst busbw against equals, host by night",
            "(from 100 MB) how far below the median of hosts with the same GPUs and sweep. GpumondFleetOutlier: 95 %.",
            AGAINST_EQUALS,
        ),
    ):
        panel = nights("percentunit", *RATIO_STEPS).data_links([link_to(HOST_BOARD, "This host", "instance")])
        made.add(
            panel,
            title=title,
            says=f"A cell a host and day: its worst collective, {says}",
            width=24,
            height=9,
            queries=[Query(expression, "{{instance}}")],
        )


def _open(made: Board) -> None:
    for title, says, expression in (
        (
            "Findings",
            "Faults that gpumond has found by measuring, open until they are seen healthy again. Empty is good.",
            f"gpumond_finding{{{HOST}}} > 0",
        ),
        (
            "Differences from the accepted state",
            "What `gpumond topology diff` says on the host, by kind. Empty is good.",
            f"gpumond_topology_open_changes{{{HOST}}} > 0",
        ),
    ):
        panel = (
            cells()
            .transformations(columns(instance="Host", kind="Kind", level="Level", Value="Open"))
            .override_by_name("Host", properties(links=TO_HOST))
        )
        made.add(panel, title=title, says=says, width=8, height=8, queries=[Query(expression, is_table=True)])
    made.add(
        cells().transformations(columns(alertname="Alert", severity="Severity", instance="Host")),
        title="Alerts",
        says="Alerts about these hosts that fire, as Prometheus sees them, before Alertmanager. Empty is good.",
        width=8,
        height=8,
        queries=[Query(f'ALERTS{{{HOST}, alertname=~"Gpumond.+", alertstate="firing"}}', is_table=True)],
    )
