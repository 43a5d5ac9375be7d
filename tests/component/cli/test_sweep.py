"""`gpumond sweep` as its user sees it: what is printed, what is stored, what the exit status says."""

import json
import os
import signal
import threading

import pytest
from benchmark_stand_in import Ending, Script

from gpumond.cli.main import main
from gpumond.clock import SystemClock
from gpumond.guards.lock import hold_lock
from gpumond.store.sqlite import Store

CONFIG = """
[store]
directory = "{directory}/state"
min_free = "0"

[benchmark]
lock_file = "{directory}/run/gpu.lock"

[guards]
quiet_by_hand = "0s"
inhibit_file = "{directory}/inhibit"
"""

SIMULATED = """
[simulate]
scenario = "h200-2-vm"
pace = 1000.0
"""

NIGHTLY = """
[[sweep]]
name = "nightly"
collectives = ["all_reduce"]
"""


@pytest.fixture
def gpumond(tmp_path, capsys):
    """`gpumond(extra, *words)` -> exit status, standard output, standard error."""

    def call(extra, *words):
        config = tmp_path / "config.toml"
        config.write_text(CONFIG.format(directory=tmp_path) + extra)
        code = main([words[0], "--config", str(config), *words[1:]])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def test_the_first_configured_sweep_runs_and_is_stored(gpumond, tmp_path):
    code, out, err = gpumond(SIMULATED + NIGHTLY, "sweep")
    assert code == 0
    assert out.splitlines()[0].split() == [
        "collective",
        "gpu",
        "set",
        "largest",
        "size",
        "busbw",
        "GB/s",
        "#wrong",
        "verdict",
    ]
    assert "sweep nightly: success in" in out
    assert "SIMULATED" in out
    assert "[1/1] all_reduce on all (2 GPUs)" in err
    assert err.count("#wrong 0") == 6
    with Store.open(tmp_path / "state", clock=SystemClock()) as store:
        (sweep,) = store.sweeps(limit=10)
        assert (sweep.name, len(store.runs_of_sweep(sweep.id))) == ("nightly", 1)


def test_options_make_a_sweep_of_its_own(gpumond):
    code, out, _ = gpumond(
        SIMULATED + NIGHTLY,
        "sweep",
        "--collective",
        "sendrecv",
        "--max-size",
        "128MiB",
        "--iterations",
        "5",
        "--json",
    )
    assert code == 0
    report = json.loads(out)
    assert report["sweep"]["name"] == "manual"
    (run,) = report["runs"]
    assert run["collective"] == "sendrecv"
    assert {point["size_bytes"] for point in run["points"]} == {64 << 20, 128 << 20}


def test_without_any_configured_sweep_the_defaults_are_measured(gpumond):
    code, out, _ = gpumond(SIMULATED, "sweep", "--quiet")
    assert code == 0
    assert "sweep manual: success" in out
    assert out.count("2 GiB") == 5


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("weekly",), "no sweep is called 'weekly'"),
        (("nightly", "--iterations", "5"), "a configured sweep cannot be changed by options"),
        (("--gpu-set", "numa9"), "no GPU set is called numa9"),
        (("--min-size", "much"), "--min-size 'much'"),
        (("--iterations", "0"), "that is no sweep"),
    ],
)
def test_what_cannot_be_obeyed_is_a_usage_error(gpumond, words, says):
    code, out, err = gpumond(SIMULATED + NIGHTLY, "sweep", *words)
    assert (code, out) == (2, "")
    assert says in err


def test_the_lock_of_somebody_else_is_exit_status_11(gpumond, tmp_path):
    with hold_lock(tmp_path / "run" / "gpu.lock", purpose="another benchmark", clock=SystemClock()):
        code, out, _ = gpumond(SIMULATED + NIGHTLY, "sweep")
    assert code == 11
    assert "another benchmark" in out


def test_wrong_data_is_exit_status_1(gpumond, tmp_path, monkeypatch, two_h200_driver, benchmark_stand_in):
    benchmark_stand_in(tmp_path / "programs", {"all_reduce_perf": Script(wrong_in_row=29)})
    for name, value in two_h200_driver.items():
        monkeypatch.setenv(name, value)
    extra = f'[engines.nccl_tests]\ndirectory = "{tmp_path}/programs"\n{NIGHTLY}min_size = "8"\n'
    code, out, _ = gpumond(extra, "sweep")
    assert code == 1
    assert "failed (wrong_results)" in out


def test_no_driver_is_exit_status_12(gpumond, monkeypatch, tmp_path):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    code, out, _ = gpumond(NIGHTLY, "sweep")
    assert code == 12
    assert "LIBRARY_NOT_FOUND" in out


def test_no_benchmark_is_exit_status_12_and_names_upstream(gpumond, monkeypatch, tmp_path, two_h200_driver):
    for name, value in two_h200_driver.items():
        monkeypatch.setenv(name, value)
    extra = f'[engines.nccl_tests]\ndirectory = "{tmp_path}/nowhere"\n{NIGHTLY}'
    code, out, _ = gpumond(extra, "sweep")
    assert code == 12
    assert "all_reduce_perf is not in" in out
    assert "NVIDIA/nccl-tests" in out


def test_interrupting_ends_the_benchmark_and_keeps_the_record(
    gpumond, tmp_path, monkeypatch, two_h200_driver, benchmark_stand_in
):
    benchmark_stand_in(tmp_path / "programs", {"all_reduce_perf": Script(ending=Ending.HANG, after_row=3)})
    for name, value in two_h200_driver.items():
        monkeypatch.setenv(name, value)
    extra = f'[engines.nccl_tests]\ndirectory = "{tmp_path}/programs"\n{NIGHTLY}min_size = "8"\n'
    threading.Timer(4.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    code, out, _ = gpumond(extra, "sweep")
    assert code == 3
    assert "interrupted by SIGINT" in out


def test_doctor_finds_a_simulated_host_complete(gpumond):
    code, out, _ = gpumond(SIMULATED + NIGHTLY, "doctor")
    assert code == 0, out
    assert "0 missing" in out
    assert "2 x NVIDIA H200" in out
    code, out, _ = gpumond(SIMULATED + NIGHTLY, "doctor", "--json")
    assert {check["level"] for check in json.loads(out)} <= {"ok", "note", "warning"}


def test_doctor_says_what_is_missing(gpumond, monkeypatch, tmp_path):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, _ = gpumond("", "doctor")
    assert code == 12
    assert "NVIDIA/nccl-tests" in out
    assert "Install the GPU driver" in out


def test_doctor_reads_a_wrong_configuration_aloud(gpumond):
    code, out, _ = gpumond("[web]\nport = 1\n", "doctor")
    assert code == 12
    assert "unknown key" in out


def test_demo_once_ends_by_itself(capsys):
    assert main(["demo", "--once", "--port", "0", "--pace", "1000", "--scenario", "h200-2-vm"]) == 0
    out = capsys.readouterr().out
    assert "SIMULATED" in out
    assert "sweep demo: success" in out


def test_commissioning_makes_a_baseline_in_one_evening(gpumond, tmp_path):
    code, out, err = gpumond(
        SIMULATED + NIGHTLY, "sweep", "--repeat", "5", "--accept", "--reason", "new host", "--quiet"
    )
    assert code == 0
    assert out.count("sweep nightly: success") == 5
    assert "the new baseline is accepted: nightly/simulated/all" in err
    code, out, _ = gpumond(SIMULATED + NIGHTLY, "baseline", "show")
    assert "nightly all all_reduce: frozen, 5 nights" in out
    assert gpumond(SIMULATED + NIGHTLY, "sweep", "--quiet")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--repeat", "0"),
        ("--repeat", "2", "--json"),
        ("--accept", "--reason", "x"),
        ("--repeat", "5", "--accept"),
    ],
)
def test_commissioning_wants_enough_runs_and_a_reason(gpumond, words):
    assert gpumond(SIMULATED + NIGHTLY, "sweep", *words)[0] == 2
