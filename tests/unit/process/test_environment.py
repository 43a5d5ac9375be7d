from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.config.reserved import ALLOWED_ENVIRONMENT_PREFIXES, RESERVED_ENVIRONMENT
from gpumond.errors import UsageError
from gpumond.model.topology import Vendor
from gpumond.process.environment import benchmark_environment, probe_environment

UUIDS = ("GPU-00000000-0000-4000-8000-00000000a000", "GPU-00000000-0000-4000-8000-00000000a001")
ROCR_UUIDS = ("GPU-95479ac5c8bf3b4f", "GPU-0c3b8ee43d0bafc2")
CHOSEN = {Vendor.NVIDIA: UUIDS, Vendor.AMD: ROCR_UUIDS}
RUN = Path("/run/gpumond/runs/20261129T020000Z-1a2b3c")

ALWAYS = {
    *("PATH", "LC_ALL", "HOME"),
    *("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "NCCL_CONF_FILE"),
}
PROBE = {"PATH", "LC_ALL", "LD_LIBRARY_PATH", "ROCM_HOME", "ROCM_PATH"}
VISIBLE = {
    Vendor.NVIDIA: {"CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"},
    Vendor.AMD: {"ROCR_VISIBLE_DEVICES"},
}

names = st.one_of(
    st.sampled_from(
        [
            *(
                "NCCL_DEBUG",
                "NCCL_P2P_DISABLE",
                "NCCL_DEBUG_FILE",
                "CUDA_VISIBLE_DEVICES",
                "CUDA_LAUNCH_BLOCKING",
            ),
            *(
                "SLURM_JOB_ID",
                "OMPI_COMM_WORLD_RANK",
                "LD_PRELOAD",
                "LD_LIBRARY_PATH",
                "HOME",
                "PATH",
                "PYTHONPATH",
            ),
            *("HIP_VISIBLE_DEVICES", "AWS_SECRET_ACCESS_KEY", "NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY"),
        ]
    ),
    st.from_regex(r"[A-Z_]{1,12}", fullmatch=True),
)
values = st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=20)
SECRET = "s3cr3t-\N{KEY}"


def benchmark(base=None, *, extra=None, library_path=(), vendor=Vendor.NVIDIA, gpu_uuids=None):
    return benchmark_environment(
        base or {},
        gpu_uuids=CHOSEN[vendor] if gpu_uuids is None else gpu_uuids,
        extra=extra or {},
        home=RUN / "home",
        run_directory=RUN,
        library_path=library_path,
        vendor=vendor,
    )


def test_the_environment_of_a_benchmark():
    base = {
        "PATH": "/opt/bin:/usr/bin",
        "HOME": "/root",
        "NCCL_DEBUG": "TRACE",
        "LD_LIBRARY_PATH": "/opt/old",
    }
    assert benchmark(
        base, extra={"NCCL_ALGO": "Ring"}, library_path=(Path("/opt/nccl/lib"), Path("/usr/local/cuda/lib64"))
    ) == {
        "PATH": "/opt/bin:/usr/bin",
        "LC_ALL": "C",
        "HOME": f"{RUN}/home",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": f"{UUIDS[0]},{UUIDS[1]}",
        "LD_LIBRARY_PATH": "/opt/nccl/lib:/usr/local/cuda/lib64",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ENV",
        "NCCL_DEBUG_FILE": f"{RUN}/nccl.%h.%p.log",
        "NCCL_CONF_FILE": f"{RUN}/nccl.conf",
        "NCCL_ALGO": "Ring",
    }


@given(st.dictionaries(names, values), st.sampled_from(Vendor))
def test_no_name_but_those_allowed_ever_appears(base, vendor):
    assert set(benchmark(base, vendor=vendor)) == ALWAYS | VISIBLE[vendor]
    assert set(probe_environment(base)) <= PROBE


@given(st.sets(names.filter(lambda name: name not in PROBE), min_size=1))
def test_no_value_of_whoever_started_the_daemon_reaches_a_child(secret_names):
    base = dict.fromkeys(secret_names, SECRET) | {"LD_LIBRARY_PATH": SECRET}
    assert SECRET not in "".join(benchmark(base).values())
    base["LD_LIBRARY_PATH"] = "/usr/lib"
    assert SECRET not in "".join(probe_environment(base).values())


def test_amd_gpus_are_chosen_by_uuid_below_hip():
    environment = benchmark({"HIP_VISIBLE_DEVICES": "1"}, vendor=Vendor.AMD)
    assert environment["ROCR_VISIBLE_DEVICES"] == ",".join(ROCR_UUIDS)
    assert "HIP_VISIBLE_DEVICES" not in environment


@pytest.mark.parametrize(
    "uuid",
    [
        "95ff74a1-0000-1000-8047-9ac5c8bf3b4f",  # as amdsmi writes it: longer than ROCr accepts
        "GPU-95ff74a1-0000-1000-8047-9ac5c8bf3b4f",
        "GPU-XX-0000:0c:00.0",  # our name for a GPU without a unique id
        "GPU-9547",  # ROCr takes the beginning of a name too, but we never write one
    ],
)
def test_a_name_that_rocr_does_not_know_is_refused_before_it_hides_every_gpu(uuid):
    with pytest.raises(UsageError, match="ROCr cannot be told"):
        benchmark(vendor=Vendor.AMD, gpu_uuids=(ROCR_UUIDS[0], uuid))


def test_a_probe_finds_a_rocm_in_a_directory_of_its_own():
    base = {"ROCM_PATH": "/opt/rocm-7.0.2", "HSA_OVERRIDE_GFX_VERSION": "9.4.2"}
    assert probe_environment(base)["ROCM_PATH"] == "/opt/rocm-7.0.2"
    assert "HSA_OVERRIDE_GFX_VERSION" not in probe_environment(base)


def test_nccl_debug_is_the_operators_to_raise():
    assert benchmark(extra={"NCCL_DEBUG": "WARN"})["NCCL_DEBUG"] == "WARN"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "CUDA_VISIBLE_DEVICES",
            "CUDA_DEVICE_ORDER",
            "ROCR_VISIBLE_DEVICES",
            "HIP_VISIBLE_DEVICES",
            "HOME",
            "LC_ALL",
        ),
        *(
            "NCCL_DEBUG_FILE",
            "NCCL_CONF_FILE",
            "NCCL_TESTS_DEVICE",
            "NCCL_TESTS_SPLIT",
            "NCCL_TESTS_SPLIT_MASK",
        ),
        *("GPUMOND_CHILD", "PATH", "LD_LIBRARY_PATH"),
    ],
)
def test_what_gpumond_sets_cannot_be_configured(name):
    with pytest.raises(UsageError, match=f"environment variable {name} is set by gpumond itself"):
        benchmark(extra={name: "0"})


def test_whatever_the_configuration_refuses_is_refused_here_too():
    for name in RESERVED_ENVIRONMENT:
        with pytest.raises(UsageError):
            benchmark(extra={name: "0"})
    for prefix in ALLOWED_ENVIRONMENT_PREFIXES:
        assert benchmark(extra={f"{prefix}X": "0"})[f"{prefix}X"] == "0"


@pytest.mark.parametrize(("name", "value"), [("A=B", "1"), ("", "1"), ("1A", "1"), ("NCCL_ALGO", "a\0b")])
def test_what_is_no_variable_is_refused(name, value):
    with pytest.raises(UsageError):
        benchmark(extra={name: value})


def test_without_gpus_there_is_no_environment():
    with pytest.raises(ValueError, match="would hide them all"):
        benchmark(gpu_uuids=())


def test_a_probe_finds_the_drivers_library_where_the_daemon_does():
    base = {"PATH": "/bin", "LD_LIBRARY_PATH": "/opt/fake", "PYTHONPATH": "/x", "NCCL_DEBUG": "INFO"}
    assert probe_environment(base, extra={"SCENARIO": "x.json"}) == {
        "PATH": "/bin",
        "LD_LIBRARY_PATH": "/opt/fake",
        "LC_ALL": "C",
        "SCENARIO": "x.json",
    }


def test_an_empty_path_of_ours_is_not_handed_down():
    """An empty PATH means the working directory."""
    assert probe_environment({"PATH": ""})["PATH"].startswith("/usr/local/sbin:")
