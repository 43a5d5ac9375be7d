"""A HostStatus of an 8-GPU NVSwitch host, as full as the series budget of DESIGN 5 allows for; without I/O."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gpumond.model.baseline import BaselineState
from gpumond.model.benchmark import Collective, Placement
from gpumond.model.change import Change, ChangeCount, ChangeKind, Level, OpenChange, Subject, SubjectKind
from gpumond.model.identity import GpuUuid, PciBusId
from gpumond.model.kernel_log import KernelEventKind, KernelTally
from gpumond.model.reading import NOT_SUPPORTED, Reading, Unreadable, UnreadableReason, Value
from gpumond.model.run import Engine, GpuSet, Verdict
from gpumond.model.status import (
    CollectiveBaseline,
    CollectiveScore,
    CollectiveTransport,
    CollectiveVerdict,
    CollectorStatus,
    HostStatus,
    InventoryEntry,
    LatestPoint,
    LoadedPcieLink,
    P2pExpectation,
    SweepStatus,
)
from gpumond.model.topology import (
    Fabric,
    Gpu,
    GpuPair,
    Host,
    Nic,
    NvLink,
    NvLinkRemote,
    P2pCapability,
    P2pStatus,
    PathLevel,
    PcieLink,
    Snapshot,
    Vendor,
)
from gpumond.sweep.reasons import FAILURE_REASONS, SKIP_REASONS

NOW = datetime(2026, 11, 29, 2, 30, tzinfo=UTC)
LINKS_PER_GPU = 18
LINK_ERRORS = ("crc_data", "crc_flit", "ecc_data", "recovery", "replay")
SIZES = tuple(1 << exponent for exponent in range(26, 32))
"""Of the default sweep."""
COLLECTIVES = (
    Collective.ALL_REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.ALLTOALL,
    Collective.SENDRECV,
)
UNREADABLE = Unreadable(UnreadableReason.NO_PERMISSION)
TO_A_SWITCH = Value(NvLinkRemote.SWITCH)


def uuid_of(number: int) -> GpuUuid:
    return GpuUuid(f"GPU-00000000-0000-4000-8000-{number:012x}")


def bus_id_of(number: int) -> PciBusId:
    return PciBusId(f"0000:{0x10 + number:02x}:00.0")


NUMA_NODE_CHANGED = Change(
    kind=ChangeKind.NUMA_NODE,
    level=Level.WARNING,
    subject=Subject(SubjectKind.GPU, (uuid_of(1),)),
    sentence=f"GPU {bus_id_of(1)}: it is attached to NUMA node 1, accepted is node 0",
    before="0",
    after="1",
)


def nvlink(link: int, remote: Reading[NvLinkRemote] = TO_A_SWITCH) -> NvLink:
    return NvLink(
        link=link,
        is_up=Value(True),
        remote_type=remote,
        remote_pci_bus_id=NOT_SUPPORTED,
        version=Value(4),
        speed_bytes_per_second=Value(26_562_000_000),
        errors=Value(dict.fromkeys(LINK_ERRORS, 0)),
    )


def gpu(number: int) -> Gpu:
    return Gpu(
        pci_bus_id=bus_id_of(number),
        uuid=uuid_of(number),
        index=number,
        name=Value("NVIDIA H200"),
        vbios_version=Value("96.00.CF.00.01"),
        minor_number=Value(number),
        module_id=Value(number + 1),
        memory_total_bytes=Value(150_754_820_096),
        memory_used_bytes=Value(0),
        utilisation_ratio=Value(0.0),
        processes=Value(()),
        pcie=PcieLink(
            generation=Value(1),
            generation_max=Value(5),
            width_lanes=Value(16),
            width_lanes_max=Value(16),
            replays=Value(0),
        ),
        nvlinks=Value(tuple(nvlink(link) for link in range(LINKS_PER_GPU))),
        fabric=Value(Fabric(3, 0, 0, "", 0, 1)),
        numa_node=Value(number // 4),
        gpu_numa_id=NOT_SUPPORTED,
        cpu_affinity=Value("0-47"),
        memory_affinity=Value("0"),
        persistence_mode=Value(True),
        mig_mode=Value(False),
        mig_mode_pending=Value(False),
        ecc_mode=Value(True),
        ecc_mode_pending=Value(True),
        ecc_errors=Value({"corrected": 2, "uncorrected": 0}),
        remapped_rows_pending=Value(False),
        remapped_rows_failure=Value(False),
        recovery_action=Value(0),
        performance_state=Value(0),
    )


def pair(number: int, peer: int) -> GpuPair:
    p2p: dict[P2pCapability, Reading[P2pStatus]] = {
        capability: Value(P2pStatus.OK) for capability in P2pCapability
    }
    p2p[P2pCapability.PCI] = Value(P2pStatus.NS)
    return GpuPair(uuid_of(number), uuid_of(peer), Value(PathLevel.SYS), Value(LINKS_PER_GPU), p2p)


def nic(number: int, gpus: int) -> Nic:
    return Nic(
        name=f"mlx5_{number}",
        pci_bus_id=PciBusId(f"0000:{0x60 + number:02x}:00.0"),
        node_guid=f"a088:c203:00ab:{number:04x}",
        numa_node=Value(number // 6),
        ports_up={1: True},
        rate_bits_per_second=Value(400_000_000_000),
        link_layer="InfiniBand",
        levels={uuid_of(g): PathLevel.PIX if g == number else PathLevel.SYS for g in range(gpus)},
    )


def snapshot(gpus: int = 8, nics: int = 12) -> Snapshot:
    return Snapshot(
        taken_at=NOW - timedelta(seconds=20),
        host=Host(
            kernel="6.8.0-50-generic",
            boot_id="00000000-0000-4000-8000-00000000b007",
            uptime_seconds=86400.0,
            cpu_count=96,
            iommu=Value("DMA-FQ"),
            driver_version=Value("580.159.04"),
            driver_library_version=Value("13.580.159.04"),
            cuda_version=Value("13.0"),
            is_virtual=Value(False),
        ),
        vendor=Vendor.NVIDIA,
        driver=Value("nvidia"),
        gpus=tuple(gpu(number) for number in range(gpus)),
        silent_gpus=(),
        pairs=tuple(pair(a, b) for a, b in itertools.permutations(range(gpus), 2)),
        nics=tuple(nic(number, gpus) for number in range(nics)),
        duration_seconds=0.4,
    )


def inventory(gpus: int = 8) -> tuple[InventoryEntry, ...]:
    return tuple(InventoryEntry(n, uuid_of(n), bus_id_of(n), "NVIDIA H200") for n in range(gpus))


def gpu_sets(gpus: int = 8) -> tuple[GpuSet, ...]:
    uuids = tuple(uuid_of(number) for number in range(gpus))
    half = gpus // 2
    return (GpuSet("all", uuids), GpuSet("numa0", uuids[:half]), GpuSet("numa1", uuids[half:]))


def point(
    sweep: str = "nightly",
    gpu_set: str = "all",
    collective: Collective = Collective.ALL_REDUCE,
    size_bytes: int = 2 << 30,
) -> LatestPoint:
    return LatestPoint(
        sweep=sweep,
        engine=Engine.NCCL_TESTS,
        gpu_set=gpu_set,
        collective=collective,
        datatype="float",
        size_bytes=size_bytes,
        placement=Placement.OUT_OF_PLACE,
        measured_at=NOW - timedelta(minutes=25),
        time_seconds=0.00635126,
        algbw_bytes_per_second=338_120_000_000.0,
        busbw_bytes_per_second=338_120_000_000.0,
        wrong_elements=0,
    )


def baseline(
    sweep: str, gpu_set: str, collective: Collective, sizes: tuple[int, ...], gpus: int
) -> CollectiveBaseline:
    return CollectiveBaseline(
        sweep=sweep,
        engine=Engine.NCCL_TESTS,
        gpu_set=gpu_set,
        collective=collective,
        state=BaselineState.FROZEN,
        datatype="float",
        busbw={size: 338_900_000_000.0 for size in sizes if size >= 64 << 20},
        transport=f"NVLS:16 P2P/CUMEM:{24 * gpus}",
    )


def sweep(name: str = "nightly") -> SweepStatus:
    return SweepStatus(
        name=name,
        interval_seconds=86400.0,
        timeout_seconds=1800.0,
        overdue_grace_seconds=10800.0,
        due_at=NOW + timedelta(hours=23),
        last_run_at=NOW - timedelta(minutes=25),
        last_run_duration_seconds=18.5,
        last_run_success=True,
        last_success_at=NOW - timedelta(minutes=25),
        runs=31,
        failures=dict.fromkeys(FAILURE_REASONS, 0) | {"total_timeout": 1},
        skips=dict.fromkeys(SKIP_REASONS, 0) | {"busy": 3},
        preemptions=1,
    )


def collector(name: str) -> CollectorStatus:
    return CollectorStatus(name, True, 30.0, 0.41, NOW - timedelta(seconds=20))


def status(gpus: int, nics: int, sweeps: tuple[str, ...], sizes: tuple[int, ...]) -> HostStatus:
    sets = gpu_sets(gpus)
    series = tuple(itertools.product(sweeps, (s.name for s in sets), COLLECTIVES))
    return HostStatus(
        version="0.1.0",
        started_at=NOW - timedelta(days=3),
        is_ready=True,
        snapshot=snapshot(gpus, nics),
        inventory=inventory(gpus),
        gpu_sets=sets,
        collectors=(collector("topology"), collector("watch")),
        sweeps=tuple(sweep(name) for name in sweeps),
        points=tuple(point(*key, size) for key in series for size in sizes),
        verdicts=tuple(
            CollectiveVerdict(name, Engine.NCCL_TESTS, gpu_set, collective, Verdict.OK, "")
            for name, gpu_set, collective in series
        ),
        transports=tuple(
            CollectiveTransport(
                name, Engine.NCCL_TESTS, gpu_set, collective, {"NVLS": 16, "P2P/CUMEM": 24 * gpus}
            )
            for name, gpu_set, collective in series
        ),
        scores=tuple(
            CollectiveScore(name, Engine.NCCL_TESTS, gpu_set, collective, 0.998)
            for name, gpu_set, collective in series
        ),
        baselines=tuple(baseline(*key, sizes, gpus) for key in series),
        heartbeat_at=NOW - timedelta(seconds=7),
        config_loaded_at=NOW - timedelta(days=3),
        accepted_at=NOW - timedelta(days=30),
        changes=(OpenChange(NUMA_NODE_CHANGED, NOW - timedelta(hours=2)),),
        change_counts=(
            ChangeCount(ChangeKind.NVLINK_DOWN, Level.CRITICAL, 2),
            ChangeCount(ChangeKind.NUMA_NODE, Level.WARNING, 1),
        ),
        last_change_at=NOW - timedelta(hours=2),
        loaded_pcie_links=tuple(LoadedPcieLink(uuid_of(number), 5) for number in range(gpus)),
        p2p_expectations=(P2pExpectation(uuid_of(0), uuid_of(1), P2pCapability.READ, is_supported=True),),
        kernel_tallies=(
            KernelTally(
                KernelEventKind.XID,
                inventory(gpus)[0].pci_bus_id,
                "94",
                Level.WARNING,
                2,
                NOW - timedelta(days=3),
                NOW - timedelta(days=1),
                "NVRM: Xid (PCI:0000:01:00): 94, pid=1234, name=python, Contained: SM (0x1). RST: No, D-RST: No",
            ),
        ),
    )


def eight_gpu_status() -> HostStatus:
    """8 GPUs behind NVSwitch, 12 NICs, three GPU sets, the default sweep: what the budget of series is for."""
    return status(8, 12, ("nightly",), SIZES)


def two_gpu_status() -> HostStatus:
    """2 GPUs, one NIC, one sweep, one size: small enough to read as text."""
    small = status(2, 1, ("nightly",), SIZES[-1:])
    kept = [p for p in small.points if p.gpu_set == "all" and p.collective is Collective.ALL_REDUCE]
    verdicts = [v for v in small.verdicts if v.gpu_set == "all" and v.collective is Collective.ALL_REDUCE]
    transports = [t for t in small.transports if t.gpu_set == "all" and t.collective is Collective.ALL_REDUCE]
    return replace(
        small,
        gpu_sets=small.gpu_sets[:1],
        points=tuple(kept),
        verdicts=tuple(verdicts),
        transports=tuple(transports),
        scores=tuple(s for s in small.scores if s.gpu_set == "all" and s.collective is Collective.ALL_REDUCE),
        baselines=tuple(
            b for b in small.baselines if b.gpu_set == "all" and b.collective is Collective.ALL_REDUCE
        ),
    )
