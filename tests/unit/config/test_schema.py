"""The frozen models: what code gets, how code may make one, and that the file means what it says."""

from __future__ import annotations

from datetime import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from gpumond.config.load import default_config, parse
from gpumond.config.reserved import RESERVED_ARGUMENTS, RESERVED_ENVIRONMENT, check_environment_name
from gpumond.config.schema import Config, GpuSetConfig, LogLevel, SnapshotConfig, SweepConfig
from gpumond.config.values import Day, ListenAddress, TimeWindow
from gpumond.log import LEVELS
from gpumond.model.benchmark import Collective
from gpumond.process.environment import RESERVED

UUIDS = ("GPU-00000000-0000-4000-8000-00000000a000", "GPU-00000000-0000-4000-8000-00000000a001")

FULL = f"""
[store]
directory = "/srv/gpumond"
keep_points = "60d"
min_free = "1GiB"

[web]
listen_address = "[::1]:0"

[snapshot]
interval = "1h30m"

[gpu_sets]
pair = {list(UUIDS)}
same = {{ uuids = {list(UUIDS)} }}
numa0 = {{ numa_node = 0 }}

[engines.nccl_tests]
directory = "/opt/nccl-tests/build"
library_path = ["/usr/local/cuda/lib64"]
launcher = ["numactl", "--localalloc"]

[benchmark]
environment = {{ NCCL_NVLS_ENABLE = "0" }}

[[sweep]]
name = "nightly"
gpu_sets = ["all", "pair"]
collectives = ["all_reduce"]
min_size = 8
max_size = "1G"
window = "22:00-04:00"
timezone = "Europe/Berlin"
days = ["sat", "sun"]
extra_arguments = ["-R", "1"]
total_deadline = "10m"

[simulate]
scenario = "hgx-h200-8"
pace = 10
"""


def test_a_file_in_base_units():
    config = parse(FULL, name="full")
    assert config.store.directory == Path("/srv/gpumond")
    assert config.store.keep_points == 60 * 86_400.0
    assert config.store.min_free == 1 << 30
    assert config.web.listen_address == ListenAddress("::1", 0)
    assert config.snapshot.interval == 5400.0
    assert config.gpu_sets["pair"] == config.gpu_sets["same"] == GpuSetConfig(uuids=UUIDS)
    assert config.gpu_sets["numa0"].numa_node == 0
    assert config.engines.nccl_tests.launcher == ("numactl", "--localalloc")
    assert config.benchmark.environment == {"NCCL_NVLS_ENABLE": "0"}
    assert config.simulate is not None
    assert config.simulate.pace == 10.0
    (sweep,) = config.sweeps
    assert sweep.collectives == (Collective.ALL_REDUCE,)
    assert (sweep.min_size, sweep.max_size) == (8, 1 << 30)
    assert sweep.window == TimeWindow(time(22), time(4))
    assert sweep.days == (Day.SAT, Day.SUN)
    assert sweep.extra_arguments == ("-R", "1")
    assert (sweep.first_row_deadline, sweep.total_deadline) == (None, 600.0)


def test_defaults():
    config = default_config()
    assert config == Config()
    assert config.web.listen_address == ListenAddress("", 10061)
    assert config.snapshot.interval == 60.0
    assert config.benchmark.lock_file == Path("/run/lock/gpumond/gpu.lock")
    assert config.simulate is None
    assert SweepConfig(name="x").days == tuple(Day)


def test_code_may_write_seconds_but_a_file_may_not():
    assert SnapshotConfig(interval=2.5).interval == 2.5
    assert SnapshotConfig(interval=2).interval == 2.0
    with pytest.raises(ValidationError):
        SnapshotConfig(interval=True)
    assert SweepConfig(name="x", window=TimeWindow(time(1), time(2))).window.start == time(1)
    assert SweepConfig(name="x", first_row_deadline=None).first_row_deadline is None
    assert Config(gpu_sets={"pair": GpuSetConfig(uuids=UUIDS)}).gpu_sets["pair"].uuids == UUIDS


def test_a_configuration_does_not_change():
    config = default_config()
    with pytest.raises(ValidationError):
        config.store.min_free = 0
    with pytest.raises(ValidationError):
        config.store = None


def test_a_default_that_does_not_fit_the_rest_is_a_mistake_too():
    with pytest.raises(ValidationError, match="less than min_size"):
        SweepConfig(name="x", min_size=4 << 30)
    with pytest.raises(ValidationError, match="leaves less than 5m"):
        SweepConfig(name="x", spread=3 * 3600.0)


def test_a_spread_may_leave_five_minutes():
    assert SweepConfig(name="x", spread=3 * 3600.0 - 300).spread == 10_500.0


def test_levels_are_those_of_the_log():
    assert {level.value for level in LogLevel} == set(LEVELS)


@pytest.mark.parametrize(
    "name", ["NCCL_DEBUG", "NCCL_NVLS_ENABLE", "RCCL_MSCCL_ENABLE", "HSA_NO_SCRATCH_RECLAIM", "UCX_TLS"]
)
def test_allowed_environment(name):
    assert check_environment_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *RESERVED_ENVIRONMENT,
        "HOME",
        "SLURM_JOB_ID",
        "CUDA_LAUNCH_BLOCKING",
        "",
        "nccl_debug",
        "NCCL_Ä",
        "NCCL_X\n",
    ],
)
def test_refused_environment(name):
    with pytest.raises(ValueError, match=r"^(is|would|must)"):
        check_environment_name(name)


def test_whatever_a_child_refuses_is_refused_here_with_a_line():
    """process/environment.py raises for these names when a benchmark starts, which is in the night."""
    spelled = RESERVED.pattern.replace("(_MASK)?", "|NCCL_TESTS_SPLIT_MASK").replace(
        "GPUMOND_.*", "GPUMOND_X"
    )
    names = spelled.split("|")
    assert "NCCL_TESTS_SPLIT_MASK" in names
    for name in names:
        assert RESERVED.fullmatch(name)
        with pytest.raises(ValueError, match=r"^(is|would|must)"):
            check_environment_name(name)


@pytest.mark.parametrize("option", [word for words in RESERVED_ARGUMENTS for word in words])
def test_options_that_have_a_key_are_refused(option):
    with pytest.raises(ValidationError, match="cannot be set here"):
        SweepConfig(name="x", extra_arguments=(option,))


@pytest.mark.parametrize("option", ["-R", "1", "-S", "--local_register=1", "-", "--", "0", "-z", "-G"])
def test_other_options_pass(option):
    assert SweepConfig(name="x", extra_arguments=(option,)).extra_arguments == (option,)


def test_every_key_is_described():
    def walk(model):
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"
            inner = field.annotation
            if isinstance(inner, type) and hasattr(inner, "model_fields"):
                walk(inner)

    walk(Config)
    walk(SweepConfig)
    walk(GpuSetConfig)
