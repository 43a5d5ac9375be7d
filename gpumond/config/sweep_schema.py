"""The settings of a `[[sweep]]`: what is measured, how, and when.

Owns the checks between the keys of one sweep. What needs another table is in references.py.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, ValidationInfo, field_validator

from gpumond.config.durations import SECONDS_PER_DAY, format_duration
from gpumond.config.reserved import check_extra_argument
from gpumond.config.table import MaybeEmptyList, Table, UniqueList
from gpumond.config.values import (
    GIB,
    LARGEST_BYTES,
    MIB,
    SECONDS_PER_MINUTE,
    Bytes,
    Day,
    Hours,
    Kind,
    Name,
    Seconds,
    TimeWindow,
    between,
    bytes_between,
    format_size,
    parse_window,
    seconds_between,
)
from gpumond.config.zone import LOCAL_ZONE, check_zone
from gpumond.model.benchmark import Collective
from gpumond.model.run import EngineChoice

ALL_GPUS: Final = "all"
"""The GPU set that always exists."""

MIN_WINDOW_SECONDS: Final = 300
"""What a spread must leave of a window: a nightly sweep of an 8-GPU host takes 20 s (DESIGN 4), a retry as long again,
and the first start of NCCL on a cold host a minute."""

MAX_SWEEP_SECONDS: Final = SECONDS_PER_DAY


class Datatype(StrEnum):
    """The names of nccl-tests; the last two are rccl-tests' names of the 8-bit floats."""

    INT8 = "int8"
    UINT8 = "uint8"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    HALF = "half"
    FLOAT = "float"
    DOUBLE = "double"
    BFLOAT16 = "bfloat16"
    F8E4M3 = "f8e4m3"
    F8E5M2 = "f8e5m2"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"


class Redop(StrEnum):
    SUM = "sum"
    PROD = "prod"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    MULSUM = "mulsum"


class Occasion(StrEnum):
    """What may ask for a sweep, besides its window."""

    BOOT = "boot"
    CHANGE = "change"  # of the topology, the driver, or any other recorded input of the benchmark


class When(StrEnum):
    WINDOW = "window"
    IDLE = "idle"


Zone: TypeAlias = Annotated[StrictStr, AfterValidator(check_zone), Kind("time zone", str)]
ExtraArgument: TypeAlias = Annotated[StrictStr, AfterValidator(check_extra_argument)]


class SweepConfig(Table):
    """One set of benchmarks and when it runs. Without any `[[sweep]]` nothing is ever measured.

    Each collective runs once on each GPU set, one process after the other. The sizes are `min_size`, then times
    `step_factor` until `max_size`.
    """

    name: Annotated[
        Name, Field(description="What metrics, history and commands call it.", examples=["nightly"])
    ]
    engine: Annotated[
        EngineChoice,
        Field(
            description="What measures. `auto` is nccl-tests (on AMD hosts rccl-tests) where a program of it is found or "
            "`engines.nccl_tests.directory` is set, otherwise nccl4py, otherwise torch. Results of another engine are "
            "series of their own. nccl4py and torch print only sizes that take ten times as long as a launch: begin at 256 MiB with them.",
            examples=["torch"],
        ),
    ] = EngineChoice.AUTO
    sanity: Annotated[
        StrictBool,
        Field(
            description="Whether each GPU set begins with an all_reduce in which every rank sends its number and must see "
            "the sum of all. It needs nccl4py or torch. Its values belong to no series.",
            examples=[True],
        ),
    ] = False
    gpu_sets: Annotated[
        UniqueList[StrictStr],
        Field(
            description="Names of `[gpu_sets]`, or the built-in `all`.",
            examples=[["all", "numa0"]],
        ),
    ] = (ALL_GPUS,)
    collectives: Annotated[
        UniqueList[Collective],
        Field(
            description="The programs' names without `_perf`. Keep one that NCCL runs as a ring, such as all_gather "
            "or reduce_scatter: it shows the wire where all_reduce may show the switch.",
            examples=[["all_reduce", "all_gather"]],
        ),
    ] = (
        Collective.ALL_REDUCE,
        Collective.ALL_GATHER,
        Collective.REDUCE_SCATTER,
        Collective.ALLTOALL,
        Collective.SENDRECV,
    )
    min_size: Annotated[
        Bytes,
        bytes_between(1, LARGEST_BYTES),
        Field(description="The smallest message. Below 64 MiB latency is measured.", examples=["8"]),
    ] = 64 * MIB
    max_size: Annotated[
        Bytes,
        bytes_between(1, LARGEST_BYTES),
        Field(
            description="The largest message. The benchmark takes up to three times as much memory on each GPU; from "
            "256 MiB on idle hosts repeat within 0.5 %.",
            examples=["8GiB"],
            validate_default=True,
        ),
    ] = 2 * GIB
    max_iteration_time: Annotated[
        Seconds,
        seconds_between(0.001, 3600),
        Field(
            description="Sizes of which one iteration is expected to take longer are left out: on a PCIe host 2 GiB take "
            "ten times as long as behind NVSwitch, and tell nothing new. Expected is what was measured last, else what "
            "the links should give. A series keeps the sizes with which it began. Where even the smallest takes long, "
            "`iterations` is halved until a size takes 2 s, but not below 5.",
            examples=["1s"],
        ),
    ] = 0.1
    step_factor: Annotated[
        StrictInt, between(2, 1024), Field(description="From one size to the next.", examples=[4])
    ] = 2
    datatype: Annotated[
        Datatype, Field(description="The element type, as nccl-tests names it.", examples=["bfloat16"])
    ] = Datatype.FLOAT
    redop: Annotated[
        Redop, Field(description="The reduction, for the collectives that reduce.", examples=["avg"])
    ] = Redop.SUM
    warmup_iterations: Annotated[
        StrictInt,
        between(0, 10_000),
        Field(
            description="Untimed iterations before each size. nccl-tests' own default has changed from 5 to 1.",
            examples=[20],
        ),
    ] = 5
    iterations: Annotated[
        StrictInt,
        between(1, 1_000_000),
        Field(
            description="Timed iterations of each size. Fewer than 5 read lower, and noisier.",
            examples=[50],
        ),
    ] = 20
    check: Annotated[
        StrictBool,
        Field(
            description="Whether results are compared with the right ones. Without it corrupted data goes unseen.",
            examples=[False],
        ),
    ] = True
    extra_arguments: Annotated[
        tuple[ExtraArgument, ...],
        Field(
            description="Further options of the programs. What the keys above set is refused, and so are options "
            "that change the meaning of the printed numbers.",
            examples=[["-R", "1"]],
        ),
    ] = ()
    beside_jobs: Annotated[
        StrictBool,
        Field(
            description="On a board with NVSwitch every GPU must be idle for a sweep over some of them. True asks only "
            "for the GPUs of the set and those below the same PCIe switch. The results are a series of their own: "
            "jobs on the same switches may show in them.",
            examples=[True],
        ),
    ] = False
    spread: Annotated[
        Seconds,
        seconds_between(0, SECONDS_PER_DAY),
        Field(
            description="Hosts of a fleet start at different times of the window: each at its own, always the same "
            "offset, between 0 and this.",
            examples=["1h"],
        ),
    ] = 30.0 * SECONDS_PER_MINUTE
    window: Annotated[
        Hours,
        Field(
            description="When the sweep may run, by the clock on the wall: once a day, from its start plus the host's "
            "offset, and never after its end. It may pass midnight.",
            examples=["22:00-04:00"],
            validate_default=True,
        ),
    ] = parse_window("02:00-05:00")
    timezone: Annotated[
        Zone,
        Field(
            description="The IANA name of the zone in which `window` is meant; `local` is the zone of this host.",
            examples=["Europe/Berlin", "UTC"],
        ),
    ] = LOCAL_ZONE
    days: Annotated[
        UniqueList[Day],
        Field(
            description="The days on which a window starts.",
            examples=[["sat", "sun"]],
        ),
    ] = tuple(Day)
    after: Annotated[
        MaybeEmptyList[Occasion],
        Field(
            description="Without any, the sweep runs in every window. With `boot` or `change` it runs once after each of "
            "those only, in the next window: after the host has booted, or when the topology, the driver, the benchmark "
            "or another recorded input is no longer what it was at this sweep's last run.",
            examples=[["boot", "change"]],
        ),
    ] = ()
    when: Annotated[
        When,
        Field(
            description="`idle` lets a sweep with `after` start at any hour, as soon as every guard says yes. It needs "
            "`after`: a nightly sweep has its window.",
            examples=["idle"],
        ),
    ] = When.WINDOW
    run_at_start: Annotated[
        StrictBool,
        Field(
            description="Also run once, as soon as the daemon is ready, whatever the window says. Meant for "
            "demonstrations and for commissioning.",
            examples=[True],
        ),
    ] = False
    first_row_deadline: Annotated[
        Seconds | None,
        seconds_between(1, MAX_SWEEP_SECONDS),
        Field(
            description="A benchmark that has printed no result by then is killed. Otherwise 60 s and 2 s more for "
            "each GPU: the start of CUDA and NCCL.",
            examples=["3m"],
        ),
    ] = None
    row_deadline: Annotated[
        Seconds | None,
        seconds_between(1, MAX_SWEEP_SECONDS),
        Field(
            description="The longest time between two results. Otherwise it follows from size and iterations at the "
            "slowest speed that is no hang, and is at least 30 s.",
            examples=["2m"],
        ),
    ] = None
    total_deadline: Annotated[
        Seconds | None,
        seconds_between(1, MAX_SWEEP_SECONDS),
        Field(
            description="The longest time that one benchmark process may take. Otherwise it follows from the two "
            "above.",
            examples=["10m"],
        ),
    ] = None

    @field_validator("max_size")
    @classmethod
    def _not_below_min_size(cls, value: int, info: ValidationInfo) -> int:
        smallest = info.data.get("min_size")
        if smallest is not None and smallest > value:
            # nccl-tests would exit with 255 and no row (measured).
            raise ValueError(f"is {format_size(value)}, which is less than min_size, {format_size(smallest)}")
        return value

    @field_validator("window")
    @classmethod
    def _long_enough(cls, value: TimeWindow, info: ValidationInfo) -> TimeWindow:
        length = value.length_seconds
        if length < MIN_WINDOW_SECONDS:
            raise ValueError(f"must be at least {format_duration(MIN_WINDOW_SECONDS)} long")
        spread = info.data.get("spread")
        if spread is not None and length - spread < MIN_WINDOW_SECONDS:
            raise ValueError(
                f"is {format_duration(length)} long; a spread of {format_duration(spread)} leaves less than "
                f"{format_duration(MIN_WINDOW_SECONDS)} of it"
            )
        return value

    @field_validator("when")
    @classmethod
    def _only_after_something(cls, value: When, info: ValidationInfo) -> When:
        if value is When.IDLE and not info.data.get("after"):
            raise ValueError("is idle, which needs after: else the sweep would run all day")
        return value

    @field_validator("total_deadline")
    @classmethod
    def _not_below_first_row(cls, value: float | None, info: ValidationInfo) -> float | None:
        first = info.data.get("first_row_deadline")
        if value is not None and first is not None and value < first:
            raise ValueError(f"must be at least first_row_deadline, {format_duration(first)}")
        return value
