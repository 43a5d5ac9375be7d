"""Every setting: its type, its bounds, its default, and the text of docs/configuration.md.

Owns the shape of `/etc/gpumond/config.toml` as frozen models; `[[sweep]]` has a module of its own, sweep_schema.py.
Knows no file and no line numbers, and touches the host only to ask whether a time zone exists. Checks that need more
than one table are in references.py.

Invariants: a value here is in base units (seconds, bytes); an unknown key is an error; every field has a description.
Integers and booleans are strict, so that `"8"` and `true` are no numbers; lists become tuples. `NEEDS_RESTART` marks
what a reload cannot change.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Self, TypeAlias

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from gpumond.config.durations import SECONDS_PER_DAY
from gpumond.config.glance import (
    DEFAULT_SNAPSHOT_DEADLINE_SECONDS,
    DEFAULT_SNAPSHOT_INTERVAL_SECONDS,
    DEFAULT_STATE_DIRECTORY,
)
from gpumond.config.guards_schema import GuardsConfig
from gpumond.config.reserved import check_environment_name, check_environment_value
from gpumond.config.sweep_schema import ALL_GPUS, SweepConfig
from gpumond.config.table import NEEDS_RESTART, MaybeEmptyList, Table, UniqueList
from gpumond.config.values import (
    LARGEST_BYTES,
    MIB,
    AbsolutePath,
    Address,
    Bytes,
    GpuUuidText,
    ListenAddress,
    Name,
    Seconds,
    between,
    bytes_between,
    seconds_between,
)

__all__ = ["ALL_GPUS", "Config", "GpuSetConfig", "LogFormat", "LogLevel", "SweepConfig"]

PORT: Final = 10_061


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


class StoreConfig(Table):
    """The history: one SQLite database in a directory of its own."""

    directory: Annotated[
        AbsolutePath,
        Field(
            description="Where the database is kept. It must be on a local disk, writable for the daemon; SQLite's "
            "write-ahead log does not work over NFS.",
            examples=["/srv/gpumond"],
        ),
        NEEDS_RESTART,
    ] = DEFAULT_STATE_DIRECTORY
    keep_points: Annotated[
        Seconds,
        seconds_between(30 * SECONDS_PER_DAY, 36_500 * SECONDS_PER_DAY),
        Field(
            description="How long measured points, runs and topology changes are kept. A nightly sweep writes about "
            "50 points a night. Below 30 days no baseline could be learned.",
            examples=["730d"],
        ),
    ] = 1_825.0 * SECONDS_PER_DAY
    keep_output: Annotated[
        Seconds,
        seconds_between(0, 36_500 * SECONDS_PER_DAY),
        Field(description="How long the raw output of successful runs is kept.", examples=["7d"]),
    ] = 30.0 * SECONDS_PER_DAY
    keep_failed_output: Annotated[
        Seconds,
        seconds_between(0, 36_500 * SECONDS_PER_DAY),
        Field(
            description="How long the raw output of all other runs is kept: it is the evidence of a fault.",
            examples=["90d"],
        ),
    ] = 365.0 * SECONDS_PER_DAY
    min_free: Annotated[
        Bytes,
        bytes_between(0, LARGEST_BYTES),
        Field(
            description="With less free space than this on the store's file system no sweep is started. Snapshots "
            "and the exporter go on.",
            examples=["1GiB"],
        ),
    ] = 256 * MIB


class LogConfig(Table):
    """What the daemon says on standard error; under systemd that is the journal."""

    level: Annotated[
        LogLevel, Field(description="The least serious event that is written.", examples=["debug"])
    ] = LogLevel.INFO
    format: Annotated[
        LogFormat,
        Field(
            description="`json` is one object a line, `text` is for people, `auto` is `text` on a terminal and "
            "`json` everywhere else.",
            examples=["json"],
        ),
    ] = LogFormat.AUTO


def _check_textfile(path: Path) -> Path:
    if path.suffix != ".prom":
        raise ValueError("must end in .prom: node_exporter reads no other files")
    return path


class WebConfig(Table):
    """The HTTP server: metrics, health, status page."""

    enabled: Annotated[
        StrictBool,
        Field(
            description="Without it no port is opened: no metrics, no page and no health over HTTP. `[textfile]` is the "
            "other way out for metrics.",
            examples=[False],
        ),
        NEEDS_RESTART,
    ] = True
    listen_address: Annotated[
        Address,
        Field(
            description="Host and port. An empty host is every address of the machine; IPv6 stands in brackets; port "
            "0 lets the kernel choose one. Without `config_file` there is neither TLS nor a password.",
            examples=["127.0.0.1:10061", "[::1]:10061"],
        ),
        NEEDS_RESTART,
    ] = ListenAddress("", PORT)
    config_file: Annotated[
        AbsolutePath | None,
        Field(
            description="A web configuration file, as Prometheus' exporters have it: TLS, client certificates, "
            "passwords. docs/monitoring.md has its keys. `--web.config.file` comes before this. A reload reads the file "
            "and its certificates again.",
            examples=["/etc/gpumond/web.yml"],
        ),
    ] = None


class TextfileConfig(Table):
    """The metrics as a file for node_exporter's textfile collector, for hosts that may open no port.

    It holds every `gpumond_` metric of `/metrics`, is replaced as a whole, and is removed when the daemon ends.
    """

    file: Annotated[
        AbsolutePath,
        AfterValidator(_check_textfile),
        Field(
            description="The file; its name must end in `.prom`. The directory must exist and be writable for the daemon. "
            "The unit makes `/run/gpumond`, and removes it with what is in it when the daemon is gone: give it to "
            "node_exporter as `--collector.textfile.directory=/run/gpumond`.",
            examples=["/run/gpumond/gpumond.prom"],
        ),
        NEEDS_RESTART,
    ]
    interval: Annotated[
        Seconds,
        seconds_between(1, 3600),
        Field(
            description="From one writing to the next; as often as Prometheus scrapes node_exporter.",
            examples=["60s"],
        ),
        NEEDS_RESTART,
    ] = 15.0


class SnapshotConfig(Table):
    """How often the GPUs and their links are looked at, by a short-lived child process."""

    interval: Annotated[
        Seconds,
        seconds_between(1, SECONDS_PER_DAY),
        Field(
            description="From one snapshot to the next. A snapshot is a child process that lives for one or two "
            "seconds.",
            examples=["5m"],
        ),
    ] = DEFAULT_SNAPSHOT_INTERVAL_SECONDS
    deadline: Annotated[
        Seconds,
        seconds_between(0.1, 600),
        Field(
            description="A snapshot that takes longer counts as failed, and its process is killed. A dying GPU can "
            "block a driver call for ever.",
            examples=["30s"],
        ),
    ] = DEFAULT_SNAPSHOT_DEADLINE_SECONDS
    errors_every: Annotated[
        StrictInt,
        between(1, 10_000),
        Field(
            description="Link error counters are read with every Nth snapshot: they are a quarter of its calls.",
            examples=[1],
        ),
    ] = 5
    kernel_log: Annotated[
        StrictBool,
        Field(
            description="Whether the kernel log is searched for Xids, SXids and PCIe errors of the GPUs with each "
            "snapshot. The daemon's user must be in the group systemd-journal; if it is not, nothing is evaluated and "
            "`gpumond doctor` says so.",
            examples=[False],
        ),
    ] = True


class GpuSetConfig(Table):
    """A name for some GPUs of this host. The name `all` is built in and means every GPU.

    A set has either `uuids` or `numa_node`. Instead of a table the list of UUIDs itself may be written:
    `pair = ["GPU-...", "GPU-..."]` in the table `[gpu_sets]`.
    """

    uuids: Annotated[
        UniqueList[GpuUuidText] | None,
        Field(
            description="The members by UUID, as `gpumond topology` prints them.",
            examples=[
                ["GPU-5a0f8c1e-1b2c-4d3e-8f90-a1b2c3d4e5f6", "GPU-7c1e9d2f-2c3d-4e5f-9a01-b2c3d4e5f607"]
            ],
        ),
    ] = None
    numa_node: Annotated[
        StrictInt | None,
        between(0, 4095),
        Field(description="The members are all GPUs attached to this NUMA node.", examples=[0]),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _list_is_uuids(cls, value: object) -> object:
        if isinstance(value, list | tuple):
            return {"uuids": value}
        if not isinstance(value, Mapping | GpuSetConfig):
            raise ValueError("must be a list of UUIDs, or a table with uuids or numa_node")  # noqa: TRY004 - pydantic collects ValueErrors only
        return value

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.uuids is None) == (self.numa_node is None):
            raise ValueError("must have either uuids or numa_node")
        return self


class NcclTestsConfig(Table):
    """Where the programs of nccl-tests (on AMD hosts: rccl-tests) are. gpumond neither builds nor ships them."""

    directory: Annotated[
        AbsolutePath | None,
        Field(
            description="The directory that holds `all_reduce_perf` and its siblings. If set, it is the only one: "
            "a typo must not measure another build. If not, the usual places of cloud images and packages are tried, "
            "then `PATH`; `gpumond doctor` prints what it found.",
            examples=["/opt/nccl-tests/build"],
        ),
    ] = None
    library_path: Annotated[
        tuple[AbsolutePath, ...],
        Field(
            description="Becomes `LD_LIBRARY_PATH` of the benchmark: where `libnccl.so.2` and the CUDA runtime are, "
            "if the loader does not find them. Nothing is inherited from the daemon's own environment.",
            examples=[["/usr/local/cuda/lib64"]],
        ),
    ] = ()
    launcher: Annotated[
        tuple[StrictStr, ...],
        Field(
            description="Words in front of the program, such as `numactl` with its options, or `mpirun` and `srun` for a "
            "build with MPI. `{gpus}` becomes the number of GPUs of the set. There is no shell.",
            examples=[["numactl", "--localalloc"], ["mpirun", "-np", "{gpus}"]],
        ),
    ] = ()
    process_per_gpu: Annotated[
        StrictBool,
        Field(
            description="Whether the launcher starts a process for each GPU, each of which is told `-g 1`. Otherwise one "
            "process has all GPUs of the set.",
            examples=[True],
        ),
    ] = False

    @model_validator(mode="after")
    def _processes_need_a_launcher(self) -> Self:
        if self.process_per_gpu and not self.launcher:
            raise ValueError("process_per_gpu needs a launcher that starts the processes")
        return self


class TorchConfig(Table):
    """torch.distributed as an engine: a process of this Python for each GPU."""

    python: Annotated[
        AbsolutePath | None,
        Field(
            description="The interpreter of an environment that has torch: your users' own, so that what is measured is "
            "the NCCL that their jobs load. By default gpumond's own, where gpumond[torch] is installed. Packages below "
            "a home directory are not found.",
            examples=["/opt/conda/envs/train/bin/python"],
        ),
    ] = None


class EnginesConfig(Table):
    """What measures."""

    nccl_tests: Annotated[NcclTestsConfig, Field(description="nccl-tests or rccl-tests.")] = NcclTestsConfig()
    torch: Annotated[TorchConfig, Field(description="torch.distributed.")] = TorchConfig()
    trusted_owners: Annotated[
        MaybeEmptyList[StrictStr],
        Field(
            description="Where gpumond runs as root: users whose programs it may start besides root's own. Whoever can "
            "replace a benchmark becomes what gpumond is. As a user of its own, which is what its unit gives it, "
            "gpumond does not ask.",
            examples=[["builder"]],
        ),
    ] = ()


EnvironmentName: TypeAlias = Annotated[StrictStr, AfterValidator(check_environment_name)]
EnvironmentValue: TypeAlias = Annotated[StrictStr, AfterValidator(check_environment_value)]


class BenchmarkConfig(Table):
    """What all benchmark processes have in common."""

    environment: Annotated[
        Mapping[EnvironmentName, EnvironmentValue],
        Field(
            description="Variables that every benchmark gets, on top of gpumond's own short list. Allowed are "
            "`NCCL_*`, `RCCL_*`, `HSA_*`, `UCX_*`, `FI_*` and `OFI_NCCL_*`; what gpumond sets itself, such as "
            "`CUDA_VISIBLE_DEVICES`, is refused. They are part of a series: a change begins a new one.",
            examples=[{"NCCL_NVLS_ENABLE": "0"}],
        ),
    ] = {}
    lock_file: Annotated[
        AbsolutePath,
        Field(
            description="Held while a benchmark runs, by whoever started it, so that two never meet on one machine. "
            "Everybody who measures must use the same file.",
            examples=["/run/lock/gpu.lock"],
        ),
        NEEDS_RESTART,
    ] = Path("/run/lock/gpumond/gpu.lock")


def _check_set_name(name: str) -> str:
    if name == ALL_GPUS:
        raise ValueError("is built in: every GPU of this host")
    return name


SetName: TypeAlias = Annotated[Name, AfterValidator(_check_set_name)]
Number: TypeAlias = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class SimulateConfig(Table):
    """A made-up host in the place of this one, for demonstrations and tests. Everything it shows is marked as such."""

    scenario: Annotated[
        StrictStr,
        Field(description="The name of the made-up host.", examples=["hgx-h200-8"]),
        NEEDS_RESTART,
    ]
    faults: Annotated[
        MaybeEmptyList[StrictStr],
        Field(
            description="What goes wrong on it, as `kind,key=value`: `gpu_lost`, `link_down`, `nic_down`, `pcie_width`, "
            "`gpu_busy` and others; a word that is none is refused with those that are. `after_seconds` counts from the "
            "start of the gpumond that looks.",
            examples=[["link_down,gpu=3,link=7,after_seconds=60"]],
        ),
        NEEDS_RESTART,
    ] = ()
    pace: Annotated[
        Number,
        between(0.001, 1000),
        Field(
            description="How many times faster than the real one a made-up benchmark runs.",
            examples=[10.0],
        ),
        NEEDS_RESTART,
    ] = 1.0


class Config(Table):
    """The whole file. Every table may be left out."""

    store: Annotated[StoreConfig, Field(description="The history.")] = StoreConfig()
    log: Annotated[LogConfig, Field(description="What the daemon says.")] = LogConfig()
    web: Annotated[WebConfig, Field(description="The HTTP server.")] = WebConfig()
    textfile: Annotated[TextfileConfig | None, Field(description="The metrics as a file."), NEEDS_RESTART] = (
        None
    )
    snapshot: Annotated[SnapshotConfig, Field(description="Looking at the GPUs.")] = SnapshotConfig()
    gpu_sets: Annotated[
        Mapping[SetName, GpuSetConfig],
        Field(description="Names for some GPUs of this host, beside the built-in `all`."),
    ] = {}
    engines: Annotated[EnginesConfig, Field(description="What measures.")] = EnginesConfig()
    benchmark: Annotated[BenchmarkConfig, Field(description="What all benchmarks share.")] = BenchmarkConfig()
    guards: Annotated[GuardsConfig, Field(description="What must be so before a benchmark runs.")] = (
        GuardsConfig()
    )
    sweeps: Annotated[
        tuple[SweepConfig, ...], Field(alias="sweep", description="Benchmarks and when they run.")
    ] = ()
    simulate: Annotated[
        SimulateConfig | None, Field(description="A made-up host in the place of this one."), NEEDS_RESTART
    ] = None
