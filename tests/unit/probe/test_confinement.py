from __future__ import annotations

import os
from pathlib import Path

from gpumond.model.reading import NOT_SUPPORTED, Value
from gpumond.probe.confinement import read_container_devices, read_cpuset


def test_the_cpuset_and_the_devices_of_the_container(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text(
        "Name:\tpython\nCpus_allowed_list:\t0-63\nMems_allowed_list:\t0-1\n"
    )
    assert read_cpuset(tmp_path) == Value("CPUs 0-63; memory nodes 0-1")
    assert read_container_devices({"NVIDIA_VISIBLE_DEVICES": "0,1"}) == Value("0,1")
    assert read_container_devices({}) == Value("")


def test_a_process_without_a_status_is_not_confined(tmp_path):
    assert read_cpuset(tmp_path) == NOT_SUPPORTED


def test_this_process():
    cpus = sorted(os.sched_getaffinity(0))
    assert f"CPUs {cpus[0]}" in read_cpuset(Path("/proc")).value
