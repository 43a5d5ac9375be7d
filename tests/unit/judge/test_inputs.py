"""Which inputs a run has, what of them cannot be read, and what is no input."""

from dataclasses import replace
from pathlib import Path

import pytest
from history_values import make_gpu, make_pair, make_point, make_run, make_snapshot, make_sweep, measured

from gpumond.judge.inputs import HostInputs, fingerprint_of
from gpumond.judge.stored_run import is_measured, observation_of
from gpumond.model.reading import NOT_SUPPORTED, Unreadable, UnreadableReason, Value
from gpumond.model.run import TAINTED, Engine, Verdict
from gpumond.model.topology import Vendor
from gpumond.model.watch import LoadSummary, RunWatch
from gpumond.process.environment import benchmark_environment

HOST = HostInputs("ro quiet", "0123456789abcdef", {"/etc/nccl.conf": "absent"})
RUN = measured(
    make_run(make_sweep(), environment={"NCCL_ALGO": "Ring", "NCCL_DEBUG_FILE": "/run/x", "HOME": "/tmp/x"}),
    make_point(),
    library_version="2.28.9",
    tool_version="2.19.6",
)
UNREADABLE = Unreadable(UnreadableReason.NO_PERMISSION)


def inputs(snapshot=None, run=RUN):
    return fingerprint_of(run, snapshot or make_snapshot(), HOST)


def test_everything_that_may_move_a_number_is_in_it():
    found = inputs()
    assert found | {"topology_hash": ""} == {
        "nccl": "2.28.9",
        "benchmark": "nccl-tests 2.19.6",
        "benchmark_sha256": "0123456789abcdef",
        "benchmark_launcher": "none",
        "kernel": "6.1.0",
        "driver": "580.159.04",
        "cuda": "13.0",
        "rocm": "not supported",
        "iommu": "not supported",
        "gpu_uuids": "GPU-a,GPU-b",
        "vbios": "96.00",
        "ecc_mode": "True",
        "mig_mode": "False",
        "persistence_mode": "True",
        "compute_partition": "not supported",
        "memory_partition": "not supported",
        "power_limit": "not supported",
        "clock_limit": "not supported",
        "links": "NV18:2",
        "topology_hash": "",
        "cmdline": "ro quiet",
        "conf./etc/nccl.conf": "absent",
        "env.NCCL_ALGO": "Ring",
    }


def test_two_runs_of_one_host_have_the_same_inputs():
    """A path of the run among them, and every night would begin a new baseline."""

    def inputs_of(directory):
        environment = benchmark_environment(
            {},
            gpu_uuids=["GPU-a", "GPU-b"],
            extra={"NCCL_ALGO": "Ring"},
            home=Path(directory),
            run_directory=Path(directory),
            library_path=[],
            vendor=Vendor.NVIDIA,
        )
        return inputs(run=replace(RUN, environment=environment))

    assert inputs_of("/run/one") == inputs_of("/run/two")


def test_a_value_that_differs_between_gpus_names_each():
    snapshot = make_snapshot(gpus=(make_gpu("a", 1), make_gpu("b", 2, vbios_version=Value("97.00"))))
    assert inputs(snapshot)["vbios"] == "96.00,97.00"


def test_what_one_gpu_does_not_tell_is_not_known():
    snapshot = make_snapshot(gpus=(make_gpu("a", 1), make_gpu("b", 2, vbios_version=UNREADABLE)))
    assert inputs(snapshot)["vbios"] == ""


def test_without_a_snapshot_the_host_is_not_known():
    found = fingerprint_of(RUN, None, HOST)
    assert "driver" not in found
    assert found["nccl"] == "2.28.9"


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({"pairs": (make_pair("b", "a"), make_pair("a", "b"))}, True),  # an order is no topology
        ({"pairs": (make_pair("a", "b", nvlinks=Value(17)), make_pair("b", "a"))}, False),
        ({"gpus": (make_gpu("b", 2, index=1), make_gpu("a", 1, index=0))}, True),
    ],
)
def test_the_topology_hash(change, is_same):
    assert (inputs(make_snapshot(**change))["topology_hash"] == inputs()["topology_hash"]) is is_same


@pytest.mark.parametrize(
    "change",
    [
        {"pairs": (make_pair("a", "b", nvlinks=UNREADABLE), make_pair("b", "a"))},
        {"pairs": ()},
        {"gpus": (make_gpu("a", 1),)},
    ],
)
def test_a_topology_that_cannot_be_read_has_no_hash(change):
    found = inputs(make_snapshot(**change))
    assert found["topology_hash"] == ""
    assert "?" not in found["links"]


def observed(run, **options):
    return observation_of(run, {}, **{"model_busbw": None, "cpu_count": 4, **options})


def test_a_measured_run_is_an_observation():
    watched = replace(RUN, watch=RunWatch(looks=9, longest_gap_seconds=0.1, cpu_load_average=3.0))
    found = observed(watched)
    assert found.busbw == {64 << 20: 267.3e9}
    assert (found.excluded, found.failure, found.cpu_load_per_core) == ("", "", 0.75)
    assert found.track.ranks == 2


@pytest.mark.parametrize(
    ("changes", "excluded", "failure"),
    [
        ({"verdict": Verdict.NOT_EVALUATED, "reason": TAINTED}, TAINTED, ""),
        ({"verdict": Verdict.NOT_EVALUATED, "reason": "truncated", "outcome": "truncated"}, "truncated", ""),
        ({"verdict": Verdict.NOT_EVALUATED, "reason": "", "outcome": ""}, "not_measured", ""),
        ({"verdict": Verdict.FAILED, "reason": "row_stalled", "outcome": "truncated"}, "", "row_stalled"),
        ({"verdict": Verdict.FAILED, "reason": "exit_status"}, "", "exit_status"),
    ],
)
def test_what_is_no_measurement(changes, excluded, failure):
    run = replace(RUN, **changes)
    assert not is_measured(run)
    found = observed(run)
    assert (found.excluded, found.failure, found.busbw) == (excluded, failure, {})


def test_corrupt_data_is_known_even_where_no_row_tells_its_size():
    failed = replace(RUN, verdict=Verdict.FAILED, reason="wrong_results", outcome="wrong_results")
    assert observed(failed).wrong_sizes == (0,)
    assert observed(replace(failed, points=(make_point(8, wrong_elements=2),))).wrong_sizes == (8,)


def test_a_verdict_of_the_judge_does_not_unmake_a_measurement():
    assert is_measured(replace(RUN, verdict=Verdict.NOT_EVALUATED, reason="disturbed"))
    assert is_measured(replace(RUN, verdict=Verdict.DEGRADED, reason="step"))


def test_the_library_has_the_name_of_its_vendor():
    found = inputs(run=replace(RUN, engine=Engine.RCCL_TESTS))
    assert found["rccl"] == "2.28.9"
    assert "nccl" not in found


def test_limits_are_inputs_a_gpu_each_where_they_differ():
    limited = make_gpu("a", 1, power_limit_watts=Value(500.0), sm_clock_limit_hertz=Value(1_980_000_000))
    full = make_gpu("b", 2, power_limit_watts=Value(700.0), sm_clock_limit_hertz=Value(1_980_000_000))
    found = inputs(make_snapshot(gpus=(limited, full)))
    assert (found["power_limit"], found["clock_limit"]) == ("500.0,700.0", "1980000000")


def test_throttling_goes_with_the_observation():
    hot = LoadSummary("GPU-a", 5, event_reasons=0x40)
    watched = replace(RUN, watch=RunWatch(9, 0.1, 3.0, gpus=(hot,)))
    assert observed(watched).throttled == "GPU-a: hardware thermal"


def test_not_supported_is_an_answer():
    snapshot = make_snapshot(
        gpus=(make_gpu("a", 1, ecc_mode=NOT_SUPPORTED), make_gpu("b", 2, ecc_mode=NOT_SUPPORTED))
    )
    assert inputs(snapshot)["ecc_mode"] == "not supported"
