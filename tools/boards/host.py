"""One host: how its GPUs are connected, what of it is broken, how its sweeps went."""

from __future__ import annotations

from typing import Any

from boards.panels import (
    HOST,
    NIGHTLY,
    NONE_IS_GOOD,
    RUNNING,
    UP_DOWN,
    VERDICTS,
    YES_NO,
    Board,
    Query,
    board,
    cells,
    columns,
    label_variable,
    lines,
    link_to,
    mapped,
    number,
    properties,
    row_link,
    states,
    transformation,
)
from boards.queries import HOST_BOARD, LARGE, SCORE, SWEEP, VERDICT

GPU = "{{instance}} GPU {{gpu}}"
MILLISECONDS = 1000
"""Grafana's units of time are in milliseconds."""


def make() -> Board:
    made = board(
        HOST_BOARD,
        "gpumond / Host",
        "One GPU host: topology, links, GPUs, sweeps. Choose one host for the matrices.",
        since="now-14d",
        variables=[
            label_variable("sweep", "Sweep", f"gpumond_sweep_interval_seconds{{{HOST}}}"),
            label_variable("gpu_set", "GPU set", f"gpumond_collective_verdict{{{HOST}}}"),
            label_variable("collective", "Collective", f"gpumond_collective_verdict{{{HOST}}}"),
        ],
    )
    made.row("Now")
    _now(made)
    made.row("Topology")
    _topology(made)
    made.row("GPUs and links")
    _gpus(made)
    made.row("Errors")
    _errors(made)
    made.row("Results")
    _results(made)
    made.row("Sweeps")
    _sweeps(made)
    return made


def _now(made: Board) -> None:
    made.add(
        cells().transformations(
            columns(
                instance="Host",
                vendor="Vendor",
                gpu_model="Model",
                gpu_count="GPUs",
                driver_version="Driver",
                cuda_version="CUDA",
                kernel_version="Kernel",
            )
        ),
        title="Host",
        says="What this host is, as of the last snapshot.",
        width=12,
        height=4,
        queries=[Query(f"gpumond_node_info{{{HOST}}}", is_table=True)],
    )
    made.add(
        number("short", *NONE_IS_GOOD),
        title="GPUs missing",
        says="Accepted GPUs that do not answer.",
        width=4,
        height=4,
        queries=[Query(f"count(gpumond_gpu_present{{{HOST}}} == 0) or vector(0)", "missing")],
    )
    made.add(
        number("short", (None, "red"), (1, "green")).mappings(mapped(YES_NO)),
        title="As accepted",
        says="Whether anything differs from the state that somebody accepted. No answer while this cannot be told.",
        width=4,
        height=4,
        queries=[Query(f"min(gpumond_topology_matches_accepted{{{HOST}}})", "as accepted")],
    )
    made.add(
        number("dateTimeFromNow"),
        title="Newest snapshot",
        says="When the GPUs were last read with success.",
        width=4,
        height=4,
        queries=[
            Query(
                f'min(gpumond_collector_last_success_timestamp_seconds{{{HOST}, collector="topology"}}) * {MILLISECONDS}',
                "snapshot",
            )
        ],
    )


def _topology(made: Board) -> None:
    for title, says, expression, field, width in (
        (
            "Links between GPUs",
            "Row to column, in nvidia-smi's words: NV and the number of active NVLinks, or PIX, PXB, PHB, NODE, SYS.",
            f"gpumond_topology_link_info{{{HOST}}}",
            "link",
            12,
        ),
        (
            "P2P",
            "1 where the driver grants the GPU of the row to read the memory of the GPU of the column.",
            f'gpumond_p2p_supported{{{HOST}, capability="read"}}',
            "Value",
            12,
        ),
    ):
        matrix = transformation("groupingToMatrix", columnField="peer", rowField="gpu", valueField=field)
        made.add(
            cells().transformations([matrix]),
            title=title,
            says=f"{says} Needs one host.",
            width=width,
            height=9,
            queries=[Query(expression, is_table=True)],
        )
    made.add(
        cells().transformations(columns(instance="Host", kind="Kind", level="Level", Value="Open")),
        title="Differences from the accepted state",
        says="What `gpumond topology diff` says on the host, by kind. Empty is good.",
        width=12,
        height=8,
        queries=[Query(f"gpumond_topology_open_changes{{{HOST}}} > 0", is_table=True)],
    )
    made.add(
        cells().transformations(columns(nic="NIC", gpu="GPU", link="Path")),
        title="NICs and GPUs",
        says="The PCIe path from each RDMA interface to each GPU.",
        width=12,
        height=8,
        queries=[Query(f"gpumond_nic_gpu_link_info{{{HOST}}}", is_table=True)],
    )


def _gpus(made: Board) -> None:
    for title, says, expression, legend, values in (
        ("GPUs", "Accepted GPUs that answered, or sleep.", f"gpumond_gpu_present{{{HOST}}}", GPU, UP_DOWN),
        (
            "Fabric",
            "Registration with the NVLink fabric, of GPUs that have one.",
            f"gpumond_fabric_ready{{{HOST}}}",
            GPU,
            {0: ("not ready", "red"), 1: ("ready", "green")},
        ),
        (
            "NIC ports",
            "RDMA ports that are up.",
            f"gpumond_nic_port_up{{{HOST}}}",
            "{{instance}} {{nic}} port {{port}}",
            UP_DOWN,
        ),
    ):
        made.add(
            states(values), title=title, says=says, width=8, height=8, queries=[Query(expression, legend)]
        )
    made.add(
        lines("short"),
        title="Links that are up",
        says="Links of each GPU that are up. A step down is a link that went down.",
        width=12,
        height=8,
        queries=[Query(f"sum by (instance, gpu) (gpumond_gpu_link_up{{{HOST}}})", GPU)],
    )
    made.add(
        cells().transformations(
            [
                transformation("merge"),
                *columns(gpu="GPU", Value_A="Lanes", Value_B="Lanes at most", Value_C="Generation at most"),
            ]
        ),
        title="PCIe",
        says="Lanes in use and possible. The generation in use drops at idle on purpose, and is not shown.",
        width=12,
        height=8,
        queries=[
            Query(f"max by (gpu) (gpumond_gpu_pcie_link_{name}{{{HOST}}})", is_table=True)
            for name in ("width_lanes", "width_max_lanes", "generation_max")
        ],
    )


def _errors(made: Board) -> None:
    made.add(
        lines("short"),
        title="Link errors an hour",
        says="Growth of the link error counters. Some growth is normal; GpumondLinkErrors fires above 100 for one link.",
        width=12,
        height=8,
        queries=[
            Query(
                f"sum by (instance, gpu, error) (rate(gpumond_gpu_link_errors_total{{{HOST}}}[$__rate_interval])) * 3600",
                f"{GPU} {{{{error}}}}",
            )
        ],
    )
    made.add(
        lines("short"),
        title="ECC errors since the driver was loaded",
        says="Corrected ones are normal in small numbers. Uncorrected ones are not.",
        width=12,
        height=8,
        queries=[
            Query(
                f"sum by (instance, gpu, class) (gpumond_gpu_ecc_errors_total{{{HOST}}})",
                f"{GPU} {{{{class}}}}",
            )
        ],
    )


def _results(made: Board) -> None:
    to_sweep: list[Any] = [link_to(SWEEP, "This collective", "instance", "sweep", "gpu_set", "collective")]
    chosen = f'{HOST}, sweep=~"$sweep", gpu_set=~"$gpu_set", collective=~"$collective", {LARGE}'
    by = "instance, sweep, gpu_set, collective"
    legend = "{{instance}} {{gpu_set}} {{collective}}"
    made.add(
        lines("Bps", interval=NIGHTLY).data_links(to_sweep),
        title="busbw of large messages",
        says="The best of the exported sizes from 100 MB, for each collective; what is normal here, once that is learned;"
        " and what a ring of these GPUs should reach where that is known. Measured once a night.",
        width=16,
        height=10,
        queries=[
            Query(f"max by ({by}) (gpumond_collective_busbw_{name}{{{chosen}}})", f"{legend}{shown}")
            for name, shown in (
                ("bytes_per_second", ""),
                ("baseline_bytes_per_second", " baseline"),
                ("expected_bytes_per_second", " expected"),
            )
        ],
    )
    made.add(
        states(VERDICTS, interval=NIGHTLY).data_links(to_sweep),
        title="Verdicts",
        says="What gpumond says about the last run of each collective.",
        width=8,
        height=10,
        queries=[Query(VERDICT, legend)],
    )
    made.add(
        lines("percentunit", interval=NIGHTLY, from_zero=False).data_links(to_sweep),
        title="Scores",
        says="The last run against the host's own past: 100 % is as normal. Nothing while that is still learned.",
        width=16,
        height=8,
        queries=[Query(SCORE, legend)],
    )
    made.add(
        cells().transformations(columns(gpu_set="GPU set", collective="Collective", state="Baseline")),
        title="Baselines",
        says="Where the baseline of each collective stands: learning, frozen, or with a candidate that waits.",
        width=8,
        height=8,
        queries=[Query(f"gpumond_baseline_state{{{HOST}}} == 1", is_table=True)],
    )


def _sweeps(made: Board) -> None:
    made.add(
        cells()
        .transformations(
            [
                transformation("merge"),
                *columns(
                    instance="Host",
                    sweep="Sweep",
                    Value_A="Last success",
                    Value_B="Took",
                    Value_C="Next due",
                    Value_D="Failures in a row",
                    Value_E="Skips in a row",
                ),
            ]
        )
        .override_by_name(
            "Sweep", properties(links=row_link(SWEEP, "This sweep", instance="Host", sweep="Sweep"))
        )
        .override_by_name("Took", properties(unit="s"))
        .override_by_name("Last success", properties(unit="dateTimeFromNow"))
        .override_by_name("Next due", properties(unit="dateTimeFromNow")),
        title="Sweeps",
        says="When each sweep last succeeded, and when the next success is due.",
        width=16,
        height=7,
        queries=[
            Query(f"max by (instance, sweep) (gpumond_sweep_{expression}", is_table=True)
            for expression in (
                f"last_success_timestamp_seconds{{{HOST}}} > 0) * {MILLISECONDS}",
                f"last_run_duration_seconds{{{HOST}}})",
                f"due_timestamp_seconds{{{HOST}}}) * {MILLISECONDS}",
                f"consecutive_failures{{{HOST}}})",
                f"consecutive_skips{{{HOST}}})",
            )
        ],
    )
    made.add(
        states(RUNNING),
        title="Sweeps that run",
        says="A sweep uses the GPUs of its set completely while it runs.",
        width=8,
        height=7,
        queries=[Query(f"gpumond_sweep_running{{{HOST}}}", "{{instance}} {{sweep}}")],
    )
