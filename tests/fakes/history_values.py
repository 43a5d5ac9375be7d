"""Made-up values for tests of the store: a clock that stands still, sweeps, runs and points, and a small host."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from gpumond.model.benchmark import Collective, Placement, Point, TextOutcome
from gpumond.model.identity import GpuUuid, PciBusId, RunId
from gpumond.model.reading import NOT_SUPPORTED, Value
from gpumond.model.run import Cause, Engine, GpuSet, Run, Sweep, SweepOutcome, Trigger, Verdict
from gpumond.model.topology import (
    Fabric,
    Gpu,
    GpuPair,
    Host,
    NvLink,
    NvLinkRemote,
    P2pCapability,
    P2pStatus,
    PathLevel,
    PcieLink,
    Snapshot,
    Vendor,
)
from gpumond.store.sqlite import Store

NIGHT = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)
"""The night of every test that does not care which."""

MIB = 1024 * 1024
_numbers = itertools.count(1)


@dataclass
class StandingClock:
    """Stands still, but for what sleeps on it and for `step`."""

    instant: datetime = NIGHT
    seconds: float = 0.0

    def now(self) -> datetime:
        return self.instant

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.instant += timedelta(seconds=seconds)

    def step(self, **by: float) -> None:
        self.instant += timedelta(**by)


def new_id(at: datetime = NIGHT) -> RunId:
    return RunId(f"{at:%Y%m%dT%H%M%SZ}-{next(_numbers):06x}")


def make_sweep(name: str = "nightly", at: datetime = NIGHT, **changes: object) -> Sweep:
    return replace(Sweep(new_id(at), name, Trigger.WINDOW, at, planned_runs=1), **changes)


def ended(sweep: Sweep, outcome: SweepOutcome = SweepOutcome.SUCCESS, reason: str = "") -> Sweep:
    return replace(
        sweep,
        ended_at=sweep.started_at + timedelta(seconds=20),
        duration_seconds=20.0,
        outcome=outcome,
        reason=reason,
    )


def make_run(sweep: Sweep, **changes: object) -> Run:
    """A run of `sweep` that has just started."""
    run = Run(
        id=new_id(sweep.started_at),
        sweep_id=sweep.id,
        sweep=sweep.name,
        engine=Engine.NCCL_TESTS,
        gpu_set=GpuSet("all", (GpuUuid("GPU-a"), GpuUuid("GPU-b"))),
        collective=Collective.ALL_REDUCE,
        parameters_hash="p1",
        command=("/opt/nccl-tests/all_reduce_perf", "-b", "8"),
        environment={"NCCL_DEBUG": "WARN"},
        started_at=sweep.started_at,
    )
    return replace(run, **changes)


def measured(run: Run, *points: Point, **changes: object) -> Run:
    """`run`, ended as it should, with `points`."""
    done = replace(
        run,
        ended_at=run.started_at + timedelta(seconds=4),
        duration_seconds=4.0,
        cause=Cause.EXITED,
        exit_status=0,
        outcome=TextOutcome.OK.value,
        verdict=Verdict.OK,
        points=points,
    )
    return replace(done, **changes)


def make_point(size_bytes: int = 64 * MIB, busbw: float = 267.3e9, **changes: object) -> Point:
    point = Point(
        collective=Collective.ALL_REDUCE,
        datatype="float",
        redop="sum",
        size_bytes=size_bytes,
        placement=Placement.OUT_OF_PLACE,
        time_seconds=251.1e-6,
        algbw_bytes_per_second=busbw,
        busbw_bytes_per_second=busbw,
        wrong_elements=0,
    )
    return replace(point, **changes)


def make_gpu(letter: str, number: int, **changes: object) -> Gpu:
    link = NvLink(
        link=0,
        is_up=Value(value=True),
        remote_type=Value(NvLinkRemote.SWITCH),
        remote_pci_bus_id=NOT_SUPPORTED,
        version=Value(4),
        speed_bytes_per_second=Value(26_562_000_000),
        errors=Value({"crc": 31}),
    )
    gpu = Gpu(
        pci_bus_id=PciBusId(f"0000:{number:02x}:00.0"),
        uuid=GpuUuid(f"GPU-{letter}"),
        index=number,
        name=Value("NVIDIA H200"),
        vbios_version=Value("96.00"),
        minor_number=Value(number),
        module_id=NOT_SUPPORTED,
        memory_total_bytes=Value(150 * 1024 * MIB),
        memory_used_bytes=Value(0),
        utilisation_ratio=Value(0.0),
        processes=Value(()),
        pcie=PcieLink(Value(1), Value(5), Value(16), Value(16), Value(0)),
        nvlinks=Value((link,)),
        fabric=Value(Fabric(3, 0, 0, "", 0, None)),
        numa_node=Value(0),
        gpu_numa_id=NOT_SUPPORTED,
        cpu_affinity=Value("0-31"),
        memory_affinity=Value("0"),
        persistence_mode=Value(value=True),
        mig_mode=Value(value=False),
        mig_mode_pending=Value(value=False),
        ecc_mode=Value(value=True),
        ecc_mode_pending=Value(value=True),
        ecc_errors=Value({"corrected": 0}),
        remapped_rows_pending=Value(value=False),
        remapped_rows_failure=Value(value=False),
        recovery_action=NOT_SUPPORTED,
        performance_state=Value(0),
    )
    return replace(gpu, **changes)


def make_pair(gpu: str, peer: str, **changes: object) -> GpuPair:
    pair = GpuPair(
        GpuUuid(f"GPU-{gpu}"),
        GpuUuid(f"GPU-{peer}"),
        Value(PathLevel.NODE),
        Value(18),
        {P2pCapability.READ: Value(P2pStatus.OK)},
    )
    return replace(pair, **changes)


def make_snapshot(at: datetime = NIGHT, **changes: object) -> Snapshot:
    snapshot = Snapshot(
        taken_at=at,
        host=Host(
            kernel="6.1.0",
            boot_id="0000",
            uptime_seconds=5.0,
            cpu_count=32,
            iommu=NOT_SUPPORTED,
            driver_version=Value("580.159.04"),
            driver_library_version=Value("580.159.04"),
            cuda_version=Value("13.0"),
            is_virtual=Value(value=True),
        ),
        vendor=Vendor.NVIDIA,
        driver=Value("580.159.04"),
        gpus=(make_gpu("a", 1), make_gpu("b", 2)),
        silent_gpus=(),
        pairs=(make_pair("a", "b"), make_pair("b", "a")),
        nics=(),
        duration_seconds=0.3,
    )
    return replace(snapshot, **changes)


def store_one(store: Store) -> Run:
    """Store a sweep with one finished run; returns the run."""
    sweep = make_sweep()
    store.start_sweep(sweep)
    run = measured(make_run(sweep), make_point(8), make_point(16))
    store.finish_run(run, output=b"raw output")
    store.finish_sweep(ended(sweep))
    return run
