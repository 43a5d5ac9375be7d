"""What is read of the host for a fingerprint, from real files."""

import os

from history_values import make_run, make_sweep

from gpumond.sweep.host_inputs import read_host_inputs


def test_the_bytes_of_the_benchmark_count_and_a_new_binary_shows(tmp_path):
    program = tmp_path / "all_reduce_perf"
    program.write_bytes(b"one")
    run = make_run(make_sweep(), command=(str(program), "-b", "8"))
    first = read_host_inputs(run)
    assert len(first.benchmark_sha256) == 16
    assert read_host_inputs(run) == first
    program.write_bytes(b"two")
    os.utime(program, ns=(0, 1))
    assert read_host_inputs(run).benchmark_sha256 != first.benchmark_sha256


def test_what_cannot_be_read_is_empty(tmp_path):
    run = make_run(make_sweep(), command=(str(tmp_path / "nothing"),))
    assert read_host_inputs(run).benchmark_sha256 == ""
    assert read_host_inputs(make_run(make_sweep(), command=())).benchmark_sha256 == ""


def test_the_kernel_is_asked_for_its_command_line(tmp_path):
    found = read_host_inputs(make_run(make_sweep(), command=()))
    assert found.command_line
    assert set(found.conf_sha256) == {"/etc/nccl.conf", "/etc/rccl.conf"}


def test_behind_a_launcher_it_is_the_benchmark_that_counts(tmp_path):
    program = tmp_path / "all_reduce_perf"
    program.write_text("one build")
    run = make_run(make_sweep(), command=("/usr/bin/numactl", "--localalloc", str(program), "-b", "8"))
    first = read_host_inputs(run).benchmark_sha256
    program.write_text("another build")
    assert read_host_inputs(run).benchmark_sha256 not in ("", first)
