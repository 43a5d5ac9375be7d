"""The one table of the metrics that gpumond exports: the exporter and docs/metrics.md are made from it.

Names are a contract (DESIGN 5): dashboards and alert rules of other people build on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from gpumond.exporter import changes, expected, hardware, judgement, operation
from gpumond.exporter.family import PREFIX, Family, Freshness, Kind, Sample, Scrape, Section
from gpumond.model.status import HostStatus

Source = TypeVar("Source")

GPU = ("gpu", "uuid")
PAIR = ("gpu", "peer", "uuid", "peer_uuid")
COLLECTIVE = ("sweep", "engine", "gpu_set", "collective")
RESULT = (*COLLECTIVE, "datatype", "size_bytes")

CHANGES = "gpumond.monitor.changes"
CONFIG = "gpumond.config.load"
DAEMON = "gpumond.daemon"
EXPORTER = "gpumond.exporter.metrics"
MONITOR = "gpumond.monitor.topology"
NCCL_LOG = "gpumond.parsers.nccl_log"
NVML = "gpumond.probe.nvml"
WATCH = "gpumond.probe.watch"
P2P_EXPECTATION = "gpumond.topology.expectation"
JUDGE = "gpumond.sweep.judging"
KERNEL_LOG = "gpumond.monitor.kernel_log"
RUNNER = "gpumond.sweep.runner"
SCHEDULE = "gpumond.schedule.engine"
RING_MODEL = "gpumond.topology.expected"
CLASSIFY = "gpumond.topology.classify"
STORE = "gpumond.store.sqlite"
SUPERVISOR = "gpumond.process.supervisor"
SYSFS = "gpumond.probe.sysfs"


# Longest first: the unit of a name is its suffix, as OpenMetrics wants it.
_UNITS = ("bytes_per_second", "seconds", "lanes")
_HISTOGRAMS = {"preemption_seconds": Kind.HISTOGRAM}
_KINDS = {"total": Kind.COUNTER, "info": Kind.INFO}


@dataclass(frozen=True, slots=True)
class _Group:
    """What families of one kind of thing have in common."""

    section: Section
    labels: tuple[str, ...]
    freshness: Freshness
    read_by: str

    def family(
        self,
        name: str,
        text: str,
        samples: Callable[[Source], Iterable[Sample]],
        *,
        labels: tuple[str, ...] = (),
        freshness: Freshness | None = None,
        read_by: str = "",
    ) -> Family[Source]:
        """A family; kind and unit follow from its name, `labels` come after those of the group."""
        return Family(
            name=PREFIX + name,
            kind=_HISTOGRAMS.get(name) or _KINDS.get(name.rpartition("_")[2], Kind.GAUGE),
            section=self.section,
            labels=self.labels + labels,
            unit=next((unit for unit in _UNITS if name.endswith(f"_{unit}")), ""),
            text=text,
            freshness=freshness or self.freshness,
            read_by=read_by or self.read_by,
            samples=samples,
        )


_DAEMON_FACT = _Group(Section.HOST, (), Freshness.START, DAEMON)
_SETTING = _Group(Section.HOST, (), Freshness.CONFIGURATION, CONFIG)
_NOW = _Group(Section.HOST, (), Freshness.SCRAPE, EXPORTER)
_COUNT = _Group(Section.GPUS, (), Freshness.SNAPSHOT, NVML)
_PER_GPU = _Group(Section.GPUS, GPU, Freshness.SNAPSHOT, NVML)
_PER_PAIR = _Group(Section.TOPOLOGY, PAIR, Freshness.SNAPSHOT, NVML)
_PER_LINK = _Group(Section.TOPOLOGY, GPU, Freshness.SNAPSHOT, NVML)
_CHANGE = _Group(Section.TOPOLOGY, (), Freshness.SNAPSHOT, CHANGES)
_PER_NIC = _Group(Section.NICS, ("nic",), Freshness.SNAPSHOT, SYSFS)
_PER_RESULT = _Group(Section.RESULTS, RESULT, Freshness.MEASURED, RUNNER)
_PER_COLLECTIVE = _Group(Section.RESULTS, COLLECTIVE, Freshness.MEASURED, RUNNER)
_PER_SWEEP = _Group(Section.SWEEPS, ("sweep",), Freshness.SWEEP, RUNNER)
_PREEMPTIONS = _Group(Section.SWEEPS, (), Freshness.EVENT, RUNNER)
_SWEEP_SETTING = _Group(Section.SWEEPS, ("sweep",), Freshness.CONFIGURATION, CONFIG)
_SWEEP_NOW = _Group(Section.SWEEPS, ("sweep",), Freshness.SCRAPE, RUNNER)
_PER_COLLECTOR = _Group(Section.COLLECTORS, ("collector",), Freshness.SNAPSHOT, MONITOR)
_COLLECTOR_NOW = _Group(Section.COLLECTORS, ("collector",), Freshness.SCRAPE, MONITOR)


_HOST: tuple[Family[HostStatus], ...] = (
    _DAEMON_FACT.family(
        "build_info",
        "The running gpumond: its version and that of its Python.",
        operation.build_info,
        labels=("version", "python_version"),
    ),
    _DAEMON_FACT.family(
        "node_info",
        f"What this host is. gpu_model and gpu_count are those of the accepted inventory; {hardware.MIXED_MODELS!r}"
        " stands for several models.",
        hardware.node_info,
        labels=("vendor", "gpu_model", "gpu_count", "driver_version", "cuda_version", "kernel_version"),
        freshness=Freshness.SNAPSHOT,
        read_by=NVML,
    ),
    _DAEMON_FACT.family(
        "simulated",
        "1 if the GPUs of this host are made up by a scenario.",
        operation.simulated,
    ),
    _SETTING.family(
        "config_last_reload_successful",
        "1 if the configuration file was valid when it was last read.",
        operation.config_successful,
    ),
    _SETTING.family(
        "config_last_reload_success_timestamp_seconds",
        "When a valid configuration was last loaded.",
        operation.config_success_timestamp,
    ),
    _DAEMON_FACT.family(
        "state_write_success",
        "1 if the last write to the history file succeeded.",
        operation.state_write_success,
        freshness=Freshness.EVENT,
        read_by=STORE,
    ),
    _DAEMON_FACT.family(
        "paused",
        "1 while an operator has paused all sweeps.",
        operation.paused,
        freshness=Freshness.EVENT,
        read_by=DAEMON,
    ),
    _DAEMON_FACT.family(
        "finding",
        "Open findings of this kind: faults that somebody should look at. 0 for a kind that is known and not open.",
        operation.findings,
        labels=("kind", "level"),
        freshness=Freshness.EVENT,
        read_by=RUNNER,
    ),
)

_GPUS: tuple[Family[HostStatus], ...] = (
    _COUNT.family(
        "gpus",
        "GPUs that answered the driver.",
        hardware.gpus,
    ),
    _COUNT.family(
        "gpus_expected",
        "GPUs that an operator has accepted as the inventory of this host.",
        hardware.gpus_expected,
        freshness=Freshness.ACCEPTED,
        read_by=STORE,
    ),
    _PER_GPU.family(
        "gpu_present",
        "1 if this accepted GPU answered or sleeps, 0 if it is missing or lost. No sample while this cannot be told.",
        hardware.gpu_present,
    ),
    _PER_GPU.family(
        "gpu_info",
        "An accepted GPU, also when it is missing, or one that is not accepted yet (gpu is empty).",
        hardware.gpu_info,
        labels=("pci_bus_id", "gpu_model", "vbios_version"),
    ),
    _COUNT.family(
        "gpu_set_info",
        "Which GPUs a configured GPU set holds today.",
        hardware.gpu_set_info,
        labels=("gpu_set", "uuid"),
        freshness=Freshness.CONFIGURATION,
        read_by=CONFIG,
    ),
    _PER_GPU.family(
        "gpu_pcie_link_width_lanes",
        "PCIe lanes in use.",
        hardware.per_gpu(lambda gpu: gpu.pcie.width_lanes, float),
    ),
    _PER_GPU.family(
        "gpu_pcie_link_width_max_lanes",
        "PCIe lanes that GPU and slot could use.",
        hardware.per_gpu(lambda gpu: gpu.pcie.width_lanes_max, float),
    ),
    _PER_GPU.family(
        "gpu_pcie_link_generation_max",
        "Highest PCIe generation of GPU and slot. The current one drops at idle on purpose and is not exported.",
        hardware.per_gpu(lambda gpu: gpu.pcie.generation_max, float),
    ),
    _PER_GPU.family(
        "gpu_pcie_link_generation_under_load",
        "Highest PCIe generation that the watch saw while the newest sweep on this GPU ran.",
        hardware.pcie_generation_under_load,
        freshness=Freshness.MEASURED,
        read_by=WATCH,
    ),
    _PER_GPU.family(
        "gpu_ecc_errors_total",
        "ECC errors since the driver was loaded; class is corrected or uncorrected.",
        hardware.ecc_errors,
        labels=("class",),
    ),
    _PER_GPU.family(
        "gpu_row_remap_pending",
        "1 if a row of memory waits for a GPU reset to be remapped.",
        hardware.per_gpu(lambda gpu: gpu.remapped_rows_pending, float),
    ),
    _PER_GPU.family(
        "gpu_row_remap_failure",
        "1 if the remapping of a row of memory has failed: the GPU is to be replaced.",
        hardware.per_gpu(lambda gpu: gpu.remapped_rows_failure, float),
    ),
    _PER_GPU.family(
        "gpu_xid_last_timestamp_seconds",
        "When the kernel log last had this Xid of this GPU. level is critical where the GPU or the host must be reset,"
        " info where a program was at fault. No series where gpumond may not read the kernel log.",
        hardware.xid_last_timestamps,
        labels=("xid", "level"),
        read_by=KERNEL_LOG,
    ),
)

_TOPOLOGY: tuple[Family[HostStatus], ...] = (
    _COUNT.family(
        "topology_class_info",
        "What connects the GPUs: nvswitch, nvlink-partial, xgmi, pcie-p2p, pcie-no-p2p, or unknown.",
        expected.topology_class_info,
        labels=("class",),
        read_by=CLASSIFY,
    ),
    _PER_PAIR.family(
        "topology_link_info",
        "How gpu reaches peer, in nvidia-smi's words: NV and the number of active NVLinks, or PIX, PXB, PHB, NODE, SYS.",
        hardware.topology_link_info,
        labels=("link",),
    ),
    _PER_PAIR.family(
        "p2p_supported",
        "1 if the driver grants gpu this way into the memory of peer. No sample where it says neither yes nor no.",
        hardware.p2p_supported,
        labels=("capability",),
    ),
    _PER_PAIR.family(
        "p2p_expected",
        "What p2p_supported was when the state of the host was accepted; only where it is something else now.",
        hardware.p2p_expected,
        labels=("capability",),
        read_by=P2P_EXPECTATION,
    ),
    _PER_LINK.family("gpu_link_up", "1 if this link is up.", hardware.gpu_link_up, labels=("link", "kind")),
    _PER_LINK.family(
        "gpu_link_errors_total",
        "Link errors since the driver was loaded, a link at a time behind a switch, elsewhere summed over the links of a"
        " GPU (link is empty). A value above 0 is normal, growth is not.",
        hardware.gpu_link_errors,
        labels=("link", "kind", "error"),
    ),
    _PER_LINK.family(
        "fabric_ready",
        "1 if the GPU has completed its registration with the NVLink fabric. Only GPUs that have one.",
        hardware.per_gpu(lambda gpu: gpu.fabric, hardware.fabric_readiness),
    ),
    _CHANGE.family(
        "topology_matches_accepted",
        "1 if nothing differs from the state that an operator has accepted, 0 if something does. No sample while this"
        " cannot be told.",
        changes.topology_matches_accepted,
    ),
    _CHANGE.family(
        "topology_open_changes",
        "Differences from the accepted state that enough readings in a row have confirmed, by kind and level (info,"
        " warning, critical). 0 for a kind that was open before.",
        changes.topology_open_changes,
        labels=("kind", "level"),
    ),
    _CHANGE.family(
        "topology_changes_total",
        "Differences from the accepted state that have opened, since the history file was made.",
        changes.topology_changes,
        labels=("kind", "level"),
        freshness=Freshness.EVENT,
    ),
    _CHANGE.family(
        "topology_last_change_timestamp_seconds",
        "When a difference last opened or ended. No sample before the first.",
        changes.topology_last_change_timestamp,
        freshness=Freshness.EVENT,
    ),
)

_NICS: tuple[Family[HostStatus], ...] = (
    _PER_NIC.family(
        "nic_info",
        "An RDMA network interface.",
        hardware.nic_info,
        labels=("pci_bus_id", "node_guid", "link_layer"),
    ),
    _PER_NIC.family("nic_port_up", "1 if this port is up.", hardware.nic_port_up, labels=("port",)),
    _PER_NIC.family(
        "nic_gpu_link_info",
        "The PCIe path from a network interface to a GPU: PIX, PXB, PHB, NODE or SYS.",
        hardware.nic_gpu_link_info,
        labels=(*GPU, "link"),
    ),
)

_RESULTS: tuple[Family[HostStatus], ...] = (
    _PER_RESULT.family(
        "collective_busbw_bytes_per_second",
        "Bus bandwidth as nccl-tests defines it. Of a sweep with more than six sizes, six are exported; history has all.",
        operation.per_point(lambda point: point.busbw_bytes_per_second),
    ),
    _PER_RESULT.family(
        "collective_busbw_expected_bytes_per_second",
        "What a ring of these GPUs should reach at sizes from 1 GiB. The basis model multiplies the links that are up"
        " by published constants; an all_reduce by NVLS goes beyond it. No sample where no constant has a source.",
        expected.busbw_expected,
        labels=("basis",),
        freshness=Freshness.SNAPSHOT,
        read_by=RING_MODEL,
    ),
    _PER_RESULT.family(
        "collective_algbw_bytes_per_second",
        "Algorithm bandwidth (size by time) as nccl-tests defines it, for the same sizes.",
        operation.per_point(lambda point: point.algbw_bytes_per_second),
    ),
    _PER_RESULT.family(
        "collective_time_seconds",
        "Time of one operation.",
        operation.per_point(lambda point: point.time_seconds),
    ),
    _PER_RESULT.family(
        "collective_wrong_elements",
        "Elements whose value was wrong. Above 0 means data corruption. No sample where it was not checked.",
        operation.per_point(lambda point: point.wrong_elements),
    ),
    _PER_RESULT.family(
        "collective_measured_timestamp_seconds",
        "When this result was measured.",
        operation.per_point(lambda point: point.measured_at.timestamp()),
    ),
    _PER_COLLECTIVE.family(
        "collective_transport_channels",
        "NCCL channels by transport in the last usable run, summed over ordered pairs of GPUs; NVLS counts those of one"
        " GPU. A transport that is no longer used has no sample.",
        operation.collective_transport_channels,
        labels=("transport",),
        read_by=NCCL_LOG,
    ),
    _PER_RESULT.family(
        "collective_busbw_baseline_bytes_per_second",
        "Bus bandwidth that is normal on this host, as the judge has learned it. Sizes from 64 MiB on only.",
        judgement.busbw_baseline,
        read_by=JUDGE,
    ),
    _PER_COLLECTIVE.family(
        "collective_score_ratio",
        "The last run against its baseline: the median over sizes from 64 MiB on, 1 is as normal. No sample for a run"
        " that could not be compared.",
        judgement.score_ratio,
        read_by=JUDGE,
    ),
    _PER_COLLECTIVE.family(
        "collective_transport_baseline_channels",
        "NCCL channels by transport when the baseline was learned.",
        judgement.transport_baseline_channels,
        labels=("transport",),
        read_by=JUDGE,
    ),
    _PER_COLLECTIVE.family(
        "baseline_state",
        "1 for where the baseline of this collective stands (learning, frozen, candidate_waiting), 0 for the others.",
        judgement.baseline_state,
        labels=("state",),
        read_by=JUDGE,
    ),
    _PER_COLLECTIVE.family(
        "collective_verdict",
        "1 for the verdict on the last run of this collective, 0 for the other three.",
        operation.collective_verdict,
        labels=("verdict",),
    ),
)

_SWEEPS: tuple[Family[HostStatus], ...] = (
    _PER_SWEEP.family(
        "sweep_last_run_success",
        "1 if the last sweep that was not skipped succeeded, 0 if it failed. No sample before the first.",
        operation.per_sweep(lambda sweep: sweep.last_run_success),
    ),
    _PER_SWEEP.family(
        "sweep_last_run_timestamp_seconds",
        "When the last sweep that was not skipped ended. No sample before the first.",
        operation.per_sweep(lambda sweep: operation.timestamp_or_none(sweep.last_run_at)),
    ),
    _PER_SWEEP.family(
        "sweep_last_run_duration_seconds",
        "How long the last sweep that was not skipped took. No sample before the first.",
        operation.per_sweep(operation.last_run_duration),
    ),
    _PER_SWEEP.family(
        "sweep_last_success_timestamp_seconds",
        "When a sweep last succeeded, 0 for never.",
        operation.per_sweep(lambda sweep: operation.timestamp_or_never(sweep.last_success_at)),
    ),
    _PER_SWEEP.family(
        "sweep_due_timestamp_seconds",
        "When the next success is due: the last one, or the first start ever, plus the interval.",
        operation.per_sweep(lambda sweep: operation.timestamp_or_none(sweep.due_at)),
    ),
    _SWEEP_SETTING.family(
        "sweep_overdue_grace_seconds",
        "How long after it is due a sweep counts as overdue.",
        operation.per_sweep(lambda sweep: sweep.overdue_grace_seconds),
    ),
    _SWEEP_SETTING.family(
        "sweep_interval_seconds",
        "The time from one window of this sweep to the next.",
        operation.per_sweep(lambda sweep: sweep.interval_seconds),
    ),
    _SWEEP_SETTING.family(
        "sweep_timeout_seconds",
        "The longest that a sweep may run.",
        operation.per_sweep(lambda sweep: sweep.timeout_seconds),
    ),
    _PER_SWEEP.family(
        "sweep_consecutive_failures",
        "Failed sweeps since the last success.",
        operation.per_sweep(lambda sweep: sweep.consecutive_failures),
    ),
    _PER_SWEEP.family(
        "sweep_consecutive_skips",
        "Skipped sweeps since the last one that ran.",
        operation.per_sweep(lambda sweep: sweep.consecutive_skips),
    ),
    _PER_SWEEP.family(
        "sweep_runs_total",
        "Sweeps that ran, since the history file was made.",
        operation.per_sweep(lambda sweep: sweep.runs),
    ),
    _PER_SWEEP.family(
        "sweep_failures_total",
        "Sweeps that failed, by reason, since the history file was made.",
        operation.per_reason(lambda sweep: sweep.failures),
        labels=("reason",),
    ),
    _PER_SWEEP.family(
        "sweep_skips_total",
        "Sweeps that were not started, by reason, since the history file was made.",
        operation.per_reason(lambda sweep: sweep.skips),
        labels=("reason",),
    ),
    _PER_SWEEP.family(
        "sweep_preemptions_total",
        "Sweeps that gave the GPUs back to a user's process, since the history file was made.",
        operation.per_sweep(lambda sweep: sweep.preemptions),
    ),
    _PREEMPTIONS.family(
        "preemption_seconds",
        "From the first sight of a foreign process on the GPUs of a benchmark until nothing was left of the benchmark,"
        " since the history file was made.",
        operation.preemptions,
    ),
)

_COLLECTORS: tuple[Family[HostStatus], ...] = (
    _PER_COLLECTOR.family(
        "collector_duration_seconds",
        "How long the collector took when it last ran.",
        operation.per_collector(lambda collector: collector.duration_seconds),
    ),
    _PER_COLLECTOR.family(
        "collector_last_success_timestamp_seconds",
        "When the collector last succeeded, 0 for never.",
        operation.per_collector(lambda collector: operation.timestamp_or_never(collector.last_success)),
    ),
    _PER_COLLECTOR.family(
        "collector_interval_seconds",
        "The time from one run of the collector to the next.",
        operation.per_collector(lambda collector: collector.interval_seconds),
    ),
)

STEADY: tuple[Family[HostStatus], ...] = (
    *_HOST,
    *_GPUS,
    *_TOPOLOGY,
    *_NICS,
    *_RESULTS,
    *_SWEEPS,
    *_COLLECTORS,
)
"""Functions of a status; they are rendered when it changes."""

AT_SCRAPE: tuple[Family[Scrape], ...] = (
    _NOW.family(
        "time_seconds",
        "The wall time of this host, to tell a clock that is wrong.",
        operation.time_now,
    ),
    _NOW.family(
        "scheduler_heartbeat_timestamp_seconds",
        "When the scheduler last showed that it lives.",
        operation.scheduler_heartbeat,
        read_by=SCHEDULE,
    ),
    _NOW.family(
        "unkillable_processes",
        "Child processes that are still there after SIGKILL.",
        operation.unkillable_processes,
        read_by=SUPERVISOR,
    ),
    _SWEEP_NOW.family(
        "sweep_running",
        "1 while this sweep runs.",
        operation.sweep_running,
    ),
    _SWEEP_NOW.family(
        "sweep_run_start_timestamp_seconds",
        "When the running sweep started. No sample while none runs.",
        operation.sweep_run_start,
    ),
    _COLLECTOR_NOW.family(
        "collector_success",
        f"1 if the collector worked when it last ran; {operation.OWN_COLLECTOR!r} is 1 if every metric could be made.",
        operation.collector_success,
    ),
)
"""Functions of one scrape; they are rendered for each."""

PROCESS = (
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
)
"""What prometheus_client's ProcessCollector adds, of the daemon's own process."""
